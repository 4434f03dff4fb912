"""The judge of the chaos sees what is wrong; one run of it on a real cluster.

All of them: `python -m benchmarks.ray_chaos --seeds 0-99 --parallel 2`.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.fleet_story import FleetStory, spread, tell
from tests.on_ray.chaos_cluster import ChaosCluster
from tests.on_ray.chaos_judge import double_booked, ended_rightly, outlived
from tests.on_ray.chaos_network import sweep, why_not
from tests.on_ray.chaos_plan import HEAD, Work, hanging, joining, plan_of
from tests.on_ray.chaos_records import RankRecord, Span
from tests.on_ray.chaos_run import PROGRAM, Run, document_of
from tests.shared import THOROUGH
from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.wire.jobs import AttemptView, JobDetail, JobView, State

SOON_S = 4.0  # a node that is cut off for so long is not missed, which saves half a minute
FAILED = (0, 1, 4, 5, 8)  # seeds that failed once


def span(
    job: str, attempt: int, since: float, until: float, *, node: str = "n1", device: int = 0
) -> Span:
    return Span(job, attempt, node, (device,), since, until, "a rank")


def rank(spent: Span, *, code: int | None = 0, first: int = 0, last: int = 9) -> RankRecord:
    return RankRecord(
        name="one", span=spent, tag="", rank=0, world=1, first_step=first, last_step=last, code=code
    )


def detail(*attempts: AttemptView, state: State, failures: int = 0, code: int = 0) -> JobDetail:
    view = JobView(
        id="1", name="one", user="", tenant="", state=state, failures=failures, code=code
    )
    return JobDetail(
        job=view,
        workdir="/",
        env={},
        secrets=(),
        time_limit_s=None,
        grace_s=1.0,
        retries=0,
        after=(),
        after_any=(),
        code=None,
        attempts=attempts,
    )


def attempt(number: int, told: str = "", code: int = 0) -> AttemptView:
    return AttemptView(
        number=number, devices=("n1:0",), started_at=1.0, ended_at=2.0, code=code, told=told
    )


def test_two_jobs_on_a_device_are_seen_and_two_after_each_other_are_not() -> None:
    assert double_booked([span("a", 1, 0.0, 2.0), span("b", 1, 2.0, 3.0)]) == []
    assert double_booked([span("a", 1, 0.0, 2.0), span("b", 1, 1.0, 3.0, device=1)]) == []
    assert len(double_booked([span("a", 1, 0.0, 9.0), span("b", 1, 1.0, 3.0)])) == 1
    # The longest counts, not the one before.
    among = [span("a", 1, 0.0, 9.0), span("a", 1, 1.0, 2.0), span("b", 1, 3.0, 4.0)]
    assert len(double_booked(among)) == 1


def test_a_survivor_of_an_earlier_attempt_is_seen_on_any_node() -> None:
    assert outlived([span("a", 1, 0.0, 2.0), span("a", 2, 2.1, 3.0, node="n2")]) == []
    assert len(outlived([span("a", 1, 0.0, 2.2), span("a", 2, 2.1, 3.0, node="n2")])) == 1
    over_two = [span("a", 1, 0.0, 9.0), span("a", 2, 9.5, 9.6), span("a", 3, 9.55, 9.7)]
    assert len(outlived(over_two)) == 1


def test_a_loss_that_was_charged_or_has_no_reason_is_seen() -> None:
    work = Work(name="one", devices=1, steps=9)
    lost, done = attempt(1, "lost", 137), attempt(2)
    ranks = [rank(span("1", 1, 0.0, 1.0), code=None), rank(span("1", 2, 2.0, 3.0))]
    good = detail(lost, done, state=State.SUCCEEDED)
    assert ended_rightly(work, good, ranks, {"n1"}) == []
    assert len(ended_rightly(work, good, ranks, {"n2"})) == 1
    charged = detail(lost, done, state=State.SUCCEEDED, failures=1)
    assert len(ended_rightly(work, charged, ranks, {"n1"})) == 1
    given_up = detail(lost, state=State.FAILED, failures=1, code=137)
    assert len(ended_rightly(work, given_up, ranks[:1], {"n1"})) >= 2


def test_a_job_that_did_not_go_on_from_its_checkpoint_is_seen() -> None:
    work = Work(name="one", devices=1, steps=9, resumable=True)
    seen = detail(attempt(1, "lost", 137), attempt(2), state=State.SUCCEEDED)
    ranks = [rank(span("1", 1, 0.0, 1.0), code=None, last=4)]
    for first, wrong in ((4, 0), (5, 0), (0, 1), (6, 1)):
        again = rank(span("1", 2, 2.0, 3.0), first=first)
        assert len(ended_rightly(work, seen, [*ranks, again], {"n1"})) == wrong


def test_a_seed_has_one_plan_with_all_kinds_of_faults_and_spares_the_head() -> None:
    assert plan_of(3) == plan_of(3) != plan_of(4)
    for seed in range(100):
        plan = plan_of(seed)
        assert {"cut", "raylet", "agent", "controller"} <= {fault.kind for fault in plan.faults}
        assert HEAD not in plan.lost()
        assert {work.state for work in plan.works} == {"SUCCEEDED", "FAILED", "CANCELLED"}


def test_a_node_may_be_missed_and_join_while_a_controller_takes_over() -> None:
    for seed in range(100):
        plan = joining(seed)
        cut, dies = (
            next(fault for fault in plan.faults if fault.kind == kind)
            for kind in ("cut", "controller")
        )
        assert -2.0 <= dies.at - (cut.at + cut.lasts_s) <= 6.0
        assert plan.lost() == plan_of(seed).lost()
        assert [work.state for work in plan.works] == [work.state for work in plan_of(seed).works]


def test_an_agent_may_hang_on_a_node_that_is_not_lost() -> None:
    for seed in range(100):
        before = plan_of(seed)
        plan = hanging(before)
        (hang,) = set(plan.faults) - set(before.faults)
        assert hang.kind == "hang"
        assert hang.node not in plan.lost() == before.lost()
        assert plan.works == before.works


def test_ranks_of_the_chaos_meet_on_one_node_and_on_several(tmp_path: Path) -> None:
    """On several nodes the store has the master's port, and no rank can listen on it."""
    records, failures = tmp_path / "records", tmp_path / "failures"
    records.mkdir()
    failures.mkdir()
    work = Work(name="gang", devices=4, steps=3, patience_s=20.0)
    document = json.dumps(document_of(work, records, failures))

    async def story(bench: FleetStory) -> None:
        bench.job("a", "python", "-IS", str(PROGRAM), document)
        bench.job("b", "python", "-IS", str(PROGRAM), document)
        await bench.order(Start(0, "a", spread("n1", "n0", each=2)))
        await bench.order(Start(1, "b", spread("n2", each=2)))
        for job, action in (("a", 0), ("b", 1)):
            end = await bench.ended(job, action)
            assert (end.how, end.code) == (How.EXITED, 0)

    tell(tmp_path, story)
    assert len(list(records.iterdir())) == 6


@pytest.mark.skipif(bool(why_not()), reason=f"no network can be made: {why_not()}")
def test_what_a_killed_harness_left_is_removed_by_the_next_one() -> None:
    begin = "from tests.on_ray.chaos_network import Namespaces as N; "
    begin += "n = N(3, ('n0',)); print(*n.through('n0'), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        through = harness.stdout.readline().split()
        node = subprocess.Popen([*through, "sleep", "1000"])
        name = f"of process {harness.pid}"
        assert not [each for each in sweep() if name in each], "it lives"
        harness.kill()
    assert [each for each in sweep() if name in each]
    assert node.wait(10) == -signal.SIGKILL
    assert not Path(through[1].partition("=")[2]).exists()


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=f"no network can be made: {why_not()}")
def test_everything_ends_rightly_when_nodes_agents_and_the_controller_die() -> None:
    plans = [plan_of(8, cut_s=SOON_S), *(map(plan_of, FAILED) if THOROUGH else ())]
    cluster = ChaosCluster()
    try:
        cluster.start()
        for number, plan in enumerate(plans):
            outcome = Run(cluster, plan, cluster.folder / f"run{number}").play()
            assert not outcome.wrong, "\n".join(map(str, (outcome, *outcome.wrong)))
        assert not cluster.leave()
    finally:
        left = cluster.end()
    assert not left
