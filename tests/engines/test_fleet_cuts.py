"""Members of one attempt on several nodes whose network is cut for a while."""

import asyncio
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell
from tests.shared import thorough

from treadle.core.actions import Change, Start
from treadle.core.attempt import How

CLONE_NEWNET = 0x40000000


@thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
@pytest.mark.parametrize("retries", ["15", "4"])  # 4: connections are given up during the cut
def test_members_over_nodes_survive_a_cut(tmp_path: Path, retries: str) -> None:
    """1. Two nodes. 2. No packet passes for 20 s. 3. A third one joins, in the same attempt."""
    pytest.importorskip("torch")
    from tests.on_ray import elastic_rows
    from tests.on_ray.elastic_story import LOSSES_APART, MORE, SCRIPT, alone

    folder, root = tmp_path / "job", Path(__file__).parents[2]
    folder.mkdir()

    def newest() -> int:
        return max(int(each["step"]) for each in elastic_rows.steps(elastic_rows.read(folder)))

    async def story(bench: FleetStory) -> None:
        bench.within_s = 240.0
        command = (sys.executable, str(SCRIPT), str(folder))
        bench.job("a", *command, workdir=str(root), env={"PYTHONPATH": str(root)})
        await bench.order(Start(0, "a", spread("n0", "n1")))
        await bench.until(lambda: elastic_rows.newest_size(folder) == 2)
        network("ip", "link", "set", "lo", "down")
        before, began = newest(), asyncio.get_running_loop().time()
        await bench.until(lambda: asyncio.get_running_loop().time() > began + 20.0)
        network("ip", "link", "set", "lo", "up")
        assert newest() <= before + 1
        await bench.until(lambda: newest() > before + 3)
        stalls.append(asyncio.get_running_loop().time() - began)
        await bench.order(Change(1, "a", spread("n0", "n1", "n2")))
        assert (await bench.started("a", 1)).attempt == 1
        await bench.until(lambda: elastic_rows.newest_size(folder) == 3)
        (folder / "last.new").write_text(str(newest() + MORE - newest() % elastic_rows.STEPS))
        (folder / "last.new").rename(folder / "last")
        end = await bench.ended("a", 1)
        assert (end.attempt, end.how, end.code) == (1, How.EXITED, 0)

    stalls: list[float] = []
    with network_of_its_own():
        Path("/proc/sys/net/ipv4/tcp_retries2").write_text(retries)
        tell(tmp_path / "fleet", story)
    found = elastic_rows.lineage(elastic_rows.read(folder))
    expected = alone(max(found.by_step), tmp_path / "alone")
    apart = max(abs(a - b) for a, b in zip(found.losses, expected, strict=True))
    sys.stdout.write(f"losses differ by {apart:.2g}, training after {stalls[0]:.1f} s\n")
    assert apart < LOSSES_APART


def network(*command: str) -> None:
    subprocess.run(command, check=True)


@contextmanager
def network_of_its_own() -> Iterator[None]:
    """For this thread, and what it starts: only a loopback."""
    own = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        assert own.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        network("ip", "link", "set", "lo", "up")
        yield
    finally:
        assert own.setns(before, CLONE_NEWNET) == 0
        os.close(before)
