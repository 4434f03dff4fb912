"""The lease of a node: how long its ranks may run, as its agent and its supervisors see it."""

from math import inf
from pathlib import Path

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.launch import Launch, Part
from treadle.engines.agent.node_grant import NodeGrant
from treadle.engines.node import environment, fence
from treadle.engines.node.fence import LOOK_EVERY_S, Fence


def test_ranks_run_until_the_lease_runs_out(tmp_path: Path):
    path = tmp_path / "lease"
    fence.write(path, fence.now() + 60.0)
    seen = Fence(path)
    assert not seen.is_closed()
    assert (seen.left_s() or 60.0) <= LOOK_EVERY_S, "a machine that slept must not oversleep"
    fence.write(path, fence.now() - 1.0)
    assert not seen.is_closed(), "it has looked just now"
    seen._look_at = 0.0
    assert seen.is_closed(), "the next controller may have another --failover"


def test_a_lease_that_cannot_be_read_lasts_as_long_as_it_said(tmp_path: Path):
    path = tmp_path / "lease"
    assert Fence(path).is_closed(), "nothing may run without one"
    fence.write(path, fence.now() + 60.0)
    seen = Fence(path)
    assert not seen.is_closed()
    path.unlink()
    assert not seen.is_closed()


def test_without_a_lease_ranks_run_for_ever():
    assert not Fence(None).is_closed()
    assert Fence(None).left_s() is None


def test_a_lease_goes_on_as_long_as_it_is_renewed_in_time(tmp_path: Path):
    lease = NodeGrant(tmp_path, 60.0)
    assert lease.is_over
    assert not lease.renew(), "the first one is another one"
    first = lease.path
    assert lease.renew()
    assert NodeGrant(tmp_path, 60.0).path == first, "another agent goes on with it"
    fence.write(first, fence.now() - 1.0)
    assert not lease.renew()
    assert lease.path != first
    assert Fence(first).is_closed()
    assert not Fence(lease.path).is_closed()


def test_a_node_that_joins_anew_goes_on_with_its_grant_when_a_controller_is_in_charge(
    tmp_path: Path,
):
    """Its cluster has said that it left, and a controller may be about to give its jobs away."""
    old = NodeGrant(tmp_path, 60.0, "first")
    old.renew(fence.now() - 30.0)
    assert NodeGrant(tmp_path, 60.0, "first").path == old.path, "only its agent is another one"
    until = fence.read(old.path)
    anew = NodeGrant(tmp_path, 60.0, "second")
    assert anew.renew()
    assert (anew.path, fence.read(old.path)) == (old.path, until), "it is not renewed"
    assert anew.unconfirmed_s() is None
    anew.keep()
    assert anew.renew()
    assert fence.read(old.path) > until


def test_a_grant_that_has_run_out_is_not_kept(tmp_path: Path):
    """1. A node joins anew. 2. Its grant runs out before a controller is in charge."""
    old = NodeGrant(tmp_path, 60.0, "first")
    old.renew()
    anew = NodeGrant(tmp_path, 60.0, "second")
    fence.write(old.path, fence.now() - 1.0)
    anew.keep()
    assert anew.is_over
    assert not anew.renew()
    assert anew.path != old.path
    assert not old.path.exists()


def test_what_runs_under_never_ends_with_the_next_failover_that_ends(tmp_path: Path):
    never = NodeGrant(tmp_path, inf)
    never.renew()
    assert (fence.read(never.path), never.failover_s) == (inf, inf)
    later = NodeGrant(tmp_path, 60.0)
    assert later.failover_s == inf, "what runs there was promised that"
    assert later.renew()
    assert later.path == never.path
    assert later.failover_s == 60.0
    assert fence.read(later.path) <= fence.now() + 60.1


def test_a_node_that_treadle_leaves_has_no_grant(tmp_path: Path):
    grant = NodeGrant(tmp_path, inf)
    grant.renew()
    NodeGrant.revoke(tmp_path)
    assert grant.is_over


def test_a_lease_counts_from_when_the_cluster_was_asked(tmp_path: Path):
    lease = NodeGrant(tmp_path, 60.0)
    lease.renew(asked_at=fence.now() - 61.0)
    assert lease.is_over


def test_a_launcher_on_several_nodes_finds_the_first(tmp_path: Path):
    part = Part(
        node_rank=1, addresses=("10.0.0.1", "10.0.0.2"), first_rank=1, ranks=1, world_size=2, port=7
    )
    launch = Launch(
        job="a", attempt=1, command=("torchrun",), workdir="/", ranks=1, launcher=True, part=part
    )
    devices = Allocation((Device("n1", 0), Device("n1", 1)))
    found = environment.common(
        launch, devices, uuids=("", ""), tag="t", checkpoints=str(tmp_path), base={}
    )
    assert {name: text for name, text in found.items() if name.startswith("PET_")} == {
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "10.0.0.1:7",
        "PET_RDZV_ID": "a",
    }
    assert "RANK" not in found
