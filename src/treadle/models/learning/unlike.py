"""How fast jobs are on other types of device, as far as that was seen.

All times that are kept of a kind are those of one type of device, its home: the first on which its
steps were measured. Steps on another type are kept apart and compared with the curve of the home:
the geometric mean of the ratios at all sizes is the factor of that type. Until one was seen the
factor is not known and 1 stands in its place. A job on devices of several types is on a type of its
own.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from math import exp, log

from treadle.core.cluster import Node
from treadle.models.learning.measured import Measured
from treadle.models.learning.outcome import UNKNOWN_TYPE, Outcome

Factors = tuple[tuple[str, float], ...]  # the home first, with 1; empty: one type was seen


def type_of(names: Collection[str], nodes: Iterable[Node]) -> str:
    """The type of the devices of the nodes of these names; `?` if one of them has left."""
    types = {node.name: node.device_type for node in nodes}
    found = {types.get(name, UNKNOWN_TYPE) for name in names}
    return UNKNOWN_TYPE if UNKNOWN_TYPE in found else " + ".join(sorted(found))


def by_type(found: Measured) -> Factors:
    """Speeds on each type over that on the home, of a kind that knows another."""
    factors = dict(_factors(found))
    return ((found.home, 1.0), *factors.items()) if factors else ()


def _factors(found: Measured) -> Iterator[tuple[str, float]]:
    """Of each type but the home, the speed there over that at home."""
    if found.steps:
        curve = found.curve
        for device_type, table in found.elsewhere.items():
            ratios = [log(curve.seconds(size) / table[size]) for size in table]
            yield device_type, exp(sum(ratios) / len(ratios))


def at_home(outcome: Outcome, found: Measured) -> Outcome:
    """The same with its length as it would be at home, if the factor of its type is known."""
    if not outcome.timed or not found.elsewhere:
        return outcome
    factor = dict(_factors(found)).get(outcome.device_type)
    return outcome if factor is None else replace(outcome, ran_s=outcome.ran_s * factor)
