"""Types of device as users meet them: refused, settled at submission, explained."""

from pathlib import Path

import pytest

from tests.unit.control.memory import ME, Bench, play_on
from treadle.core.cluster import Node
from treadle.core.events import NodeLost
from treadle.engines.memory_world import MemoryWorld
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError

A100, H200 = "NVIDIA A100", "NVIDIA H200"


def world(*nodes: tuple[str, int]) -> MemoryWorld:
    return MemoryWorld.of(*(Node(f"n{at}", count, kind) for at, (kind, count) in enumerate(nodes)))


async def nodes_of(here: Bench, job: str) -> set[str]:
    await here.reached(job, State.RUNNING)
    return {device.partition(":")[0] for device in (await here.live.job(job)).job.devices}


def test_a_type_that_is_not_there_is_refused_and_may_wait(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("true", device_type="H200")
        assert str(refused.value) == (
            "the job can never run here: it asks for 1 device of type h200, and there are none; "
            "the types here are NVIDIA A100, cpu"
        )
        assert refused.value.hint == "submit it with --wait-for-capacity to queue it until it fits"
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("true", device_type="a100", devices="4")
        assert refused.value.hint.startswith("submit it with --devices 2 or fewer")
        with pytest.raises(InvalidRequestError, match="expected parts of names of types"):
            await here.submit("true", device_type="h200,")
        job = await here.submit("true", device_type="h200", wait_for_capacity=True)
        await here.settle()
        assert here.state(job) is State.PENDING

    play_on(world((A100, 2), ("cpu", 2)), story, tmp_path)


def test_jobs_run_on_their_types_and_what_waits_says_for_which(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("forever", device_type="h200")
        assert await nodes_of(here, first) == {"n1"}
        slot = await here.submit("forever", device_type="cpu")
        assert await nodes_of(here, slot) == {"n2"}
        plain = await here.submit("forever", devices="2")
        assert await nodes_of(here, plain) == {"n0"}
        picky = await here.submit("forever", device_type="h200")
        await here.settle()
        why = await here.live.why(picky)
        assert (why.code, why.numbers["words"], why.numbers["total"]) == ("type", ("h200",), 1)
        other = await here.submit("forever")
        await here.settle()
        found = await here.live.why(other)
        assert (found.code, found.numbers["free"], found.numbers["total"]) == ("type", 0, 3)
        listed = {view.id: view.because for view in (await here.live.jobs()).jobs}
        assert listed[picky] == why.sentence
        detail = await here.live.job(picky)
        assert detail.device_type == "h200"
        assert detail.again is not None
        assert "--device-type h200" in detail.again.command

    play_on(world((A100, 2), (H200, 1), ("cpu", 2)), story, tmp_path)


def test_a_job_of_no_type_does_not_go_to_cpu_slots_when_its_gpus_are_lost(tmp_path: Path) -> None:
    """1. It waits behind another. 2. The node with GPUs is lost. 3. CPU slots are free."""
    there = world((A100, 1), ("cpu", 2))

    async def story(here: Bench) -> None:
        await here.runs()
        second = await here.submit("true")
        del there.nodes["n0"]
        here.live.context.inbox.tell(NodeLost("n0"))
        await here.settle()
        assert here.state(second) is State.PENDING
        why = await here.live.why(second)
        assert (why.code, why.numbers["lost"]) == ("away", ("n0",))

    play_on(there, story, tmp_path)


def test_gpus_of_a_drained_node_count_when_a_job_is_submitted(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        await here.live.order_node(ME, "n0", "drain")
        job = await here.submit("true", wait_for_capacity=True)
        await here.settle()
        assert here.state(job) is State.PENDING
        why = await here.live.why(job)
        assert (why.code, why.numbers["drained"]) == ("away", ("n0",))
        await here.live.order_node(ME, "n0", "undrain")
        await here.reached(job, State.SUCCEEDED)

    play_on(world((A100, 1), ("cpu", 2)), story, tmp_path)


def test_the_node_to_undrain_is_one_with_devices_of_the_type(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        for node in ("n0", "n1", "n2", "n3"):
            await here.live.order_node(ME, node, "drain")
        job = await here.submit("true", device_type="h200", devices="2")
        why = await here.live.why(job)
        assert why.numbers["drained"] == ("n1", "n2", "n3")
        assert why.change == "treadle nodes undrain n2"
        wide = await here.live.why(await here.submit("true", device_type="h200", devices="5"))
        assert wide.numbers["undrain"] == ("n2", "n3", "n1")
        await here.live.order_node(ME, "n2", "undrain")
        await here.reached(job, State.SUCCEEDED)

    nodes = ((A100, 4), (H200, 1), (H200, 2), (H200, 2), ("cpu", 2))
    play_on(world(*nodes), story, tmp_path)


def test_a_job_that_may_have_either_type_leaves_room_to_one_that_can_grow(tmp_path: Path) -> None:
    """1. An elastic job is on one of the two devices of the first node. 2. All of the second are
    free."""

    async def story(here: Bench) -> None:
        small = await here.submit("forever", devices="1..2", device_type="a100", resumable=True)
        assert await nodes_of(here, small) == {"n0"}
        assert await nodes_of(here, await here.submit("forever")) == {"n1"}

    play_on(world((A100, 2), (H200, 4)), story, tmp_path, policy="backfill")


@pytest.mark.parametrize("kind", [A100, H200])
def test_a_job_is_given_no_gpu_with_less_memory_than_it_asks_for(tmp_path: Path, kind: str) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("forever", devices="1..4", gpu_memory_gib=60.0)
        assert await nodes_of(here, first) == {"n1"}
        assert len((await here.live.job(first)).job.devices) == 2
        second = await here.submit("forever", gpu_memory_gib=60.0)
        await here.settle()
        assert here.state(second) is State.PENDING
        why = await here.live.why(second)
        assert (why.code, why.numbers["total"], why.numbers["memory_gib"]) == ("type", 2, 60.0)
        assert await nodes_of(here, await here.submit("forever", gpu_memory_gib=40.0)) == {"n0"}
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("true", devices="3", gpu_memory_gib=60.0)
        assert str(refused.value) == (
            "the job can never run here: it asks for 3 GPUs with 60 GiB of memory each, "
            "and there are 2"
        )
        assert refused.value.hint.startswith("submit it with --devices 2 or fewer")

    small = Node("n0", 2, A100, device_memory_gib=40.0)
    large = Node("n1", 2, kind, device_memory_gib=80.0)
    play_on(MemoryWorld.of(small, large), story, tmp_path, policy="backfill")


@pytest.mark.parametrize("policy", ["weave-l", "backfill", "rubick"])
def test_any_is_all_devices_under_every_policy(tmp_path: Path, policy: str) -> None:
    """1. Seven devices are more than there are GPUs, or CPU slots. 2. Twelve are more than all."""

    async def story(here: Bench) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("true", devices="12", device_type="any")
        assert "12 devices" in str(refused.value)
        assert "11" in str(refused.value)
        assert refused.value.hint.startswith("submit it with --devices 11 or fewer")
        slot = await here.submit("forever", device_type="cpu")
        assert await nodes_of(here, slot) <= {"n0", "n1"}
        wide = await here.submit("forever", devices="7", device_type="any")
        assert await nodes_of(here, wide) & {"n0", "n1"}
        gpu = await here.submit("forever")
        await here.settle()
        assert here.state(wide) is State.RUNNING, "what was asked for later leaves it in peace"
        if here.state(gpu) is State.RUNNING:
            assert await nodes_of(here, gpu) <= {"n2", "n3"}

    nodes = (("cpu", 2), ("cpu", 3), (A100, 2), (H200, 4))
    play_on(world(*nodes), story, tmp_path, policy=policy)


@pytest.mark.parametrize("policy", ["weave-l", "backfill"])
def test_a_job_larger_than_a_node_starts_on_parts_of_as_few_nodes(
    tmp_path: Path, policy: str
) -> None:
    """Of five devices two nodes are needed in any case: of four and two, or of three and three."""

    async def story(here: Bench) -> None:
        await here.runs(device_type="h200")
        wide = await here.submit("forever", devices="5")
        assert await nodes_of(here, wide) == {"n0", "n1"}
        slot = await here.submit("forever", device_type="cpu")
        assert await nodes_of(here, slot) <= {"n2", "n3", "n4"}
        spread = await here.submit("forever", devices="4", device_type="cpu")
        assert len(await nodes_of(here, spread)) == 2

    nodes = ((A100, 2), (H200, 4), ("cpu", 2), ("cpu", 3), ("cpu", 2))
    play_on(world(*nodes), story, tmp_path, policy=policy)


async def half_full(here: Bench) -> None:
    """Two of the four GPUs of each node are taken."""
    pairs = [await here.submit("forever", devices="2") for _ in range(6)]
    where = {(await nodes_of(here, pair)).pop(): pair for pair in pairs}
    for pair in where.values():
        await here.live.cancel(ME, pair)
        await here.reached(pair, State.CANCELLED)


@pytest.mark.parametrize("policy", ["weave-l", "backfill"])
def test_devices_that_a_job_may_not_use_are_not_counted_as_free_for_it(
    tmp_path: Path, policy: str
) -> None:
    """A job that may have all types waits for more than are free, and one behind it wants GPUs."""

    async def story(here: Bench) -> None:
        await half_full(here)
        await here.submit("forever", devices="13", device_type="any")
        gang = await here.submit("forever", devices="5")
        await here.settle()
        why = await here.live.why(gang)
        assert why.numbers["asked"] == 5
        assert why.numbers["free"] == 6

    play_on(world(*[(A100, 4)] * 3, ("cpu", 5)), story, tmp_path, policy=policy)
