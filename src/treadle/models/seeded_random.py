"""Random numbers that depend on a seed and an index alone, never on the order of calls."""

import numpy as np
from numpy.typing import NDArray

from treadle.models.splitmix import FIRST, SECOND, STEP


def draw_numbers(seed: int, count: int) -> NDArray[np.float64]:
    """Numbers from 0 up to 1 by splitmix64, at indexes 0, 1, ... of the seed."""
    start = np.uint64((seed + 1) * STEP % 2**64)
    places = np.arange(1, count + 1, dtype=np.uint64)
    mixed = start + places * np.uint64(STEP)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) / np.float64(2**53), dtype=np.float64)


def draw_normals(seed: int, count: int) -> NDArray[np.float64]:
    """Standard normal numbers, by the seed and their index alone."""
    numbers = draw_numbers(seed, 2 * count)
    first, second = numbers[::2], numbers[1::2]
    return np.asarray(
        np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second), dtype=np.float64
    )
