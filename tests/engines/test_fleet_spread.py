"""Jobs on several nodes: ranks, ends, stops, changes, and a training over two of them."""

import sys

import pytest
from tests.engines.fleet_story import FleetStory, spread, telling
from tests.shared import thorough

from treadle.core.actions import Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, JobStarted
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.node.interfaces import interface_of
from treadle.testing.engine_bench import row

NAMES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("MASTER_ADDR", "TREADLE_NODE_RANK", "TREADLE_NUM_NODES", "TREADLE_NODE_IPS"),
    "GLOO_SOCKET_IFNAME",
)
SAY = "echo " + " ".join(f"${name}" for name in NAMES) + "; echo $MASTER_PORT"


@telling()
async def test_ranks_on_three_nodes_know_their_places(bench: FleetStory) -> None:
    bench.job("say", "sh", "-c", SAY)
    await bench.order(Start(0, "say", spread("n2", "n0", "n1", each=2)))
    end = await bench.ended("say", 0)
    assert (end.how, end.code, end.codes) == (How.EXITED, 0, (0,) * 6)
    assert bench.count(JobStarted, "say") == 1
    ports = set()
    for rank in range(6):
        found = await bench.engine.output(AttemptId("say", 1), rank)
        words, port = found.data.decode().splitlines()
        group, local = divmod(rank, 2)
        ips = "127.0.0.3,127.0.0.1,127.0.0.2"
        assert words == f"{rank} {local} 6 2 {group} 3 127.0.0.3 {group} 3 {ips} lo"
        assert found.ranks == 6
        ports.add(port)
    assert len(ports) == 1


@pytest.mark.parametrize(
    ("address", "name"),
    [("127.0.0.9", "lo"), ("::1", "lo"), ("203.0.113.9", ""), ("2001:db8::9", ""), ("a-host", "")],
)
def test_the_interface_of_an_address_is_found(address, name):
    assert interface_of(address) == name


@telling()
async def test_it_is_stopped_as_a_whole(bench: FleetStory) -> None:
    bench.job("a", "sleep", "86400")
    await bench.order(Start(0, "a", spread("n0", "n1", "n2")))
    started = await bench.started("a", 0)
    assert (started.attempt, started.changes) == (1, ())
    assert bench.runs_on("a") == {"n0", "n1", "n2"}
    assert bench.world.links["n1"].agent.running() == {"a": 1}
    assert {name for name, *_ in _held(bench)} == {"n0", "n1", "n2"}
    await bench.order(Stop(1, "a"))
    end = await bench.ended("a", 1)
    assert (end.attempt, end.how) == (1, How.STOPPED)
    assert bench.runs_on("a") == set()
    assert _held(bench) == []


def _held(bench: FleetStory) -> list[tuple[str, int]]:
    views = bench.engine.view()
    return [(node.name, each.number) for node in views for each in node.devices if each.jobs]


@telling()
async def test_it_moves_from_one_node_to_several_and_back(bench: FleetStory) -> None:
    bench.job("a", "sleep", "86400")
    await bench.order(Start(0, "a", spread("n0", each=2)))
    await bench.started("a", 0)
    await bench.order(Change(1, "a", spread("n0", "n1")))
    assert (await bench.started("a", 1)).attempt == 2
    assert bench.runs_on("a") == {"n0", "n1"}
    await bench.order(Change(2, "a", spread("n2")))
    assert (await bench.started("a", 2)).attempt == 3
    assert bench.runs_on("a") == {"n2"}
    ends = [fact for fact in bench.jobs.facts if isinstance(fact, AttemptEnded)]
    assert [(end.attempt, end.how) for end in ends] == [(1, How.REPLACED), (2, How.REPLACED)]


@telling()
async def test_no_part_runs_before_all_nodes_are_free(bench: FleetStory) -> None:
    """1. A job on n0 takes long to stop. 2. The next one needs n0 and n1, and waits whole."""
    release = bench.root / "release"
    wait = f"trap '' TERM; while test ! -e {release}; do sleep 0.01; done"
    bench.job("slow", "sh", "-c", wait, grace_s=60.0)
    bench.job("wide", "sleep", "86400")
    bench.job("other", "true")
    await bench.order(Start(0, "slow", spread("n0")))
    await bench.started("slow", 0)
    await bench.order(Stop(1, "slow"), Start(2, "wide", spread("n1", "n0"), ("slow",)))
    await bench.order(Start(3, "other", spread("n2", "n1", each=2)))
    await bench.ended("other", 3)  # There was time to start a part of `wide` as well.
    assert bench.runs_on("wide") == set()
    release.touch()
    await bench.started("wide", 2)
    assert bench.runs_on("wide") == {"n0", "n1"}


@telling()
async def test_half_a_launch_is_stopped_after_a_restart(bench: FleetStory) -> None:
    """1. n1 does not hear the order. 2. The controller dies. 3. The next one stops the half."""
    bench.job("a", "sleep", "86400")
    wide = spread("n0", "n1")
    await bench.engine.adopt([])
    link = bench.world.links["n1"]
    link.refused.add("orders")
    await bench.order(Start(0, "a", wide))
    await bench.until(lambda: bench.runs_on("a") == {"n0"})
    engine = await bench.crash()
    link.refused.clear()
    await engine.adopt([row("a", Phase.STARTING, wide)], [AttemptId("a", 1)])
    end = await bench.ended("a", 0)
    assert (end.attempt, end.how) == (1, How.STOPPED)
    assert bench.runs_on("a") == set()
    assert bench.count(JobStarted, "a") == 0


@telling()
async def test_output_is_found_by_global_rank_after_a_restart(bench: FleetStory) -> None:
    bench.job("say", "sh", "-c", "echo rank $RANK on node $GROUP_RANK")
    await bench.order(Start(0, "say", spread("n1", "n2", each=2)))
    await bench.ended("say", 0)
    engine = await bench.crash()
    await engine.adopt([])
    for rank in range(4):
        found = await engine.output(AttemptId("say", 1), rank)
        assert found.data == b"rank %d on node %d\n" % (rank, rank // 2)
    followed = [piece.data async for piece in engine.follow(AttemptId("say", 1), 3)]
    assert followed == [b"rank 3 on node 1\n"]
    with pytest.raises(InvalidInputError, match="rank 4"):
        await engine.output(AttemptId("say", 1), 4)


ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(dist.get_world_size(), total.item())
dist.destroy_process_group()
"""


@thorough
@telling()
async def test_torch_meets_over_two_nodes(bench: FleetStory) -> None:
    """Gloo over two loopback addresses."""
    pytest.importorskip("torch")
    bench.job("sum", sys.executable, "-W", "ignore", "-c", ALL_REDUCE)
    bench.within_s = 240.0  # a busy machine takes long to import torch
    await bench.order(Start(0, "sum", spread("n0", "n1")))
    end = await bench.ended("sum", 0)
    said = [(await bench.engine.output(AttemptId("sum", 1), rank)).data for rank in (0, 1)]
    assert (end.how, end.code) == (How.EXITED, 0), said
    assert [data.splitlines()[-1] for data in said] == [b"2 3.0"] * 2
