"""The pairing by kinds is the best there is, as brute force and a full matching say."""

from collections.abc import Sequence
from functools import cache

import pytest
import rustworkx
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.company.pairing import Pairs, pair_counts


@st.composite
def instances(draw: st.DrawFn, kinds_max: int, count_max: int) -> tuple[list[int], list[list[int]]]:
    """How many of each kind, and symmetric weights; some pairs are forbidden, many weigh alike."""
    kinds = draw(st.integers(1, kinds_max))
    counts = draw(st.lists(st.integers(0, count_max), min_size=kinds, max_size=kinds))
    largest = draw(st.sampled_from([2, 50, 10**6]))
    weights = [[0] * kinds for _ in range(kinds)]
    for one in range(kinds):
        for other in range(one, kinds):
            weight = draw(st.integers(0, largest))
            weights[one][other] = weights[other][one] = weight
    return counts, weights


def worth(pairs: Pairs, weights: Sequence[Sequence[int]]) -> int:
    return sum(weights[one][other] * count for (one, other), count in pairs.items())


def check_possible(pairs: Pairs, counts: Sequence[int], weights: Sequence[Sequence[int]]) -> None:
    used = [0] * len(counts)
    for (one, other), count in pairs.items():
        assert count > 0
        assert one <= other
        assert weights[one][other] > 0, "a forbidden pair"
        used[one] += count
        used[other] += count
    assert all(u <= count for u, count in zip(used, counts, strict=True))


def brute_force(counts: Sequence[int], weights: Sequence[Sequence[int]]) -> int:
    """The best total over every way to pair up."""

    @cache
    def best(left: tuple[int, ...]) -> int:
        first = next((kind for kind, count in enumerate(left) if count), None)
        if first is None:
            return 0
        without = (*left[:first], left[first] - 1, *left[first + 1 :])
        choices = [best(without)]
        for other, count in enumerate(without):
            if count and weights[first][other]:
                rest = (*without[:other], count - 1, *without[other + 1 :])
                choices.append(weights[first][other] + best(rest))
        return max(choices)

    return best(tuple(counts))


def full_matching(counts: Sequence[int], weights: Sequence[Sequence[int]]) -> int:
    nodes = [kind for kind, count in enumerate(counts) for _ in range(count)]
    graph: rustworkx.PyGraph[int, int] = rustworkx.PyGraph()
    graph.add_nodes_from(nodes)
    for one in range(len(nodes)):
        for other in range(one + 1, len(nodes)):
            if weight := weights[nodes[one]][nodes[other]]:
                graph.add_edge(one, other, weight)
    pairs = rustworkx.max_weight_matching(graph, weight_fn=int)
    return sum(weights[nodes[one]][nodes[other]] for one, other in pairs)


@given(instances(kinds_max=10, count_max=1))
def test_ten_jobs_are_paired_as_well_as_brute_force_would(
    instance: tuple[list[int], list[list[int]]],
) -> None:
    counts, weights = instance
    pairs = pair_counts(counts, weights)
    check_possible(pairs, counts, weights)
    assert worth(pairs, weights) == brute_force(counts, weights)


@given(instances(kinds_max=9, count_max=25))
def test_many_jobs_of_few_kinds_are_paired_as_well_as_a_full_matching_would(
    instance: tuple[list[int], list[list[int]]],
) -> None:
    counts, weights = instance
    pairs = pair_counts(counts, weights)
    check_possible(pairs, counts, weights)
    assert worth(pairs, weights) == full_matching(counts, weights)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 1001])
def test_jobs_that_are_all_alike_are_paired_off(count: int) -> None:
    assert pair_counts([count], [[7]]) == ({(0, 0): count // 2} if count > 1 else {})
