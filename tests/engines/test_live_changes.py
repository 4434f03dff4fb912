"""Running attempts change: they grow, shrink and move while their processes go on."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling
from tests.engines.warm import WarmStory

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Host
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobStarted, RankReplaced, TrainingEnded
from treadle.core.job import Job
from treadle.core.launch import AttemptId, Launch
from treadle.core.lifecycle import Phase
from treadle.core.plan import Plan
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.testing.builders import job as spec

MEMBER = str(Path(__file__).with_name("flexible.py"))


class Flexible:
    """One job whose ranks are members."""

    def __init__(self, bench: Story, *words: str, can: str = "size,devices") -> None:
        self.bench = bench
        bench.job("a", sys.executable, MEMBER, can, *words, ranks=0, grace_s=5.0)
        bench.jobs.launch = self._launch  # type: ignore[method-assign]

    def _launch(self, job: str, action: int, allocation) -> Launch:
        number = self.bench.jobs.numbers.setdefault((job, action), 1 + len(self.bench.jobs.numbers))
        return replace(self.bench.jobs.jobs[job], attempt=number, ranks=allocation.size)

    @property
    def live(self) -> LiveAttempt:
        return self.bench.live("a")

    def starts(self, action: int) -> list[JobStarted]:
        facts = self.bench.jobs.facts
        return [f for f in facts if isinstance(f, JobStarted) and f.action == action]

    async def start(self, *devices: int) -> None:
        await self.bench.order(Start(0, "a", on(*devices)))
        await self.bench.until(lambda: any(fact.changes for fact in self.starts(0)))
        await self.bench.until(lambda: self.live.members.get("why") == "start")

    async def change(self, action: int, *devices: int) -> JobStarted:
        await self.bench.order(Change(action, "a", on(*devices)))
        return await self.reached(action)

    async def reached(self, action: int) -> JobStarted:
        await self.bench.until(lambda: self.starts(action))
        return self.starts(action)[0]

    async def trains(self, member: int) -> None:
        """Wait until this member is one of two."""
        await self.bench.until(lambda: f"m{member}" in self.pids())
        await self.bench.until(lambda: "of 2" in self.log(member))

    def held(self) -> set[int]:
        return self.bench.machine.holders.numbers()

    def log(self, rank: int, attempt: int = 1) -> str:
        return self.bench.log("a", rank=rank, attempt=attempt)

    def pids(self) -> dict[str, int]:
        """The members that are alive, by name."""
        found = {}
        for pid in self.live.scope.pids():
            try:
                env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            words = dict(each.split(b"=", 1) for each in env if b"=" in each)
            if b"TREADLE_MEMBER" in words:
                found[words[b"TREADLE_MEMBER"].decode()] = pid
        return found


@telling(slots=4)
async def test_it_grows_and_shrinks_without_a_restart(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0)
    first = job.pids()["m0"]
    grown = await job.change(1, 0, 1, 2)
    assert (grown.attempt, grown.stall_s) == (1, 0.125)
    assert job.held() == {0, 1, 2}
    assert job.pids()["m0"] == first
    assert "m0 is rank 0 of 3" in job.log(0)
    shrunk = await job.change(2, 2)
    assert shrunk.attempt == 1
    await bench.until(lambda: job.held() == {2})
    await bench.until(lambda: set(job.pids()) == {"m2"})
    # `treadle logs` shows the first process: it says where the output goes on.
    assert "[treadle: rank 2 goes on from here: treadle logs --rank 2]\n" in job.log(0)
    assert not any("[treadle:" in job.log(other) for other in (1, 2))
    assert job.bench.ends == []


@telling(slots=2)
async def test_it_changes_its_plan_if_it_announced_that_kind_of_plan(bench: Story) -> None:
    job = Flexible(bench, can="size,devices,plan,plan:shard")
    await job.start(0, 1)
    sharded = replace(on(0, 1), plan=Plan(shard="all"))
    await bench.order(Change(1, "a", sharded))
    assert (await job.reached(1)).attempt == 1
    assert job.live.allocation == sharded
    assert "m1 is rank 1 of 2 under zero-3" in job.log(1)
    # It did not say that its weights can be split: it is launched again.
    await bench.order(Change(2, "a", replace(on(0, 1), plan=Plan(tensor=2))))
    again = (await job.reached(2)).attempt
    assert again > 1
    await bench.until(lambda: "under t2" in job.log(0, attempt=again))


@telling(slots=1)
async def test_a_killed_supervisor_leaves_no_folder(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0)
    environ = Path(f"/proc/{job.pids()['m0']}/environ").read_bytes().split(b"\0")
    found = dict(each.split(b"=", 1) for each in environ if b"=" in each)
    folder = found[b"TREADLE_MEMORY_DIR"]
    assert os.path.isdir(folder)  # noqa: PTH112
    os.kill(bench.supervisor("a").pid, signal.SIGKILL)
    await bench.until(lambda: bench.ends)
    await bench.until(lambda: not os.path.exists(folder))  # noqa: PTH110


@telling(slots=1)
async def test_cores_change_while_it_runs(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0)
    wide = os.sched_getaffinity(job.pids()["m0"])
    await bench.order(Change(1, "a", replace(on(0), host=Host(1.0, 1.0))))
    assert (await job.reached(1)).attempt == 1
    assert len(os.sched_getaffinity(job.pids()["m0"])) <= len(wide)


@telling(slots=4)
async def test_it_moves_to_other_devices(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0, 1)
    moved = await job.change(1, 2, 3)
    assert moved.attempt == 1
    await bench.until(lambda: job.held() == {2, 3})
    await bench.until(lambda: set(job.pids()) == {"m2", "m3"})


@telling()
async def test_the_devices_of_leavers_are_given_to_others(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0, 1)
    bench.job("b", "sleep", "1000")
    await bench.order(Change(1, "a", on(0)), Start(2, "b", on(1), ("a",)))
    await bench.until(
        lambda: any(isinstance(f, JobStarted) and f.job == "b" for f in bench.jobs.facts)
    )
    assert set(job.pids()) == {"m0"}
    # And back: it grows when the other has gone.
    await bench.order(Stop(3, "b"), Change(4, "a", on(0, 1), ("b",)))
    assert (await job.reached(4)).attempt == 1
    await bench.order(Stop(5, "a"))
    await bench.until(lambda: [end for end in bench.ends if end.job == "a"])


@telling()
async def test_a_newer_order_amends_one_in_flight(bench: Story, tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    job = Flexible(bench, str(tmp_path / "wait"))
    await job.start(0)
    await bench.order(Change(1, "a", on(0, 1)))  # whose newcomer never becomes ready
    await bench.until(lambda: len(job.pids()) == 2)
    shrunk = await job.change(2, 0)
    assert shrunk.attempt == 1
    await bench.until(lambda: set(job.pids()) == {"m0"})
    assert job.starts(1) == []
    await bench.until(lambda: job.held() == {0})


@telling()
async def test_a_stop_during_a_change_ends_everything(bench: Story, tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    job = Flexible(bench, str(tmp_path / "wait"))
    await job.start(0)
    await bench.order(Change(1, "a", on(0, 1)))
    await bench.until(lambda: len(job.pids()) == 2)
    live = job.live
    await bench.order(Stop(2, "a"))
    await bench.until(lambda: bench.ends)
    assert (bench.ends[0].how, bench.ends[0].action) == (How.STOPPED, 2)
    assert live.scope.pids() == []
    await bench.until(lambda: job.held() == set())


@telling()
async def test_a_killed_member_is_replaced_on_its_device(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0, 1)
    os.kill(job.pids()["m1"], signal.SIGKILL)
    await bench.until(lambda: set(job.pids()) == {"m0", "m2"})
    await bench.until(lambda: "of 2" in job.log(2))
    assert bench.ends == []
    killed = [fact for fact in bench.jobs.facts if isinstance(fact, RankReplaced)]
    assert killed == [RankReplaced("a", 0, 1, 1, 137)]
    await bench.order(Stop(5, "a"))
    await bench.until(lambda: bench.ends)
    assert bench.ends[0].how is How.STOPPED


@telling()
async def test_members_that_are_killed_again_and_again_end_the_attempt(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0, 1)
    for number in range(1, 5):
        await job.trains(number)
        os.kill(job.pids()[f"m{number}"], signal.SIGKILL)
    await bench.until(lambda: bench.ends)
    assert (bench.ends[0].how, bench.ends[0].code) == (How.EXITED, 137)
    killed = [fact.rank for fact in bench.jobs.facts if isinstance(fact, RankReplaced)]
    assert killed == [1, 2, 3]  # The fourth is not replaced.


@telling()
async def test_a_member_that_is_interrupted_is_replaced(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0, 1)
    os.kill(job.pids()["m1"], signal.SIGINT)  # a KeyboardInterrupt: killed by a signal
    await bench.until(lambda: "m2" in job.pids())
    assert bench.ends == []


@pytest.mark.parametrize("code", [0, 3, 137])
@telling(slots=2)
async def test_what_a_script_does_after_its_training_may_fail_the_attempt(
    bench: Story, code: int
) -> None:
    """It evaluates its model or saves it: an error there is as good as any other."""
    job = Flexible(bench, "", str(code))
    await bench.order(Start(0, "a", on(0, 1)))
    await bench.until(lambda: bench.ends)
    assert [end.code for end in bench.ends] == [code], job.log(0)


@pytest.mark.parametrize("first_is_slow", [False, True])
@telling(slots=2)
async def test_a_rank_that_leaves_the_others_by_itself_fails_the_attempt(
    bench: Story, tmp_path: Path, first_is_slow: bool
) -> None:
    """Its exit code is 0, but it was neither ordered to leave nor killed."""
    slow = tmp_path / "slow"
    if first_is_slow:
        slow.touch()
    job = Flexible(bench, str(slow), "leaves")
    await bench.order(Start(0, "a", on(0, 1)))
    if first_is_slow:
        await bench.until(lambda: "of 2" in job.log(1) and "m1" not in job.pids())
        slow.unlink()
    await bench.until(lambda: bench.ends)
    assert [end.code for end in bench.ends] == [1], job.log(0)
    assert "rank 1 left the training with exit code 0 while the others train" in job.log(0)


@telling()
async def test_another_engine_goes_on_with_a_change(bench: Story, tmp_path: Path) -> None:
    """1. An order is sent. 2. The engine is gone. 3. Another adopts, and reports that it runs."""
    (tmp_path / "wait").touch()
    job = Flexible(bench, str(tmp_path / "wait"))
    await job.start(0)
    await bench.order(Change(1, "a", on(0, 1)))
    await bench.until(lambda: len(job.pids()) == 2)
    await bench.engine.close()
    (tmp_path / "wait").unlink()
    bench.jobs.facts.clear()
    bench.fresh_engine()
    row = Job(spec("a"), 0, Phase.STARTING, 0.0, 0.0, allocation=on(0, 1), action=1, attempt=0)
    await bench.engine.adopt([row], [AttemptId("a", 1)])
    # The newcomer that hangs is still there: a newer order takes it away and another grows.
    await job.change(2, 0)
    grown = await job.change(3, 0, 1)
    assert grown.attempt == 1
    assert bench.ends == []
    assert job.held() == {0, 1}


@telling(slots=3)
async def test_an_adopted_attempt_keeps_the_devices_it_changed_to(bench: Story) -> None:
    job = Flexible(bench)
    await job.start(0)
    await job.change(1, 1, 2)
    await bench.until(lambda: job.held() == {1, 2})
    await bench.engine.close()
    bench.jobs.facts.clear()
    bench.fresh_engine()
    row = Job(spec("a"), 0, Phase.RUNNING, 0.0, 0.0, allocation=on(1, 2), action=1, attempt=0)
    await bench.engine.adopt([row], [AttemptId("a", 1)])
    await bench.until(lambda: job.held() == {1, 2})
    assert job.live.changes == ("devices", "size", "host")
    assert (await job.change(2, 1)).attempt == 1
    await bench.until(lambda: job.held() == {1})


@telling()
async def test_an_adopted_attempt_releases_the_device_of_a_leaver_that_ends_late(
    bench: Story, tmp_path: Path
) -> None:
    """The change is reported while the leaver still ends: its device is free once it is gone."""
    job = Flexible(bench, str(tmp_path / "linger"))
    await job.start(0, 1)
    await bench.engine.close()
    bench.fresh_engine()
    row = Job(spec("a"), 0, Phase.RUNNING, 0.0, 0.0, allocation=on(0, 1), action=0, attempt=0)
    await bench.engine.adopt([row], [AttemptId("a", 1)])
    (tmp_path / "linger").touch()
    await job.change(1, 0)
    assert job.held() == {0, 1}
    (tmp_path / "linger").unlink()
    await bench.until(lambda: job.held() == {0})


@telling()
async def test_an_attempt_whose_training_is_over_ends_by_itself(
    bench: Story, tmp_path: Path
) -> None:
    """A change that comes as its training ends, or later, does not stop it, nor begin it again."""
    job = Flexible(bench, str(tmp_path / "saves"), "last")
    await job.start(0, 1)
    (tmp_path / "saves").touch()
    await bench.order(Change(1, "a", on(0)))
    await bench.until(lambda: job.live.refused == 1)
    await bench.order(Change(2, "a", on(1)))
    await bench.until(lambda: job.live.refused == 2)
    (tmp_path / "saves").unlink()
    await bench.until(lambda: bench.ends)
    assert [(end.how, end.code, end.action) for end in bench.ends] == [(How.EXITED, 0, 2)]
    assert job.starts(2) == []
    (over,) = [fact for fact in bench.jobs.facts if isinstance(fact, TrainingEnded)]
    assert (over.job, over.action) == ("a", 1)


@telling()
async def test_a_training_that_is_over_has_succeeded_though_it_is_stopped(
    bench: Story, tmp_path: Path
) -> None:
    """It writes its model when the stop comes, and ends with 0: it is not to be done again."""
    job = Flexible(bench, str(tmp_path / "saves"), "last")
    await job.start(0, 1)
    (tmp_path / "saves").touch()
    await bench.order(Change(1, "a", on(0)))
    await bench.until(lambda: all("has work left" in job.log(rank) for rank in (0, 1)))
    await bench.order(Stop(2, "a"))
    await bench.until(lambda: job.live.stop_wanted)
    (tmp_path / "saves").unlink()
    await bench.until(lambda: bench.ends)
    assert [(end.how, end.code, end.action) for end in bench.ends] == [(How.EXITED, 0, 2)]


@telling()
async def test_a_rigid_script_is_restarted(bench: Story) -> None:
    job = Flexible(bench)
    bench.job("a", "sleep", "1000", ranks=0)
    await bench.order(Start(0, "a", on(0)))
    await job.reached(0)
    assert (await job.change(1, 0, 1)).attempt == 2
    (ended,) = [fact for fact in bench.jobs.facts if isinstance(fact, AttemptEnded)]
    assert ended.how is How.REPLACED


@telling()
async def test_newcomers_come_from_the_warm_interpreter(bench: Story) -> None:
    await bench.begin()
    await WarmStory(bench).warm_up("import json, socket")
    bench.jobs.facts.clear()
    job = Flexible(bench)
    bench.jobs.numbers.clear()
    await bench.order(Start(10, "a", on(0)))
    await bench.until(lambda: any(fact.changes for fact in job.starts(10)))
    await job.change(11, 0, 1)
    assert "m1 is rank 1 of 2" in job.log(1)
    await bench.order(Stop(12, "a"))
    await bench.until(lambda: bench.ends)
    status = json.loads((bench.folder("a") / "status.json").read_bytes())
    assert (status["warm"], status["cold"]) == (2, "")
