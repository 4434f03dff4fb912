"""A controller that begins while a node of its Ray cluster has no agent, and what becomes of it."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.on_ray.cluster import RayCluster
from tests.shared import thorough
from treadle.engines.clusters.ray import frames
from treadle.engines.clusters.ray.driver import ATTEND_WITHIN_S
from treadle.engines.clusters.ray.frames import Settings

pytestmark = thorough

BUSY = "n1"


def settings(root: Path) -> Settings:
    return Settings(root=str(root), holder="a test", instance=str(root), look_every_s=0.1)


@contextmanager
def no_agent(root: Path) -> Iterator[None]:
    """One node gets none, since another one works in its folder."""
    folder = root / "nodes" / BUSY
    folder.mkdir(mode=0o700, parents=True)
    with (folder / "agent.lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def test_a_driver_ends_with_its_controller_while_it_waits_for_agents(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    with no_agent(tmp_path), ray_nodes.connect() as link:
        link.sendall(frames.packed(settings(tmp_path)))
        link.settimeout(ATTEND_WITHIN_S)
        assert isinstance(frames.read_blocking(link), frames.NodeIs)
        link.shutdown(1)
        begun = time.monotonic()
        while link.recv(1 << 16):
            pass
        assert time.monotonic() - begun < ATTEND_WITHIN_S / 3


def test_a_controller_does_not_wait_for_a_node_that_dies(
    tmp_path: Path, ray_nodes: RayCluster
) -> None:
    begun = time.monotonic()
    with no_agent(tmp_path), ray_nodes.connect() as link:
        link.sendall(frames.packed(settings(tmp_path)))
        link.settimeout(ATTEND_WITHIN_S)
        seen = [frames.read_blocking(link)]
        ray_nodes.lose(BUSY)
        while not isinstance(seen[-1], frames.Ready):
            seen.append(frames.read_blocking(link))
        assert time.monotonic() - begun < ATTEND_WITHIN_S
        assert seen[-1].coming == ()
        names = {each.node.name for each in seen if isinstance(each, frames.NodeIs)}
        assert BUSY not in names
        assert names
    ray_nodes.give_back_all()
