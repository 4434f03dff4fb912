"""AFS: the published relation, its test vectors, and what follows from the formula."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.sizes.ladders import Ladder
from treadle.policies.afs.afs import shares


def ladder(alpha: float, cap: int) -> Ladder:
    """Speed-up n / (1 + alpha (n - 1)), up to a cap."""
    return Ladder.of(range(1, cap + 1), [n / (1 + alpha * (n - 1)) for n in range(1, cap + 1)])


VECTORS = [
    (8, [(10, 0, 8), (100, 0, 8)], [4, 4]),
    (4, [(work, 0, 4) for work in (50, 10, 40, 20, 30, 60)], [0, 1, 1, 1, 1, 0]),
    (8, [(100, 0, 8), (100, 0.5, 8)], [6, 2]),
    (8, [(10, 0.5, 8), (100, 0, 8)], [2, 6]),
    (16, [(10, 0.1, 16), (100, 0.1, 16), (1000, 0.1, 16)], [6, 5, 5]),
    (16, [(1000, 0.02, 16), (100, 0.2, 16), (10, 0.5, 16), (10, 1, 16)], [7, 5, 3, 1]),
    (16, [(10, 0.05, 2), (1000, 0.05, 16)], [2, 14]),
    (3, [(5, 0, 4), (5, 0, 4), (6, 0, 4)], [1, 1, 1]),
]


@pytest.mark.parametrize(("devices", "jobs", "expected"), VECTORS)
def test_the_published_vectors(
    devices: int, jobs: list[tuple[float, float, int]], expected: list[int]
) -> None:
    ladders = [ladder(alpha, cap) for _, alpha, cap in jobs]
    assert shares(ladders, [work for work, _, _ in jobs], devices) == expected


def test_a_size_that_is_no_faster_is_no_rung() -> None:
    assert Ladder.of((1, 2, 3, 4), (1.0, 1.8, 1.7, 2.0)).sizes == (1, 2, 4)


def test_the_relation_is_not_transitive() -> None:
    """Lengths a < b < c; a beats b, b beats c, and c beats a: the scan's order decides."""
    a, b, c = (Ladder.of((1, 2), (1.0, ratio)) for ratio in (1.31, 1.4286, 1.6667))
    assert a.gain_if_shorter[0] > b.gain_if_longer[0]
    assert b.gain_if_shorter[0] > c.gain_if_longer[0]
    assert c.gain_if_longer[0] > a.gain_if_shorter[0]


def test_a_rigid_gang_yields_to_a_job_that_gains_more_for_each_device() -> None:
    """The first step of eight devices gains 1/8 for each; the elastic job gains 1, 1/2, 1/3 ..."""
    gang, elastic = Ladder.of((8,), (8.0,)), ladder(0.0, 16)
    assert shares([gang, elastic], [800.0, 1.0], 16) == [8, 8]


jobs_drawn = st.lists(
    st.tuples(st.integers(1, 1000), st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0]), st.integers(1, 9)),
    min_size=1,
    max_size=9,
)


def brute_force(ladders: list[Ladder], work: list[float], devices: int) -> list[int]:
    """The procedure as it is written in the paper's notes, scanning in our order."""
    rung = [-1] * len(ladders)

    def length(j: int) -> float:
        return float("inf") if rung[j] < 0 else work[j] / ladders[j].speeds[rung[j]]

    for _ in range(devices):
        pool = [j for j in range(len(ladders)) if rung[j] + 1 < len(ladders[j].sizes)]
        if not pool:
            break
        pool.sort(
            key=lambda j: (length(j), work[j] / ladders[j].speeds[0] if rung[j] < 0 else 0, j)
        )
        champion = pool[0]
        for other in pool[1:]:
            if rung[champion] < 0:
                continue  # Both idle: the shorter one, which came first, stays.
            longer = 1.0 if rung[other] < 0 else ladders[other].gain_if_longer[rung[other]]
            if not ladders[champion].gain_if_shorter[rung[champion]] > longer:
                champion = other
        rung[champion] += 1
    return [0 if r < 0 else ladders[j].sizes[r] for j, r in enumerate(rung)]


@given(jobs=jobs_drawn, devices=st.integers(1, 24))
def test_the_arrays_give_what_the_plain_procedure_gives(
    jobs: list[tuple[int, float, int]], devices: int
) -> None:
    ladders = [ladder(alpha, cap) for _, alpha, cap in jobs]
    work = [float(work) for work, _, _ in jobs]
    assert shares(ladders, work, devices) == brute_force(ladders, work, devices)


@given(jobs=jobs_drawn, devices=st.integers(1, 24))
def test_no_device_is_idle_while_a_job_could_use_it(
    jobs: list[tuple[int, float, int]], devices: int
) -> None:
    ladders = [ladder(alpha, cap) for _, alpha, cap in jobs]
    given_out = shares(ladders, [float(work) for work, _, _ in jobs], devices)
    assert sum(given_out) == min(devices, sum(one.sizes[-1] for one in ladders))
    assert all(got <= one.sizes[-1] for got, one in zip(given_out, ladders, strict=True))


@given(works=st.lists(st.integers(1, 10**6), min_size=4, max_size=12, unique=True))
def test_with_more_jobs_than_devices_the_shortest_run(works: list[int]) -> None:
    given_out = shares([ladder(0.1, 4)] * len(works), [float(w) for w in works], 3)
    chosen = {work for work, got in zip(works, given_out, strict=True) if got}
    assert chosen == set(sorted(works)[:3])
