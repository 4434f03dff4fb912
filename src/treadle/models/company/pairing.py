"""Which jobs share: the pairing of greatest total weight, where many jobs are alike.

A matching of a thousand jobs takes seconds, but jobs come in few kinds, and all that matters is how
many pairs of each two kinds there are. Halve the counts, solve that, double the answer; then take
two pairs of each sort apart, match those and what was left over exactly, and again until nothing is
gained. The best answer for the whole lies within a few pairs of twice the best for the half.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import rustworkx

_Kind = TypeVar("_Kind")

# Weight of a pair, by two kinds, in whole numbers; 0 where they must not be paired.
Weights = Sequence[Sequence[int]]
Pairs = Mapping[tuple[int, int], int]  # kinds, the lesser first -> how many such pairs
Solved = dict[tuple[int, ...], Pairs]  # by how many there are of each kind

_AT_ONCE = 24  # so many are matched exactly without more ado
_EXACT_MAX = 96  # so many are matched again: the time grows with the third power, here to 8 ms
_SOLVED_MAX = 10_000
_TAKEN_APART = 2  # pairs of each sort; with one, one random case in six misses the optimum


def weights_of(kinds: Sequence[_Kind], weight: Callable[[_Kind, _Kind], int]) -> Weights:
    """The weight of every two kinds; it is the same both ways."""
    table = [[0] * len(kinds) for _ in kinds]
    for place, one in enumerate(kinds):
        for column in range(place, len(kinds)):
            table[place][column] = table[column][place] = weight(one, kinds[column])
    return table


def pair_counts(counts: Sequence[int], weights: Weights, solved: Solved | None = None) -> Pairs:
    """How many pairs of each two kinds, for so many of each kind.

    solved: matchings under the same weights, to be read and added to. What is left over when pairs
    are taken apart is much the same from one decision to the next.
    """
    solved = {} if solved is None else solved
    if sum(counts) <= _AT_ONCE or max(counts) == 1:
        return _solved(counts, weights, solved)
    halves = pair_counts([count // 2 for count in counts], weights, solved)
    pairs: Pairs = {kinds: 2 * count for kinds, count in halves.items()}
    worth = -1
    while (better := _worth(pairs, weights)) > worth:
        worth = better
        pairs = _matched_again(counts, pairs, weights, solved)
    return pairs


def _worth(pairs: Pairs, weights: Weights) -> int:
    return sum(weights[one][other] * count for (one, other), count in pairs.items())


def _matched_again(counts: Sequence[int], pairs: Pairs, weights: Weights, solved: Solved) -> Pairs:
    """At least as good a pairing, in which a few pairs were taken apart: fewer of many sorts."""
    kept: dict[tuple[int, int], int] = {}
    left = list(counts)
    apart = min(_TAKEN_APART, _EXACT_MAX // (2 * len(pairs))) if pairs else 0
    for (one, other), count in pairs.items():
        if count > apart:
            kept[one, other] = whole = count - apart
            left[one] -= whole
            left[other] -= whole
    for kinds, count in _solved(_with_a_chance(left, weights), weights, solved).items():
        kept[kinds] = kept.get(kinds, 0) + count
    return kept


def _with_a_chance(counts: Sequence[int], weights: Weights) -> list[int]:
    """The same without those that would find no partner even among all others."""
    return [
        min(count, sum(other for other, weight in zip(counts, row, strict=True) if weight))
        for count, row in zip(counts, weights, strict=True)
    ]


def _solved(counts: Sequence[int], weights: Weights, solved: Solved) -> Pairs:
    """The exact matching, as it was found before if it was."""
    key = tuple(counts)
    known = solved.get(key)
    if known is None:
        if len(solved) >= _SOLVED_MAX:
            solved.clear()
        known = solved[key] = _exact(counts, weights)
    return known


def _exact(counts: Sequence[int], weights: Weights) -> Pairs:
    """The matching of the graph with one node for each single one."""
    nodes = [kind for kind, count in enumerate(counts) for _ in range(count)]
    if len(nodes) == 2:  # Most often.
        one, other = nodes
        return {(one, other): 1} if weights[one][other] else {}
    places = range(len(nodes))
    edges = [
        (place, other, weight)
        for place in places
        for other in places[place + 1 :]
        if (weight := weights[nodes[place]][nodes[other]])
    ]
    graph: rustworkx.PyGraph[int | None, int] = rustworkx.PyGraph(multigraph=True)
    graph.extend_from_weighted_edge_list(edges)
    pairs: dict[tuple[int, int], int] = {}
    for a, b in rustworkx.max_weight_matching(graph, max_cardinality=False, weight_fn=int):
        one, other = sorted((nodes[a], nodes[b]))
        pairs[one, other] = pairs.get((one, other), 0) + 1
    return pairs
