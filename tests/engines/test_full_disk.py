"""The disk of a node is full: its jobs run on, and controllers begin."""

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell
from tests.engines.fleet_world import FENCING
from tests.engines.small_disk import clear, fill, remount, small_disk

from treadle.core.actions import Start
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, NodeLost
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.engines.agent.node_grant import NodeGrant
from treadle.engines.node import fence, kept_value
from treadle.testing.engine_bench import row

# -- values that are kept in place ----------------------------------------------------------------


def test_the_newest_text_is_read_though_it_is_smaller(tmp_path):
    path = tmp_path / "value"
    for text in ("99", "100", "7"):
        kept_value.write(path, text)
        assert kept_value.read(path) == text


@pytest.mark.parametrize("reached", range(0, 40, 3))
def test_a_write_that_was_cut_off_leaves_the_text_before_it(tmp_path, reached):
    path = tmp_path / "value"
    kept_value.write(path, "older")
    before = path.read_bytes()
    kept_value.write(path, "newer")
    after = path.read_bytes()
    begin = next(at for at in range(len(after)) if after[at] != before[at])
    path.write_bytes(after[: begin + reached] + before[begin + reached :])
    assert kept_value.read(path) == ("newer" if path.read_bytes() == after else "older")
    kept_value.write(path, "newest")
    assert kept_value.read(path) == "newest"


def test_what_has_no_whole_text_says_nothing_and_takes_one(tmp_path):
    path = tmp_path / "value"
    path.write_bytes(b"12345.678")
    assert kept_value.read(path) is None
    assert fence.read(path) == 0.0
    kept_value.write(path, "1")
    assert kept_value.read(path) == "1"


def test_leases_are_renewed_and_followed_on_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        lease = NodeGrant(disk, 60.0)
        lease.renew()
        fill(disk)
        assert lease.renew()
        fence.write(lease.path, fence.now() - 1.0)
        assert not lease.renew(), "the next one has its file already"
        assert not lease.is_over


# -- jobs -----------------------------------------------------------------------------------------


def test_jobs_outlive_a_full_disk_and_controllers_and_agents_that_begin_meanwhile(tmp_path):
    async def story(bench: FleetStory) -> None:
        bench.job("a", "sleep", "600")
        await bench.order(Start(0, "a", spread("n1")))
        await bench.started("a", 0)
        fill(disk)
        filled = fence.now()
        lease = next((disk / "leases").glob("*.lease"))
        await bench.until(lambda: fence.read(lease) > filled + 2 * FENCING.failover_s)
        assert bench.runs_on("a") == {"n1"}
        engine = await bench.crash()
        running = row("a", Phase.RUNNING, spread("n1"))
        await engine.adopt([running], [AttemptId("a", 1)])
        assert [view.health for view in engine.view()] == ["answers", "answers"]
        await bench.world.replace_agent("n1")
        filled = fence.now()
        await bench.until(lambda: fence.read(lease) > filled + 2 * FENCING.failover_s)
        assert bench.runs_on("a") == {"n1"}
        assert bench.count(AttemptEnded, "a") == 0
        clear(disk)

    with small_disk(tmp_path / "nodes" / "n1") as disk:
        tell(tmp_path, story, nodes=("n0", "n1"))


def test_a_lease_that_cannot_be_written_is_the_reason_that_is_told(tmp_path, caplog):
    async def story(bench: FleetStory) -> None:
        bench.job("a", "sleep", "600")
        await bench.order(Start(0, "a", spread("n1")))
        await bench.started("a", 0)
        remount(leases, "ro")
        because = "node n1 cannot renew its grant: read-only file system"
        await bench.until(lambda: bench.engine.view()[1].warning == because)
        await bench.until(lambda: not bench.runs_on("a"))
        remount(leases, "rw")
        end = await bench.ended("a", 0)
        assert (end.how, end.node_lost, end.error) == (How.LOST, True, because)
        await bench.until(lambda: bench.engine.view()[1].warning == "")
        assert caplog.text.count(f"{because} ([Errno") == 1, "its agent says it once"

    with small_disk(tmp_path / "nodes" / "n1" / "leases") as leases:
        tell(tmp_path, story, nodes=("n0", "n1"))


def test_a_node_that_cannot_note_its_controller_keeps_none_from_beginning(tmp_path, caplog):
    """Its epoch has no file, and the disk no room for one; what runs there is waited for."""

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sleep", "600")
        bench.job("b", "sleep", "600")
        await bench.order(Start(0, "a", spread("n0")), Start(1, "b", spread("n1")))
        await bench.started("a", 0)
        await bench.started("b", 1)
        (disk / "epoch").unlink()
        fill(disk)
        engine = await bench.crash()
        b = row("b", Phase.RUNNING, spread("n1"), action=1, attempt=1)
        rows = [row("a", Phase.RUNNING, spread("n0")), b]
        await engine.adopt(rows, [AttemptId("a", 1), AttemptId("b", 1)])
        assert [node.name for node in engine.nodes()] == ["n0"]
        (lost,) = [fact for fact in bench.jobs.facts if isinstance(fact, NodeLost)]
        because = "node n1 cannot note its controller: no space left on device"
        assert (lost.node, lost.why) == ("n1", f"its agent does not say what runs there: {because}")
        assert because in caplog.text
        assert (bench.runs_on("a"), bench.runs_on("b")) == ({"n0"}, {"n1"})
        clear(disk)
        await bench.until(lambda: len(engine.nodes()) == 2)

    with small_disk(tmp_path / "nodes" / "n1") as disk:
        tell(tmp_path, story, nodes=("n0", "n1"))
