"""What `why` says of sizes and the queue agrees with itself and with what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play, play_on
from treadle.cli.live.why import place_text
from treadle.control.api.sizes import scaling_doubt
from treadle.control.learning import keys_of
from treadle.core.attempt import LastProgress
from treadle.core.cluster import Node
from treadle.core.events import JobProgressed, JobUpdated
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State

NEAR = (Node("a", 4, "none", rack="r1"), Node("b", 1, "none", rack="r1"))
FAR = (Node("a", 4, "none", rack="r1"), Node("b", 1, "none", rack="r2"))


@pytest.mark.parametrize(("nodes", "sooner"), [(NEAR, True), (FAR, False)])
def test_an_end_is_sooner_by_growth_only_where_that_is_faster(
    nodes: tuple[Node, ...], sooner: bool, tmp_path: Path
) -> None:
    """It runs on four devices of a rack, and the fifth is in the same rack, or in another."""

    async def story(here: Bench) -> None:
        context = here.live.context
        await here.live.order_node(ME, "b", "drain")
        job = await here.submit("forever", devices="4..5", resumable=True)
        await here.reached(job, State.RUNNING)
        said = LastProgress(0.0, 1000.0, 1.0, share_per_s=0.001, measured_s=10.0)
        context.learner.hear(job, said)
        row = context.scheduler.jobs[job]
        assert row.size == 4
        context.inbox.tell(JobUpdated(replace(row.spec, iterations=1000.0)))
        context.inbox.tell(JobProgressed(job, row.action, 0.0, 1.0, said))
        await here.settle()
        await here.live.order_node(ME, "b", "undrain")
        await here.settle()
        answer = await here.live.why(job)
        assert answer.end is not None
        assert ("or sooner if it grows" in answer.end.because) is sooner
        slow = "more of them are not expected to make it faster" in answer.because
        assert slow != sooner

    play_on(MemoryWorld.of(*nodes), story, tmp_path, policy="weave-l")


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        ((1,), "1 device"),
        ((5,), "5 devices"),
        ((1, 2), "1 and 2 devices"),
        ((1, 2, 4, 6), "1, 2, 4 and 6 devices"),
        ((1, 2, 3, 4, 8), "1 to 4 and 8 devices"),
    ],
)
def test_all_sizes_that_were_measured_are_named(
    measured: tuple[int, ...], text: str, tmp_path: Path
) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="1..16")
        await here.reached(job, State.RUNNING)
        row = here.live.context.scheduler.jobs[job]
        profile = replace(row.spec.profile, measured=measured)
        row = row._replace(spec=replace(row.spec, profile=profile))
        doubt = scaling_doubt(here.live.context, row)
        assert doubt == f"; its speed was measured with {text} only"

    play(story, tmp_path, devices=16)


def test_a_speed_on_several_nodes_is_not_said_to_be_of_one_place(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        job = await here.submit("forever", devices="5..6")
        await here.reached(job, State.RUNNING)
        row = here.live.context.scheduler.jobs[job]
        profile = replace(row.spec.profile, measured=(5,))
        row = row._replace(spec=replace(row.spec, profile=profile))
        assert scaling_doubt(here.live.context, row) == (
            "; its speed on as few nodes as it needs was measured with 5 devices only"
        )

    play_on(MemoryWorld.of(Node("a", 4, "none"), Node("b", 2, "none")), story, tmp_path)


def test_a_job_that_waits_for_a_drained_node_is_not_in_the_queue(tmp_path: Path) -> None:
    """1. One job waits for a drained node, another for a device."""

    async def story(here: Bench) -> None:
        await here.live.order_node(ME, "b", "drain")
        await here.reached(await here.submit("forever", devices="4"), State.RUNNING)
        await here.submit("true", devices="5")
        waits = await here.submit("true")
        await here.settle()
        why = await here.live.why(waits)
        assert why.evidence[0].endswith(", 1 job waits, 1 more does not fit even if all are free")
        assert place_text(why) == "the only job in the queue"

    play_on(MemoryWorld.of(*NEAR), story, tmp_path)


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (1, "the length of only 1 other job is known here"),
        (2, "the lengths of only 2 other jobs are known here"),
    ],
)
def test_one_known_length_is_said_in_the_singular(runs: int, text: str, tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        profiles = here.live.context.learner.profiles
        for number in range(runs):
            profiles.learn(keys_of("other", "", (f"x{number}",)), 1, 100.0)
        job = await here.submit("forever")
        why = await here.live.why(job)
        assert why.length is not None
        assert why.length.because == text

    play(story, tmp_path, devices=1)
