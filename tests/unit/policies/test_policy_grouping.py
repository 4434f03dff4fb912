"""Groups in several rounds: near the best there are, never too large, no job lost."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stories import play
from treadle.core.job import JobSpec, Profile
from treadle.models.catalogue import MURI, muri_profile
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.staggered import StaggeredModel
from treadle.models.tokens import TokenModel
from treadle.policies.muri.grouping import Grouping
from treadle.testing.builders import job

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "grouping.py"
PROFILES = [muri_profile(name, 1) for name in MURI]


def nowhere(_job: str) -> None:
    return None


def jobs(kinds: list[int]) -> list[JobSpec]:
    return [JobSpec(str(n), 1.0, profile=PROFILES[kind]) for n, kind in enumerate(kinds)]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = spec_from_file_location("grouping_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("judge", ["staggered", "tokens"])
@pytest.mark.parametrize("kind", ["catalogue", "any stages"])
def test_groups_are_within_a_tenth_of_the_best_on_average(
    benchmark: ModuleType, kind: str, judge: str
) -> None:
    found = [benchmark.quality(seed, kind, judge) for seed in range(15)]
    assert max(found) <= 1 + 1e-9, "nothing is better than the best"
    assert mean(found) >= 0.9
    assert min(found) >= 0.6


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=30),
    st.integers(1, 30),
    st.integers(1, 4),
    st.booleans(),
)
def test_every_job_is_in_one_group_and_merging_stops_when_all_fit(
    kinds: list[int], devices: int, largest: int, matching: bool
) -> None:
    found = jobs(kinds)
    groups = Grouping(StaggeredModel(), largest=largest, matching=matching).form(
        [found], devices, nowhere
    )
    assert sorted(int(spec.id) for group in groups for spec in group) == list(range(len(kinds)))
    assert all(len(group) <= largest for group in groups)
    if len(kinds) <= devices:
        assert all(len(group) == 1 for group in groups), "sharing is a means, not an end"
    elif len(groups) < devices:
        pytest.fail("more was merged than had to be")


def test_of_jobs_that_are_alike_those_who_share_devices_stay_together() -> None:
    found = jobs([0, 0, 4, 4])  # two of each; any pair across is as good as any other
    homes = {"0": "x", "3": "x", "1": "y", "2": "y"}
    groups = Grouping(TokenModel(ScalingModel(), StageTimes()), largest=2, matching=True).form(
        [found], 2, homes.get
    )
    assert {frozenset(spec.id for spec in group) for group in groups} == {
        frozenset({"0", "3"}),
        frozenset({"1", "2"}),
    }


def test_where_all_jobs_are_different_neighbours_in_rank_are_matched() -> None:
    """Weighing every pair of a thousand would take a minute."""
    found = [
        JobSpec(str(n), 1.0, profile=Profile(load_s=0.1 + n / 1000, compute_s=0.2))
        for n in range(100)
    ]
    groups = Grouping(StaggeredModel(), largest=2, matching=True).form([found], 50, nowhere)
    assert len(groups) == 50
    assert all(abs(int(one.id) - int(other.id)) < 4 for one, other in groups)


@pytest.mark.parametrize("matching", [True, False])
@pytest.mark.parametrize(("last_first", "alone"), [(False, {"2", "3"}), (True, {"0", "1"})])
def test_s4_jobs_of_the_first_or_of_the_last_rank_share_first(
    matching: bool, last_first: bool, alone: set[str]
) -> None:
    """Four jobs on three devices: one pair must share, and which is a matter of rank."""
    grouping = Grouping(StaggeredModel(), largest=2, matching=matching, last_first=last_first)
    groups = grouping.form([jobs([6, 6, 6, 6])], 3, nowhere)
    assert {group[0].id for group in groups if len(group) == 1} == alone
    assert sorted(len(group) for group in groups) == [1, 1, 2]


def test_for_a_large_job_only_those_that_are_in_its_way_move() -> None:
    lengths = {"a": 100.0, "x": 10.0, "b": 200.0, "c": 300.0, "y": 10.0, "large": 50.0}
    sizes = {"x": 3, "y": 2, "large": 4}
    wanted = [
        job(name, size=sizes.get(name, 1), length_s=length_s, at=11.0 * (name == "large"))
        for name, length_s in lengths.items()
    ]
    told = play("muri-s?group=1", wanted, "2x4", until=11.0)
    assert [line for line in told if line.startswith("0 start")] == [
        "0 start x n0:0,1,2",
        "0 start y n1:0,1",
        "0 start a n0:3",
        "0 start b n1:2",
        "0 start c n1:3",
    ]
    assert [line for line in told if line.startswith("11")] == [
        "11 change b n0:0",
        "11 change c n0:1",
        "11 start large n1:0,1,2,3",
    ]
