"""One random number that depends on a seed alone; `seeded_random` draws many, with numpy."""

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 2**64


def draw_number(seed: int) -> float:
    """The first number of the seed, from 0 up to 1, by splitmix64."""
    mixed = (seed + 2) * STEP % _BITS
    mixed = (mixed ^ (mixed >> 30)) * FIRST % _BITS
    mixed = (mixed ^ (mixed >> 27)) * SECOND % _BITS
    mixed ^= mixed >> 31
    return (mixed >> 11) / 2**53
