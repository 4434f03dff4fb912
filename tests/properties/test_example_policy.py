"""Every snippet of docs/add-a-policy.md runs, and its policies keep the contract."""

import re
import types
from pathlib import Path
from typing import Any

from tests.unit.stories import play

import treadle
from treadle.core.job import JobSpec, Profile
from treadle.core.ports import InterleavingModel, PerformanceModel, Policy
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import Placement, placement
from treadle.testing.builders import job, policy
from treadle.testing.policy_contract import PolicyContract

PAGE = (Path(__file__).parents[2] / "docs" / "add-a-policy.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def run_page() -> Any:
    """The names that a reader has who types in the whole page."""
    module = types.ModuleType("add_a_policy")
    for snippet in SNIPPETS:
        exec(snippet, module.__dict__)
    return module


page = run_page()
TestPatient = page.TestPatient  # the page's own test


class TestLargestFirstOfThePage(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return page.LargestFirst(placement)  # type: ignore[no-any-return]


class TestSmallestFirst(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return page.smallest_first(placement, belief)  # type: ignore[no-any-return]


class TestEarlyGrow(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return page.EarlyGrow(placement)  # type: ignore[no-any-return]


class TestShortestFirst(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return page.ShortestFirst(placement, belief)  # type: ignore[no-any-return]


class TestPairs(PolicyContract):
    def make(self, placement: Placement, belief: InterleavingModel) -> Policy:
        return page.Pairs(placement, belief)  # type: ignore[no-any-return]


class TestCurfew(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return page.Curfew(page.patient(placement, belief))  # type: ignore[no-any-return]


def test_the_page_imports_public_names_only() -> None:
    imports = re.findall(r"^(?:from|import) (\S+)", "\n".join(SNIPPETS), flags=re.MULTILINE)
    assert set(imports) == {"treadle", "treadle.testing.policy_contract"}
    assert set(imports) - {"treadle.testing.policy_contract"} <= {treadle.__name__}


def test_small_jobs_preempt_large_ones() -> None:
    jobs = [job("large", size=4, length_s=10.0), job("small", size=1, at=2.0, length_s=3.0)]
    made = page.smallest_first(placement("count"), ScalingModel())
    assert play(made, jobs) == [
        "0 start large n0:0,1,2,3",
        "2 stop large",
        "2 start small n0:0",
        "5 finish small",
        "5 start large n0:0,1,2,3",
        "13 finish large",
    ]


def test_early_jobs_grow() -> None:
    jobs = [job("a", size=1, sizes=(1, 2, 4)), job("b", size=1, sizes=(1, 2, 4))]
    lines = play(page.EarlyGrow(placement("count")), jobs, "1x3", until=0.0)
    assert lines == ["0 start a n0:0,1", "0 start b n0:2"]


def test_shortest_first_keeps_running_jobs_where_they_are() -> None:
    """b is shorter than c but stays on its own devices when a, shorter still, arrives."""
    jobs = [
        job("c", size=2, length_s=50.0),
        job("b", size=2, length_s=30.0),
        job("a", size=2, length_s=5.0, at=1.0),
    ]
    lines = play(page.ShortestFirst(placement("consolidate"), ScalingModel()), jobs)
    assert lines[:4] == ["0 start b n0:0,1", "0 start c n0:2,3", "1 stop c", "1 start a n0:2,3"]


def shares(identity: str, profile: Profile, at: float = 0.0) -> JobSpec:
    return JobSpec(identity, iterations=100.0, profile=profile, submit_at=at)


def test_jobs_with_different_bottlenecks_pair_up() -> None:
    """One reads, one computes: they share the only device. The third finds no turn left."""
    reads, computes = Profile(load_s=0.9, compute_s=0.1), Profile(load_s=0.1, compute_s=0.9)
    belief = TokenModel(ScalingModel(), StageTimes())
    jobs = [shares("a", reads), shares("b", computes, 1.0), shares("c", computes, 2.0)]
    lines = play(page.Pairs(placement("count"), belief), jobs, "1x1", until=50.0)
    assert lines == ["0 start a n0:0", "1 start b n0:0"]


def test_jobs_with_the_same_bottleneck_do_not() -> None:
    computes = Profile(compute_s=1.0, load_s=0.001)
    belief = TokenModel(ScalingModel(), StageTimes())
    jobs = [shares("a", computes), shares("b", computes, 1.0)]
    lines = play(page.Pairs(placement("count"), belief), jobs, "1x1", until=50.0)
    assert lines == ["0 start a n0:0"]


def test_a_patient_policy_lets_a_large_job_be_overtaken_so_many_times() -> None:
    """Four small jobs come while a large one waits; only three overtake it."""
    large = job("large", size=4, at=1.0, length_s=5.0)
    small = [job(f"s{at}", size=1, at=float(at), length_s=20.0) for at in range(2, 6)]
    jobs = [job("first", size=1, length_s=10.0), large, *small]
    lines = play(page.patient(placement("count"), ScalingModel(), most=2), jobs)
    starts = [line.split()[2] for line in lines if " start " in line]
    assert starts == ["first", "s2", "s3", "large", "s4", "s5"]


def test_no_job_starts_in_the_last_hour_of_a_day() -> None:
    """1. a starts before the hour and runs on. 2. b waits for midnight."""
    jobs = [job("a", at=82_000.0, length_s=3000.0), job("b", at=83_000.0)]
    assert play(page.Curfew(policy("fifo")), jobs) == [
        "82000 start a n0:0",
        "85000 finish a",
        "86400 start b n0:0",
        "86500 finish b",
    ]
