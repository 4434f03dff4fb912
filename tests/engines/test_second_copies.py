"""Second copies of checkpoints: when they are made, what they are worth, and when they go."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.engines.copy_story import WRITES, folder, found, often, runs, stop
from tests.engines.fleet_story import FleetStory, spread, tell

from treadle.core.actions import Start
from treadle.core.launch import AttemptId
from treadle.engines.agent import agent
from treadle.engines.agent.copies import drafts
from treadle.engines.agent.copies.tree import ChangedError
from treadle.engines.fleet.copies.checkpoint_copies import CheckpointCopies
from treadle.engines.fleet.copies.second_copies import RESTLESS, keep_second
from treadle.engines.fleet.gang import Gang, Seat

# -- what they are worth --------------------------------------------------------------------------


def test_the_second_copy_counts_more_than_what_other_nodes_have_when_the_first_is_lost(tmp_path):
    """Rank 1 writes the same file later than rank 0, and a file that rank 0 does not have."""
    script = (
        "cd $TREADLE_CHECKPOINT_DIR; if [ $RANK = 0 ]; then echo first > state; else "
        "while test ! -e {go}; do sleep 0.01; done; echo other > state; echo 1 > own; fi; "
        "touch {wrote}-$TREADLE_ATTEMPT-$RANK; exec sleep 86400"
    )

    async def story(bench: FleetStory) -> None:
        often(bench)
        go = bench.root / "go"
        bench.job("a", "sh", "-c", script.format(go=go, wrote=bench.root / "wrote"))
        await bench.order(Start(0, "a", spread("n1", "n2")))
        await bench.until((folder(bench, "n0") / "state").exists)
        go.touch()
        await bench.until((bench.root / "wrote-1-1").exists)
        bench.world.cut("n1")
        await bench.ended("a", 0)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 1, 2, "n2")
        assert (folder(bench, "n2") / "state").read_text() == "first\n"
        assert found(bench, 2) == ["own", "state"]

    tell(tmp_path, story, apart=True)


def test_what_a_node_wrote_itself_counts_more_than_what_the_first_was_given(tmp_path):
    """Both nodes are given the files of the first attempt, and each writes its own anew."""
    script = (
        "cd $TREADLE_CHECKPOINT_DIR; echo $TREADLE_ATTEMPT > rank-$RANK; "
        "ln -sfn rank-$TREADLE_ATTEMPT link-$RANK; cat rank-* > {root}/seen; "
        "touch {root}/wrote-$TREADLE_ATTEMPT-$RANK; exec sleep 86400"
    )

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", script.format(root=bench.root))
        for attempt in (1, 2):
            await runs(bench, 2 * attempt, attempt, "n0", "n1")
            await stop(bench, 2 * attempt + 1)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 6, 3, "n2")
        here = folder(bench, "n2")
        assert [(here / f"rank-{rank}").read_text() for rank in (0, 1)] == ["2\n", "2\n"]
        assert [str((here / f"link-{rank}").readlink()) for rank in (0, 1)] == ["rank-2"] * 2

    tell(tmp_path, story, apart=True)


def test_a_link_that_leads_elsewhere_is_copied_though_no_file_has_changed(tmp_path):
    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0")
        link, copy = (folder(bench, node) / "latest" for node in ("n0", "n1"))
        link.symlink_to("1-0")
        await bench.until(copy.is_symlink)
        link.unlink()
        link.symlink_to("2-0")
        await bench.until(lambda: copy.resolve().name == "2-0")

    tell(tmp_path, story, apart=True)


# -- when they are made ---------------------------------------------------------------------------


def test_a_folder_that_has_changed_between_two_looks_is_not_copied(tmp_path):
    """The moment between two files of one checkpoint is quiet, and the first is no checkpoint."""

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0")
        copies, here = bench.engine.copies, folder(bench, "n0")
        (here / "weights").write_text("of step 2")
        state = await copies.news("a")
        (here / "optimizer").write_text("of step 2")
        with pytest.raises(ChangedError):
            await copies.second("a", state, lambda: True)
        assert not folder(bench, "n1").exists()
        await copies.second("a", await copies.news("a"), lambda: True)
        assert sorted(path.name for path in folder(bench, "n1").iterdir()) == [
            *("1-0", "optimizer", "weights")
        ]
        assert await copies.news("a") == "", "it has the newest"

    tell(tmp_path, story, apart=True)


class Copies(CheckpointCopies):
    """Of jobs whose names say what happens to them."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def news(self, job: str) -> str:
        if job == "odd":
            raise ValueError("of a kind that nobody has thought of")
        return "new"

    async def second(self, job: str, state: str, wanted: Callable[[], bool]) -> None:
        assert state == "new"
        assert wanted()
        self.made.append(job)
        if job == "restless":
            raise ChangedError("it changes all the time")


def keeps(jobs: tuple[str, ...], enough: Callable[[Copies], bool]) -> Copies:
    """Have second copies made until that is enough."""
    copies = Copies()
    gangs = [Gang(AttemptId(job, 1), 0, {"n0": Seat(None, None, 0)}) for job in jobs]

    async def whole() -> None:
        task = asyncio.ensure_future(keep_second(copies, lambda: gangs, 0.001))
        async with asyncio.timeout(20):
            while not enough(copies) and not task.done():
                await asyncio.sleep(0.001)
        assert not task.done(), task.exception()
        task.cancel()

    asyncio.run(whole())
    return copies


def test_an_error_of_any_kind_stops_no_other_copies(caplog):
    keeps(("odd", "good"), lambda copies: copies.made.count("good") > 1)
    assert "job odd has no new second copy" in caplog.text


def test_a_folder_that_changes_all_the_time_is_said_once(caplog):
    def enough(copies: Copies) -> bool:
        return copies.made.count("restless") > 2 * RESTLESS

    with caplog.at_level(logging.WARNING, "treadle"):
        keeps(("restless",), enough)
    assert caplog.text.count("its checkpoint folder changes all the time") == 1


# -- when they go ---------------------------------------------------------------------------------


def test_copies_and_drafts_of_a_job_that_ends_after_a_restart_are_removed(tmp_path):
    """The controller that made them knew the job's folder; the next one knows its number."""

    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0")
        await bench.until(lambda: folder(bench, "n1").joinpath("1-0").exists())
        await stop(bench, 1)
        draft = folder(bench, "n2").with_name(".incoming-a")
        (draft / "tree").mkdir(parents=True)
        other = folder(bench, "n2").with_name(".incoming-b")
        other.mkdir()
        engine = await bench.crash()
        await engine.adopt([])
        await engine.tidy("a")
        assert not folder(bench, "n1").exists()
        assert not draft.exists()
        assert other.exists(), "it is another job's"
        assert folder(bench, "n0").joinpath("1-0").exists()

    tell(tmp_path, story, apart=True)


def test_the_last_copy_stays(tmp_path):
    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0")
        await bench.until(lambda: folder(bench, "n1").joinpath("1-0").exists())
        bench.world.cut("n0")
        await bench.ended("a", 0)
        await bench.engine.tidy("a")
        assert folder(bench, "n1").joinpath("1-0").exists()

    tell(tmp_path, story, apart=True)


def test_drafts_that_nothing_goes_on_with_are_removed_now_and_then(tmp_path, monkeypatch):
    async def story(bench: FleetStory) -> None:
        monkeypatch.setattr(agent, "SWEEP_EVERY_S", 0.0)
        await bench.engine.adopt([])
        here = bench.root / "nodes" / "n0"
        left = [
            here / "checkpoints" / ".incoming-a",
            here / "code" / ".incoming-f00",
            here / "work" / ".a",
        ]
        for path in left:
            (path / "tree").mkdir(parents=True)
        outgoing = here / "checkpoints" / ".outgoing-b"
        outgoing.mkdir()
        calls = bench.world.links["n0"].calls
        asked = calls["facts"]
        await bench.until(lambda: calls["facts"] > asked + 1)
        assert all(path.exists() for path in left), "they are of today"
        monkeypatch.setattr(drafts, "KEPT_S", 0.0)
        await bench.until(lambda: not any(path.exists() for path in (*left, outgoing)))
        assert (here / "checkpoints" / "b").is_dir(), "what was being replaced is put back"

    tell(tmp_path, story, apart=True)


# -- code -----------------------------------------------------------------------------------------


def test_members_of_an_array_are_sent_one_copy_of_their_code(tmp_path):
    """They begin at the same time: without a lock each would take the other's draft apart."""

    async def story(bench: FleetStory) -> None:
        private = bench.root / "private"
        private.mkdir()
        (private / "data").write_bytes(bytes(3 << 20))
        jobs = ("a", "b", "c")
        for name in jobs:
            bench.job(name, "stat", "data", workdir=str(private))
        await bench.order(*(Start(order, name, spread("n1")) for order, name in enumerate(jobs)))
        for order, name in enumerate(jobs):
            assert (await bench.ended(name, order)).code == 0
        assert bench.world.links["n1"].calls["copy-write"] == 3

    tell(tmp_path, story, apart=True)
