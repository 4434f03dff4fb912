"""Members of one attempt on several nodes: nodes join and leave while the others train on."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling
from tests.shared import thorough

from treadle.core.actions import Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobStarted, RankReplaced
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.live_plans import leader
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.testing.engine_bench import row

MEMBER = str(Path(__file__).with_name("flexible.py"))


class Elastic:
    """One job with a rank for each device, whose ranks are members."""

    def __init__(self, bench: FleetStory, *words: str) -> None:
        self.bench = bench
        bench.job("a", sys.executable, MEMBER, "size,devices", *words)

    async def start(self, *nodes: str, each: int = 1) -> JobStarted:
        await self.bench.order(Start(0, "a", spread(*nodes, each=each)))
        return await self.announced()

    async def announced(self) -> JobStarted:
        """Once it has said what it can change."""

        def found() -> JobStarted | None:
            starts = [fact for fact in self.bench.jobs.facts if isinstance(fact, JobStarted)]
            return next((fact for fact in starts if fact.changes), None)

        started: JobStarted = await self.bench.until(found)
        return started

    async def change(self, action: int, *nodes: str, each: int = 1) -> JobStarted:
        await self.bench.order(Change(action, "a", spread(*nodes, each=each)))
        return await self.bench.started("a", action)

    async def is_on(self, *nodes: str) -> None:
        await self.bench.until(lambda: self.bench.runs_on("a") == {*nodes})

    def log(self, node: str, rank: int) -> str:
        folder = self.bench.world.links[node].agent.folders.path("a", 1, "")
        return (folder / f"rank-{rank}.log").read_text()

    def kill(self, node: str, member: str) -> None:
        instance = self.bench.world.links[node].agent.folders.instance
        for pid, _ in processes.tagged(TAG, f"{instance}-a-*"):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"TREADLE_MEMBER={member}".encode() in words:
                os.kill(pid, signal.SIGKILL)

    def free(self) -> int:
        """Devices without a job, on all nodes."""
        devices = (each for node in self.bench.engine.view() for each in node.devices)
        return sum(not each.jobs for each in devices)

    @property
    def ends(self) -> int:
        return self.bench.count(AttemptEnded, "a")


async def lose(bench: FleetStory, node: str) -> None:
    """Its power is cut; later the cluster knows that nothing runs there."""
    link = bench.world.links[node]
    for pid in link.agent.session.machine._supervisors():  # type: ignore[union-attr]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    bench.world.cut(node)
    while processes.kill_tagged(TAG, f"{link.agent.folders.instance}-a-*"):
        await asyncio.sleep(0.002)
    await bench.until(lambda: node not in bench.engine.members)


@telling()
async def test_nodes_join_and_leave_an_attempt_that_goes_on(bench: FleetStory) -> None:
    job = Elastic(bench)
    found = leader((await job.start("n0")).changes)
    assert found is not None
    assert (found.node, found.term) == ("n0", 0)
    grown = await job.change(1, "n0", "n1", "n2")
    assert (grown.attempt, grown.stall_s, grown.refused) == (1, 0.125, "")
    assert bench.runs_on("a") == {"n0", "n1", "n2"}
    for rank in range(3):
        output = await bench.engine.output(AttemptId("a", 1), rank)
        assert f"m{rank} is rank {rank} of 3".encode() in output.data
    assert (await job.change(2, "n0", "n2")).attempt == 1
    await job.is_on("n0", "n2")
    assert (await job.change(3, "n0")).attempt == 1
    await job.is_on("n0")
    assert job.ends == 0
    await bench.order(Stop(4, "a"))
    end = await bench.ended("a", 4)
    assert (end.attempt, end.how) == (1, How.STOPPED)


@telling()
async def test_it_begins_on_several_nodes_and_changes_on_each(bench: FleetStory) -> None:
    job = Elastic(bench)
    await job.start("n1", "n0", each=2)
    await bench.until(lambda: "m3 is rank 3 of 4" in job.log("n0", 1))
    assert (await job.change(1, "n1", "n0")).attempt == 1
    await bench.until(lambda: bench.world.links["n0"].agent.running() == {"a": 2})
    assert await bench.until(lambda: job.free() == 7)
    await bench.order(Stop(2, "a"))
    end = await bench.ended("a", 2)
    assert (end.attempt, end.how, bench.runs_on("a")) == (1, How.STOPPED, set())


@telling()
async def test_it_is_stopped_for_what_its_members_cannot_do(bench: FleetStory) -> None:
    """The node whose supervisor coordinates them is to leave."""
    job = Elastic(bench)
    await job.start("n0", "n1")
    assert (await job.change(1, "n1", "n2")).attempt == 2
    assert bench.runs_on("a") == {"n1", "n2"}


@telling()
async def test_a_member_that_is_killed_on_another_node_is_replaced_there(
    bench: FleetStory,
) -> None:
    job = Elastic(bench)
    await job.start("n0", "n1")
    await bench.until(lambda: "m1 is rank 1 of 2" in job.log("n1", 0))
    job.kill("n1", "m1")
    await bench.until(lambda: bench.world.links["n1"].agent.running() == {"a": 1})
    path = bench.world.links["n1"].agent.folders.path("a", 1, "") / "rank-1.log"
    await bench.until(lambda: path.exists() and "m2 is rank 1 of 2" in path.read_text())
    assert job.ends == 0


@telling()
async def test_a_node_that_cannot_join_is_left_out(bench: FleetStory) -> None:
    """Its newcomer ends with an error before it trains."""
    job = Elastic(bench, "", "fails")
    await job.start("n0")
    refused = await job.change(1, "n0", "n1")
    assert (refused.attempt, refused.changes != ()) == (1, True)
    assert "node n1 ended with exit code 1" in refused.refused
    await job.is_on("n0")
    assert job.ends == 0


@telling()
async def test_an_error_on_another_node_is_that_of_the_attempt(bench: FleetStory) -> None:
    Elastic(bench, "", "3")
    await bench.order(Start(0, "a", spread("n0", "n1")))
    end = await bench.ended("a", 0)
    assert (end.how, end.code, bench.runs_on("a")) == (How.EXITED, 3, set())


@telling()
async def test_it_changes_on_under_the_next_controller(bench: FleetStory) -> None:
    job = Elastic(bench)
    await job.start("n0")
    await job.change(1, "n0", "n1")
    wide = spread("n0", "n1")
    engine = await bench.crash()
    await engine.adopt([row("a", Phase.RUNNING, wide)._replace(action=1)], [AttemptId("a", 1)])
    assert job.ends == 0
    assert (await job.change(2, "n0", "n1", "n2")).attempt == 1
    assert (await job.change(3, "n0")).attempt == 1
    await job.is_on("n0")


@telling()
async def test_the_attempt_goes_on_without_the_node_that_coordinates(bench: FleetStory) -> None:
    """1. Nodes n0, n1, n2; n0 is gone. 2. n1 coordinates. 3. A member is killed, a node joins."""
    job = Elastic(bench)
    await job.start("n0", "n1", "n2")
    await bench.until(lambda: "m1 is rank 1 of 3" in job.log("n1", 0))
    await lose(bench, "n0")
    gone = await job.change(1, "n1", "n2")
    found = leader(gone.changes)
    assert found is not None
    assert (gone.attempt, gone.refused, found.node, found.term) == (1, "", "n1", 1)
    await bench.until(lambda: "m2 is rank 1 of 2" in job.log("n2", 0))
    job.kill("n2", "m2")
    await bench.until(lambda: (fact := bench.newest(RankReplaced)) and fact.rank == 2)
    bench.world.mend("n0")
    assert (await job.change(2, "n1", "n2", "n0")).attempt == 1
    assert (await job.change(3, "n1")).attempt == 1
    await job.is_on("n1")
    await lose(bench, "n2")
    assert job.ends == 0
    await bench.order(Stop(4, "a"))
    end = await bench.ended("a", 4)
    assert (end.attempt, end.how, bench.runs_on("a")) == (1, How.STOPPED, set())


@telling()
async def test_the_last_node_goes_on_without_the_one_that_coordinates(bench: FleetStory) -> None:
    """The third one leaves with that order."""
    job = Elastic(bench)
    await job.start("n0", "n1", "n2")
    await lose(bench, "n0")
    assert (await job.change(1, "n1")).attempt == 1
    await job.is_on("n1")
    await bench.until(lambda: "m1 is rank 0 of 1" in job.log("n1", 0))
    assert (await job.change(2, "n1", "n2")).attempt == 1
    await bench.order(Stop(3, "a"))
    end = await bench.ended("a", 3)
    assert (end.attempt, end.how, bench.runs_on("a")) == (1, How.STOPPED, set())


@telling()
async def test_the_attempt_goes_on_without_a_node_that_does_not_coordinate(
    bench: FleetStory,
) -> None:
    job = Elastic(bench)
    await job.start("n0", "n1", "n2")
    await lose(bench, "n2")
    assert (await job.change(1, "n0", "n1")).attempt == 1
    assert (await job.change(2, "n0")).attempt == 1
    assert job.ends == 0


@telling()
async def test_without_the_node_that_coordinates_the_attempt_ends(bench: FleetStory) -> None:
    """Its supervisor is killed: the members elsewhere cannot go on, and do not stay."""
    job = Elastic(bench)
    await job.start("n0", "n1")
    (pid,) = bench.world.links["n0"].agent.session.machine._supervisors()  # type: ignore[union-attr]
    os.kill(pid, signal.SIGKILL)
    end = await bench.ended("a", 0)
    assert (end.how, bench.runs_on("a")) == (How.LOST, set())
    assert job.ends == 1


LAST = {"": ("n0", "n2"), "n0": ("n1", "n2")}  # nodes after three, by the one that is lost


@thorough
@pytest.mark.parametrize("lost", LAST)
def test_a_training_changes_over_nodes(tmp_path: Path, lost: str) -> None:
    """1 -> 3 nodes -> 2: one attempt, the losses of the undisturbed run, and short stalls."""
    pytest.importorskip("torch")
    from tests.on_ray import elastic_rows
    from tests.on_ray.elastic_story import LOSSES_APART, MORE, SCRIPT, alone

    def has(size: int) -> bool:
        return elastic_rows.newest_size(folder) == size

    folder, root = tmp_path / "job", Path(__file__).parents[2]
    folder.mkdir()

    async def story(bench: FleetStory) -> None:
        bench.within_s = 240.0
        command = (sys.executable, str(SCRIPT), str(folder))
        bench.job("a", *command, workdir=str(root), env={"PYTHONPATH": str(root)})
        await bench.order(Start(0, "a", spread("n0")))
        for action, nodes in enumerate((("n0",), ("n0", "n1", "n2"), LAST[lost])):
            if lost and action == 2:
                await lose(bench, lost)
            if action:
                await bench.order(Change(action, "a", spread(*nodes)))
                assert (await bench.started("a", action)).attempt == 1
            await bench.until(partial(has, len(nodes)))
        newest = max(each["step"] for each in elastic_rows.steps(elastic_rows.read(folder)))
        last = newest + MORE - newest % elastic_rows.STEPS
        (folder / "last.new").write_text(str(last))
        (folder / "last.new").rename(folder / "last")
        end = await bench.ended("a", 2)
        assert (end.attempt, end.how, end.code) == (1, How.EXITED, 0)

    tell(tmp_path / "fleet", story)
    found = elastic_rows.lineage(elastic_rows.read(folder))
    expected = alone(max(found.by_step), tmp_path / "alone")
    apart = max(abs(a - b) for a, b in zip(found.losses, expected, strict=True))
    gaps = {
        f"{len(before)} -> {len(after)}": after[0]["at"] - before[0]["at"]
        for before, after in pairwise(found.by_step[step] for step in sorted(found.by_step))
        if len(before) != len(after)
    }
    sys.stdout.write(f"losses differ by {apart:.2g}, stalls {gaps}\n")
    assert apart < LOSSES_APART
    if not lost:  # Else that node may have written of the last step, or not.
        elastic_rows.check_samples(found, max(found.by_step))
    assert set(gaps) == {"1 -> 3", "3 -> 2"}
    # A step takes 0.3 s at most. A loss is believed after 4.1 s, and the next store imports torch.
    assert max(gaps.values()) < (60.0 if lost else 1.3)


@thorough
@pytest.mark.parametrize("lost", LAST)
def test_an_unmodified_script_changes_over_nodes(tmp_path: Path, lost: str) -> None:
    """The same, of a script that knows nothing of Treadle: each sample once, the same losses."""
    pytest.importorskip("torch")
    from tests.train.harness import printed
    from tests.train.test_live_auto import EPOCHS, SCRIPT, _check, _rows

    folder = tmp_path / "job"
    folder.mkdir()

    def logs(bench: FleetStory) -> list[str]:
        agents = (link.agent for link in bench.world.links.values())
        folders = [agent.folders.path("a", 1, "") for agent in agents]
        return [path.read_text() for each in folders for path in sorted(each.glob("rank-*.log"))]

    def printed_more(bench: FleetStory, enough: int) -> bool:
        return rows(bench) > enough

    def rows(bench: FleetStory) -> int:
        return sum(len(_rows(text)) for text in logs(bench))

    async def story(bench: FleetStory) -> None:
        bench.within_s = 240.0
        command = (sys.executable, "-m", "treadle.train.auto", SCRIPT, str(EPOCHS))
        bench.job("a", *command, workdir=str(folder))
        await bench.order(Start(0, "a", spread("n0")))
        await bench.until(lambda: any(fact.changes for fact in starts(bench)))
        for action, nodes in enumerate((("n0", "n1", "n2"), LAST[lost]), 1):
            if lost and action == 2:
                enough = rows(bench) + 3 * len(nodes)
                await bench.until(partial(printed_more, bench, enough))
                await lose(bench, lost)
            await bench.order(Change(action, "a", spread(*nodes)))
            started = await bench.started("a", action)
            assert (started.attempt, started.refused) == (1, "")
            stalls.append(started.stall_s)
        (folder / "fast").touch()
        end = await bench.ended("a", 2)
        assert (end.attempt, end.how, end.code) == (1, How.EXITED, 0), logs(bench)
        said.extend(logs(bench))

    def starts(bench: FleetStory) -> list[JobStarted]:
        return [fact for fact in bench.jobs.facts if isinstance(fact, JobStarted)]

    said: list[str] = []
    stalls: list[float | None] = []
    tell(tmp_path / "fleet", story)
    sys.stdout.write(f"stalls {stalls}\n")
    _check(
        [_rows(text) for text in said],
        _rows(printed(Path(SCRIPT), str(EPOCHS), workdir=folder)),
        torn=bool(lost),
    )
    # A step takes 1 s at most. A loss is believed after 4.1 s, and the next store imports torch.
    assert max(stall for stall in stalls if stall is not None) < (60.0 if lost else 2.0)
