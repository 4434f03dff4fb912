"""Jobs on nodes that do not see their folder run in its archive, which is unpacked there once."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from tests.engines.fleet_story import FleetStory, spread, tell, telling

from treadle.code_archive import packed
from treadle.core.actions import Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.job import FOLDER
from treadle.core.machine import JobFiles
from treadle.engines.agent.archives import Archives
from treadle.engines.agent.messages import Archive
from treadle.engines.fleet import archives, node_client, silent_nodes


def private(bench: FleetStory) -> Path:
    """A folder that only the controller's machine sees."""
    folder = bench.root / "private"
    folder.mkdir(exist_ok=True)
    (folder / "run.sh").write_text(
        f'(pwd; echo "$@") > {bench.root}/$TREADLE_JOB_ID; cat data; touch wrote'
    )
    (folder / "data").write_text("42")
    return folder


async def packed_job(bench: FleetStory, name: str, *command: str) -> JobFiles:
    """A job that was submitted there."""
    folder = str(private(bench))
    await bench.engine.adopt([])
    files = await bench.engine.pack(folder, None, None)
    bench.job(name, *command, workdir=folder, archive=files.archive)
    return files


@telling(apart=True)
async def test_jobs_run_in_one_unpacked_archive_and_their_commands_are_as_they_were(
    bench: FleetStory,
) -> None:
    word = f"--out={private(bench)}/x"
    await packed_job(bench, "a", "sh", "run.sh", word)
    files = await packed_job(bench, "b", "sh", "run.sh", word)
    assert files == JobFiles(files.archive, apart=True)
    own = bench.root / "nodes" / "n1" / "code" / str(os.geteuid()) / files.archive
    for action, name in enumerate("ab"):
        await bench.order(Start(action, name, spread("n1")))
        assert (await bench.ended(name, action)).code == 0
        assert (await bench.started(name, action)).workdirs == (("n1", str(own)),)
        assert (bench.root / name).read_text() == f"{own}\n{word}\n"
    assert sorted(path.name for path in own.iterdir()) == ["data", "run.sh", "wrote"]
    assert bench.world.links["n1"].calls["archive"] == 2 + 2 + 1, "it was sent once"
    await bench.engine.discard("a")
    assert (own / "wrote").exists(), "what a user wrote stays"


@telling(apart=True)
async def test_a_folder_that_all_nodes_see_is_not_packed(bench: FleetStory) -> None:
    await bench.engine.adopt([])
    files = await bench.engine.pack(str(bench.root), None, None)
    assert files == JobFiles(apart=True)
    assert not (bench.root / "engine" / "archives").exists()


def test_a_folder_that_is_too_large_is_refused_unless_a_node_sees_it(tmp_path, monkeypatch):
    def small(folder: str, into: Path, *, user: object) -> str:
        return packed(folder, into, bytes_max=5)

    monkeypatch.setattr(archives, "packed", small)

    async def story(bench: FleetStory) -> None:
        await bench.engine.adopt([])
        with pytest.raises(InvalidInputError, match="at most 5 bytes"):
            await bench.engine.pack(str(private(bench)), None, None)
        agent = bench.world.links["n2"].agent
        monkeypatch.setattr(agent, "has_folder", bool)
        agent._archives = Archives(agent.root, agent.has_folder)
        files = await bench.engine.pack(str(private(bench)), None, None)
        assert (files.archive, "n2 alone" in files.note) == ("", True)
        bench.job("a", "sh", "run.sh", workdir=str(private(bench)))
        await bench.order(Start(0, "a", spread("n1")))
        refused = await bench.ended("a", 0)
        assert (refused.how, refused.only_on) == (How.MACHINE_ERROR, ("n2",))
        assert refused.only_because == FOLDER
        await bench.order(Start(1, "a", spread("n2")))
        assert (await bench.ended("a", 1)).how is How.EXITED

    tell(tmp_path, story, apart=True)


@telling(apart=True)
async def test_an_archive_survives_answers_that_are_lost_and_agents_that_die(
    bench: FleetStory, monkeypatch
) -> None:
    """It goes on from the piece that came last."""
    monkeypatch.setattr(archives, "PIECE_BYTES", 1000)
    (private(bench) / "large").write_bytes(bytes(1 << 17))
    await packed_job(bench, "a", "sh", "run.sh")
    target = bench.world.links["n1"]
    before = target.calls["archive"]
    target.lose_answers_of.add("archive")
    await bench.order(Start(0, "a", spread("n1")))
    await bench.until(lambda: target.calls["archive"] > before + 5)
    (view,) = [view for view in bench.engine.view() if view.name == "n1"]
    assert view.stuck["a"].startswith("its code is sent to node n1: ")
    await bench.world.replace_agent("n1")
    if (await bench.ended("a", 0)).how is How.STOPPED:  # Its node was away: it is tried again.
        await bench.order(Start(1, "a", spread("n1")))
        assert (await bench.ended("a", 1)).code == 0
    calls = target.calls["archive"] + bench.world.links["n1"].calls["archive"]
    assert calls < before + 160


@telling(apart=True)
async def test_an_order_that_is_withdrawn_meanwhile_is_not_launched(bench: FleetStory) -> None:
    await packed_job(bench, "a", "sh", "run.sh")
    bench.world.links["n1"].refused.add("archive")
    await bench.order(Start(0, "a", spread("n1")))
    await bench.order(Stop(1, "a"))
    bench.world.links["n1"].refused.clear()
    await bench.order(Start(2, "a", spread("n2")))
    assert (await bench.ended("a", 2)).code == 0
    assert bench.runs_on("a") == set()


@telling(apart=True)
async def test_a_job_does_not_wait_for_an_agent_that_hangs(bench: FleetStory, monkeypatch) -> None:
    """1. The agent of a node is another one, and hangs. 2. A job is ordered there at once."""
    monkeypatch.setattr(node_client, "FACTS_WAIT_S", 0.05)
    monkeypatch.setattr(node_client, "SILENT_AFTER_S", 1.0)
    monkeypatch.setattr(silent_nodes, "LOOK_EVERY_S", 0.05)
    bench.job("a", "sleep", "600")
    await bench.engine.adopt([])
    bench.world.links["n1"].awake.clear()
    bench.world.tell(bench.world.joined("n1"))
    await bench.order(Start(2, "a", spread("n1")))
    await bench.until(lambda: Device("n1", 0) in bench.engine._closed)
    ended = await bench.ended("a", 2)
    assert (ended.attempt, ended.how, ended.only_on) == (0, How.STOPPED, ())


@telling(apart=True)
async def test_archives_that_no_job_needs_are_removed(bench: FleetStory) -> None:
    files = await packed_job(bench, "a", "true")
    folder = bench.root / "engine" / "archives"
    await bench.engine.keep_archives(())
    assert (folder / files.archive).exists(), "perhaps of a job that is being submitted"
    os.utime(folder / files.archive, (0, 0))
    await bench.engine.keep_archives({files.archive})
    assert (folder / files.archive).exists()
    await bench.engine.keep_archives(())
    assert not (folder / files.archive).exists()


def taken(node: Archives, content: bytes, digest: str = "", uid: int | None = None) -> Path:
    """The folder that it is unpacked to."""
    digest = digest or hashlib.sha256(content).hexdigest()
    asked = Archive(
        session="", path="/none", digest=digest, size=len(content), data=content, uid=uid
    )
    return Path(asyncio.run(node.take(asked)).folder)


def archive(folder: Path) -> bytes:
    folder.mkdir()
    (folder / "a.py").write_text("a")
    return (folder.parent / packed(str(folder), folder.parent)).read_bytes()


def test_what_nobody_has_used_or_written_to_for_long_is_removed(tmp_path):
    """Caches of Python do not count; a job that runs does."""
    node, content = Archives(tmp_path / "node", lambda _: False), archive(tmp_path / "code")
    clean, written, used, new = (taken(node, content, uid=uid) for uid in (1, 2, 3, 4))
    (clean / "__pycache__").mkdir()
    (clean / "__pycache__" / "a.pyc").touch()
    (written / "result").touch()
    for folder in (clean, written, used):
        os.utime(folder.with_name(f".{folder.name}.used"), (0, 0))
    asyncio.run(node.sweep({str(used)}))
    assert [each.exists() for each in (clean, written, used, new)] == [False, True, True, True]


def test_a_damaged_archive_is_not_unpacked_and_can_be_sent_again(tmp_path):
    node, content = Archives(tmp_path / "node", lambda _: False), archive(tmp_path / "code")
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(EngineError, match="damaged"):
        taken(node, content[:-1] + b"x", digest)
    assert (taken(node, content, digest) / "a.py").read_text() == "a"
    with pytest.raises(InvalidInputError, match="names no archive"):
        taken(node, content, "../../etc")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other users")
def test_users_share_no_folder_and_cannot_list_those_of_others(tmp_path):
    node, content = Archives(tmp_path / "node", lambda _: False), archive(tmp_path / "code")
    one, other = taken(node, content, uid=1001), taken(node, content, uid=1002)
    for folder, uid in ((one, 1001), (other, 1002)):
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (uid, 0o700)
        assert (folder / "a.py").stat().st_uid == uid
        assert [above.stat().st_mode & 0o777 for above in list(folder.parents)[:2]] == [0o711] * 2
