"""What became of jobs that shared: how much less, or more, they got done than was predicted.

For every two kinds of jobs that were seen together, with and without MPS apart, a factor on later
predictions. Plain numbers, so that it can be stored. A kind whose fault ended its company shares no
more. Speeds in company never become speeds alone: they end here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

PAIRS_MAX = 2000
WEIGHT = 0.5  # of the newest observation
_FACTORS = (0.2, 1.25)  # one bad measurement decides nothing for ever, a good one promises little
_DONE = "done"
_FAULTY = "faulty"
_APART = "apart"


class CompanyRecord:
    """Factors by two kinds of jobs, and kinds that get no company."""

    def __init__(self) -> None:
        self.revision = 0  # counts changes, for those who keep what they computed
        self._factors: dict[str, float] = {}  # the oldest first
        self._done: dict[str, float] = {}  # what two of them did in the time of one, as last seen
        self._faulty: dict[str, None] = {}
        self._apart: dict[tuple[str, str], None] = {}

    def observe(
        self,
        kinds: Sequence[str],
        predicted: float,
        measured: float,
        *,
        mps: bool,
        weight: float = WEIGHT,
        together: float | None = None,
    ) -> None:
        """A group of these kinds got `measured` done where `predicted` was expected.

        together: the sum of the shares of their speeds that all of them kept, if that is known.
        """
        if not (predicted > 0 and measured >= 0):
            return
        low, high = _FACTORS
        for one, other in combinations(sorted(kinds), 2):
            key = _key(one, other, mps=mps)
            known = self._factors.pop(key, 1.0)
            # The prediction had the factor in it: what is left to correct is its ratio.
            aim = min(max(known * measured / predicted, low), high)
            self._factors[key] = known + weight * (aim - known)
            if together is not None and len(kinds) == 2:
                self._done[key] = round(min(together, 2.0), 3)  # Beyond is the noise of both.
        while len(self._factors) > PAIRS_MAX:
            self._drop(next(iter(self._factors)))
        self.revision += 1

    def _drop(self, key: str) -> None:
        del self._factors[key]
        self._done.pop(key, None)

    def fault(self, kind: str) -> None:
        """A job of this kind ended its company by a fault of its own."""
        self._faulty[kind] = None
        while len(self._faulty) > PAIRS_MAX:
            del self._faulty[next(iter(self._faulty))]
        self.revision += 1

    def faulty(self, kind: str) -> bool:
        return kind in self._faulty

    def keep_apart(self, one: str, other: str) -> None:
        """Jobs of these kinds ran out of memory together: they do not meet again."""
        self._apart[_pair(one, other)] = None
        while len(self._apart) > PAIRS_MAX:
            del self._apart[next(iter(self._apart))]
        self.revision += 1

    def apart(self, one: str, other: str) -> bool:
        return _pair(one, other) in self._apart

    def factor(self, one: str, other: str, *, mps: bool) -> float:
        """What to multiply predictions for these two kinds with; 1 if they were never seen."""
        return self._factors.get(_key(*sorted((one, other)), mps=mps), 1.0)

    def knows(self, one: str, other: str, *, mps: bool) -> bool:
        """Whether jobs of these two kinds were seen together."""
        return _key(*sorted((one, other)), mps=mps) in self._factors

    def pairs(self) -> list[tuple[str, str, bool, float | None]]:
        """Every two kinds that were seen together, whether under MPS, and what both did."""
        found = [(key.split("\t"), self._done.get(key)) for key in self._factors]
        return [(one, other, how == "mps", done) for (one, other, how), done in found]

    def parted(self) -> list[tuple[str, str]]:
        """Every two kinds that do not meet again."""
        return list(self._apart)

    def forget(self, of: Callable[[str], bool]) -> None:
        """Forget all that was seen of these kinds."""
        for key in [each for each in self._factors if any(map(of, each.split("\t")))]:
            self._drop(key)
        self._faulty = {kind: None for kind in self._faulty if not of(kind)}
        self._apart = {pair: None for pair in self._apart if not any(map(of, pair))}
        self.revision += 1

    def stored(self) -> dict[str, float]:
        """All of it as plain numbers by name."""
        faulty = {f"{_FAULTY}\t{kind}": 1.0 for kind in self._faulty}
        apart = {f"{_APART}\t{one}\t{other}": 1.0 for one, other in self._apart}
        done = {f"{_DONE}\t{key}": together for key, together in self._done.items()}
        return {**self._factors, **done, **faulty, **apart}

    @classmethod
    def restored(cls, numbers: Mapping[str, float]) -> "CompanyRecord":
        """What `stored` gave; names it does not know are left out."""
        record = cls()
        for key, number in _newest(numbers.items()):
            parts = key.split("\t")
            if len(parts) == 2 and parts[0] == _FAULTY:
                record._faulty[parts[1]] = None
            elif len(parts) == 3 and parts[0] == _APART:
                record._apart[parts[1], parts[2]] = None
            elif len(parts) == 4 and parts[0] == _DONE:
                record._done["\t".join(parts[1:])] = float(number)
            elif len(parts) == 3 and 0 < number < 10:
                record._factors[key] = float(number)
        return record


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _key(one: str, other: str, *, mps: bool) -> str:
    return f"{one}\t{other}\t{'mps' if mps else 'turns'}"


def _newest(rows: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return list(rows)[-4 * PAIRS_MAX :]
