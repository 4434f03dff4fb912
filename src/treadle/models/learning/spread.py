"""How much slower jobs are on more nodes or racks than they need, as far as that was seen.

A placement is tight, or it uses more nodes than its size needs, or several racks. What is measured
in a tight one is a job's speed by size (curves.py). A measurement in any other is compared with
that curve: the ratio is the factor of such placements. Until one was seen, a doubt stands in its
place, which every measurement pushes back: the factor is the geometric mean of the doubt and the
ratios at all sizes. The doubt is what the Philly study measured (models/scaling.py).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import exp, log
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.models.learning.measured import Measured
from treadle.models.learning.speeds import median
from treadle.models.scaling import PHILLY, Effects

TIGHT, NODES, RACKS = "", "nodes", "racks"
DOUBT = Effects(across_nodes=PHILLY.across_nodes, across_racks=PHILLY.across_racks)
_DOUBTED = {NODES: DOUBT.across_nodes, RACKS: DOUBT.across_nodes * DOUBT.across_racks}


class Apart(NamedTuple):
    """Factors of the speed in a tight placement; 0: not measured."""

    nodes: float = 0.0  # on more nodes than are needed, of one rack
    racks: float = 0.0  # on several racks

    def factor(self, spread: str) -> float:
        """Of such a placement: measured, or doubted."""
        if spread == TIGHT:
            return 1.0
        return (self.nodes if spread == NODES else self.racks) or _DOUBTED[spread]


def spread_of(nodes: Collection[str], size: int, cluster: Cluster) -> str:
    """How a placement on these nodes is: tight, or on more nodes or racks than it needs."""
    used = set(nodes)
    if len(used) == 1:
        return TIGHT
    rack = cluster.rack_of()
    if len({rack.get(node, "") for node in used}) > 1:
        return RACKS
    types = {node.device_type for node in cluster.nodes if node.name in used}
    largest = max((n.device_count for n in cluster.nodes if n.device_type in types), default=0)
    return NODES if len(used) > (-(-size // largest) if largest else 1) else TIGHT


def apart_of(found: Measured) -> Apart:
    """The factors of a kind that was seen both ways; 0 of those that were not."""
    if not found.steps:
        return Apart()
    curve = found.curve
    factors = {
        spread: _factor(spread, [curve.seconds(size) / table[size] for size in table])
        for spread, table in found.apart.items()
        if spread in _DOUBTED
    }
    return Apart(factors.get(NODES, 0.0), factors.get(RACKS, 0.0))


def tight(found: Measured) -> Measured:
    """The same; a guess of steps in tight placements, of a kind that had no such one."""
    if found.steps:
        return found
    guess: dict[int, list[float]] = {}
    for spread, table in found.apart.items():
        for size, seconds in table.items():
            guess.setdefault(size, []).append(seconds * _DOUBTED[spread])
    return replace(found, steps={size: median(each) for size, each in guess.items()})


def _factor(spread: str, ratios: Sequence[float]) -> float:
    logs = [log(_DOUBTED[spread]), *(log(ratio) for ratio in ratios)]
    return min(1.0, exp(sum(logs) / len(logs)))
