"""Altruistic scheduling: what jobs need, what they lend and to whom."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stories import play
from treadle.core.job import JobSpec
from treadle.core.ports import Policy
from treadle.models.scaling import ScalingModel
from treadle.models.sizes.ladders import Ladder
from treadle.policies.base.placement import placement
from treadle.policies.simple.altruistic import Altruistic, fair_shares
from treadle.testing.builders import job


def policy() -> Policy:
    return Altruistic(placement("count"), ScalingModel())


def elastic(name: str, *sizes: int, length_s: float = 100.0, at: float = 0.0) -> JobSpec:
    """A job of those sizes that takes length_s on one device and scales linearly."""
    spec = job(name, size=sizes[0], sizes=sizes, length_s=length_s * sizes[0], at=at)
    return replace(spec, profile=replace(spec.profile, size=sizes[0]))


def test_jobs_that_are_neither_ahead_nor_behind_hold_their_fair_share() -> None:
    jobs = [elastic("a", 1, 2, 3, 4), elastic("b", 1, 2, 3, 4, length_s=40.0)]
    assert play(policy(), jobs, until=0.0) == ["0 start b n0:0,1", "0 start a n0:2,3"]


def test_a_job_without_time_to_spare_keeps_its_fair_share() -> None:
    """Alone until 10, a has done 40 of 100. Its share is 2 now, and its end on two since 0 is 50:
    the 60 that are left take 60 s on one device, so it needs both.
    """
    jobs = [elastic("a", 1, 2, 3, 4), elastic("b", 1, 2, 3, 4, length_s=10.0, at=10.0)]
    lines = play(policy(), jobs, until=10.0)
    assert lines == ["0 start a n0:0,1,2,3", "10 change a n0:2,3", "10 start b n0:0,1"]


def test_time_to_spare_is_lent_to_the_shortest() -> None:
    """Alone until 20, a has done 80 of 100: the 20 that are left take 20 s on one device, and its
    fair end is at 50. It needs one and lends one. b, of 12 s, is shorter and has three.
    """
    jobs = [elastic("a", 1, 2, 3, 4), elastic("b", 1, 2, 3, 4, length_s=12.0, at=20.0)]
    assert play(policy(), jobs) == [
        "0 start a n0:0,1,2,3",
        "20 change a n0:3",
        "20 start b n0:0,1,2",
        "24 finish b",
        "24 change a n0:3,0,1,2",
        "28 finish a",
    ]


def test_what_is_lent_may_be_the_lenders_own() -> None:
    """As before, but b is longer: a needs one device, is the shortest and takes its own back."""
    jobs = [elastic("a", 1, 2, 3, 4), elastic("b", 1, 2, 3, 4, at=20.0)]
    assert play(policy(), jobs, until=20.0)[1:] == ["20 change a n0:0,1", "20 start b n0:2,3"]


def test_in_a_crowd_the_shortest_borrow_until_the_others_must_run() -> None:
    """Two jobs of 10 and 30 s on one device: each is promised half of it, so ends at 20 and 60.

    The short one runs first and ends at 10; the long one then has the device to itself.
    """
    jobs = [job("long", length_s=30.0), job("short", length_s=10.0)]
    assert play(policy(), jobs, "1x1") == [
        "0 start short n0:0",
        "10 finish short",
        "10 start long n0:0",
        "40 finish long",
    ]


def test_a_stream_of_short_jobs_starves_no_job() -> None:
    """One job of 20 s and, for 100 s, one of 5 s every 5 s: shortest first would end it at 120."""
    jobs = [job("long", length_s=20.0)]
    jobs += [job(f"s{n:02}", length_s=5.0, at=5.0 * n) for n in range(20)]
    lines = play(policy(), jobs, "1x1")
    ends = {line.split()[2]: float(line.split()[0]) for line in lines if "finish" in line}
    assert len(ends) == 21
    assert ends["long"] <= 80.0


def test_a_rigid_job_borrows_only_if_it_fits() -> None:
    jobs = [job("a", size=3), job("wide", size=4), job("b", size=1, length_s=200.0)]
    assert play(policy(), jobs, until=0.0) == ["0 start a n0:0,1,2", "0 start b n0:3"]


def test_fair_shares_are_max_min_over_sizes_that_help() -> None:
    flat = Ladder.of((1, 2, 4), (1.0, 1.0, 1.0))
    steep = Ladder.of((1, 2, 4, 8), (1.0, 2.0, 4.0, 8.0))
    assert fair_shares([flat, steep, steep], 9) == [1, 4, 4]
    assert fair_shares([steep, steep], 7) == [4, 2]
    assert fair_shares([steep, steep, steep], 2) == [1, 1, 1]


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=8), devices=st.integers(1, 8))
def test_jobs_that_come_together_and_scale_linearly_end_by_their_fair_end(
    lengths: list[int], devices: int
) -> None:
    """With the jobs of the first moment only, shares never shrink, so the promise can be kept."""
    sizes = (1, 2, 3, 4)
    jobs = [elastic(f"j{n}", *sizes, length_s=float(length)) for n, length in enumerate(lengths)]
    lines = play(policy(), jobs, f"1x{devices}")
    ends = {line.split()[2]: float(line.split()[0]) for line in lines if "finish" in line}
    assert set(ends) == {spec.id for spec in jobs}
    if len(jobs) <= devices:
        ladder = Ladder.of(sizes, [float(size) for size in sizes])
        fair = fair_shares([ladder] * len(jobs), devices)
        for spec, share in zip(jobs, fair, strict=True):
            assert ends[spec.id] <= spec.iterations / share + 0.01
