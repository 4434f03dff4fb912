"""What people are told when nodes are lost: `why`, events, details and output."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.control.asking import events_of, looked_at, runs
from tests.control.living import ME, bash, until
from tests.control.on_fleet import nodes_of, on_fleet, said
from tests.engines.fleet_world import FleetWorld
from treadle.control.api import LiveService
from treadle.wire.jobs import State
from treadle.wire.problems import LostOutputError, UnavailableError

ANEW = (
    "it began anew: no other node has checkpoints of it, and any that attempt 1 wrote are on node "
    "{}, which was lost"
)
COPY = (
    "it went on from the copy of its checkpoints on node {}, written (\\d+ s|a moment) before it "
    "started; those of attempt 1 are on node {}, which was lost"
)


async def lost(live: LiveService, world: FleetWorld, *names: str) -> None:
    for name in names:
        world.cut(name)
    await looked_at(live)


def test_a_job_that_is_lost_says_so_while_its_node_may_still_run_it(tmp_path: Path) -> None:
    """1. A job of one node, which is not resumable, and a gang of two. 2. A node of each is lost.
    3. Both run again. 4. The nodes return, and nothing more is said of what they had."""

    async def story(live: LiveService, world: FleetWorld) -> None:
        gang = await runs(live, "echo ready; exec sleep 60", devices="4", resumable=True)
        one = await runs(live, "echo ready; exec sleep 60")
        await said(live, one, "ready")
        (own,), spread = await nodes_of(live, one), await nodes_of(live, gang)
        (away,) = [name for name in world.links if name in spread][-1:]
        await lost(live, world, own, away)
        for job, name, resumable in ((one, own, False), (gang, away, True)):
            view = (await live.job(job)).job
            assert view.state is State.STOPPING
            assert (view.cause, view.numbers["nodes"]) == ("node-lost", (name,))
            assert view.numbers["resumable"] is resumable
            assert "lease" in str(view.numbers["stuck"])
        await live.cancel(ME, gang)
        why = await live.why(gang)
        assert (why.code, why.numbers["by"]) == ("node-lost", "cancel")
        await until(live, State.CANCELLED, jobs=(gang,))
        await until(live, State.RUNNING, jobs=(one,))
        assert (await live.job(one)).job.attempts == 2
        with pytest.raises(LostOutputError) as refused:
            await live.log(one, attempt=1)
        assert str(refused.value) == (
            f"the output of attempt 1 of job {one} is on node {own}, which is lost"
        )
        world.mend(own)
        world.mend(away)
        while "ready" not in (await _text(live, one)):
            await asyncio.sleep(0.01)
        for job in (one, gang):
            assert not [e for e in await events_of(live, job) if "was replaced" in e.text]

    on_fleet(story, tmp_path)


async def _text(live: LiveService, job: str) -> str:
    """Of the first attempt, once its node is there."""
    try:
        return (await live.log(job, attempt=1)).text
    except (LostOutputError, UnavailableError):
        return ""


def test_a_job_that_is_resized_after_a_loss_says_what_it_waits_for(tmp_path: Path) -> None:
    """It is given other devices at once, and nothing of it may run twice."""

    async def story(live: LiveService, world: FleetWorld) -> None:
        job = await runs(live, "exec sleep 60", devices="1..6", resumable=True)
        await until_size(live, job, 6)
        await lost(live, world, "n2")
        seen = set()
        while (view := (await live.job(job)).job).state is not State.RUNNING:
            seen.add((view.cause, view.numbers.get("nodes"), str(view.numbers.get("stuck"))))
            await asyncio.sleep(0.005)
        assert len(view.devices) == 4
        waits = [each[:2] for each in seen if "lease" in each[2]]
        assert waits == [("node-lost", ("n2",))] * len(waits)
        assert waits, seen
        assert not [each for each in seen if each[0] == "preempted"], seen

    on_fleet(story, tmp_path, policy="afs")


async def until_size(live: LiveService, job: str, size: int) -> None:
    while len((view := (await live.job(job)).job).devices) != size or view.state != State.RUNNING:
        await asyncio.sleep(0.01)


async def until_attempt(live: LiveService, job: str, number: int) -> None:
    while (view := (await live.job(job)).job).attempts != number or view.state != State.RUNNING:
        await asyncio.sleep(0.01)


def test_what_a_job_begins_with_after_a_loss_is_said(tmp_path: Path) -> None:
    """1. One job has no checkpoints. 2. Those of the other were copied. 3. Both nodes are lost."""
    writes = 'test "$TREADLE_ATTEMPT" = 2 || echo 1 > "$TREADLE_CHECKPOINT_DIR/w"; exec sleep 60'

    async def story(live: LiveService, world: FleetWorld) -> None:
        bare = await runs(live, "exec sleep 60", devices="2", resumable=True)
        full = await runs(live, writes, devices="2", resumable=True)
        copied = list((tmp_path / "nodes").glob(f"n?/checkpoints/{full}-*/w"))
        while len(copied) < 2:
            await asyncio.sleep(0.01)
            copied = list((tmp_path / "nodes").glob(f"n?/checkpoints/{full}-*/w"))
        (first,), (second,) = await nodes_of(live, bare), await nodes_of(live, full)
        (left,) = {"n0", "n1", "n2", "n3"} - {first, second} & {
            path.parents[2].name for path in copied
        }
        await lost(live, world, first, second)
        for job in (bare, full):
            await until_attempt(live, job, 2)
        for job, pattern in (
            (bare, re.escape(ANEW.format(first))),
            (
                full,
                COPY.format(left, second),
            ),
        ):
            run = (await live.job(job)).attempts[-1]
            assert re.fullmatch(pattern, run.fallback), run.fallback
            assert run.lost == ()
            texts = [event.text for event in await events_of(live, job)]
            assert any(re.fullmatch(f".*runs; {pattern}", text) for text in texts)

    on_fleet(story, tmp_path, ("n0", "n1", "n2", "n3"), apart=True, copy_every_s=0.02)


def test_a_job_that_moves_says_how_far_its_files_are_copied(tmp_path: Path) -> None:
    """1. A job runs in a copy of its folder. 2. Its node is drained, and it goes on elsewhere."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "code").write_bytes(bytes(1 << 20))
    writes = (
        'trap "exit 143" TERM; '
        'head -c 3000000 /dev/zero > "$TREADLE_CHECKPOINT_DIR/w"; echo ready; sleep 60 & wait'
    )

    async def story(live: LiveService, world: FleetWorld) -> None:
        for link in world.links.values():
            link.refused.add("copy-commit")
        request = bash(writes, devices="1..2", resumable=True, workdir=str(private), grace_s=5.0)
        job = (await live.submit(ME, request)).id
        pattern = "its folder is being copied to node (n[01]): 1 MiB, 0% is done"
        target = await until_because(live, job, pattern)
        for link in world.links.values():
            link.refused.clear()
        await until(live, State.RUNNING, jobs=(job,))
        await said(live, job, "ready")
        (folder,) = (await live.job(job)).attempts[0].workdirs
        assert folder.startswith(f"{target[1]}:{tmp_path}/nodes/{target[1]}/work/{job}-")
        for link in world.links.values():
            link.refused.add("copy-commit")
        other = {"n0": "n1", "n1": "n0"}[target[1]]
        blocker = await runs(live, devices="1")
        assert await nodes_of(live, blocker) == {other}
        await live.order_node(ME, target[1], "drain")
        pattern = f"its checkpoints are being copied from node {target[1]} to node {other}: .*"
        await until_because(live, job, pattern + r"2.86 MiB, \d+% is done")
        view = (await live.job(job)).job
        assert (view.state, view.cause) == (State.RESIZING, "resizing")
        for link in world.links.values():
            link.refused.clear()
        await until(live, State.RUNNING, jobs=(job,))

    on_fleet(story, tmp_path, ("n0", "n1"), apart=True, policy="afs")


async def until_because(live: LiveService, job: str, pattern: str) -> re.Match[str]:
    """Until a list says so."""
    while True:
        (view,) = [each for each in (await live.jobs()).jobs if each.id == job]
        if found := re.fullmatch(pattern, view.because):
            return found
        await asyncio.sleep(0.005)
