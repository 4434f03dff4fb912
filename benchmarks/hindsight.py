"""Ranges of starts with hindsight, for calibration.py: what no forecast could know.

Each wait is given the narrowest range that holds 80 % of all other waits of the trace, later ones
too, of which those with much the same simulations count most. Ranges that are made as jobs are
submitted have to learn as much from earlier waits alone.
"""

from collections.abc import Sequence
from math import exp, log

from treadle.models.learning.start_errors import PROMISED, Range

ALIKE = 0.3  # in powers of e: simulations that are no farther apart count nearly alike


def with_hindsight(waits: Sequence[tuple[float, float]]) -> list[Range]:
    """Of each job, given as what was simulated of its start and when it started."""
    ordered = sorted(range(len(waits)), key=lambda place: waits[place][1])
    values = [waits[place][1] for place in ordered]
    simulated = [log(waits[place][0] + 1.0) for place in ordered]
    found = [Range(0.0, 0.0)] * len(waits)
    for rank, place in enumerate(ordered):
        here = simulated[rank]
        weights = [exp(-0.5 * ((other - here) / ALIKE) ** 2) for other in simulated]
        weights[rank] = 0.0
        found[place] = narrowest(values, weights)
    return found


def narrowest(values: Sequence[float], weights: Sequence[float]) -> Range:
    """Of ascending values, the shortest stretch that has its share of the weight."""
    wanted = PROMISED * sum(weights) * (1.0 - 1e-9)
    best = Range(values[0], values[-1])
    last, inside = -1, 0.0
    for first, low_s in enumerate(values):
        while inside < wanted and last + 1 < len(values):
            last += 1
            inside += weights[last]
        if inside < wanted:
            break
        if values[last] - low_s < best.high_s - best.low_s:
            best = Range(low_s, values[last])
        inside -= weights[first]
    return best
