"""Jobs that go on on other nodes, which have no file system in common with the ones before."""

import logging
from pathlib import Path

from tests.engines.copy_story import WRITES, folder, found, often, ran, runs, stop
from tests.engines.fleet_story import FleetStory, spread, tell

from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.events import AttemptEnded, BoundJob, NodeDrained
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import NodeOrder
from treadle.engines.agent.copies.tree import ChangedError
from treadle.engines.fleet.copies import code_folders
from treadle.engines.fleet.copies.code_folders import code_in
from treadle.testing.engine_bench import row


def test_a_job_finds_its_checkpoints_on_every_node(tmp_path):
    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", WRITES)
        for attempt, node in enumerate(("n0", "n1", "n2", "n0"), 1):
            await runs(bench, 2 * attempt, attempt, node)
            await stop(bench, 2 * attempt + 1)
        assert found(bench, 1) == []
        assert found(bench, 2) == ["1-0"]
        assert found(bench, 4) == ["1-0", "2-0", "3-0"]
        assert bench.engine.checkpoints("a") == str(folder(bench, "n0"))
        assert folder(bench, "n0").joinpath("2-0").read_text() == "attempt 2\n"

    tell(tmp_path, story, apart=True)


def test_what_all_nodes_of_a_job_wrote_is_brought_to_all_nodes_of_the_next_attempt(tmp_path):
    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0", "n1")
        await stop(bench, 1)
        folder(bench, "n0").joinpath("gone").touch()
        await runs(bench, 2, 2, "n1", "n2")
        await stop(bench, 3)
        for rank in (0, 1):
            assert found(bench, 2, rank) == ["1-0", "1-1", "gone"]
        folder(bench, "n1").joinpath("gone").unlink()  # by the first node, which decides
        await runs(bench, 4, 3, "n2")
        assert found(bench, 3) == ["1-0", "1-1", "2-0", "2-1"]

    tell(tmp_path, story, apart=True)


def test_checkpoints_above_the_limit_stay_and_the_job_with_them(tmp_path):
    async def story(bench: FleetStory) -> None:
        await ran(bench, "n0")
        folder(bench, "n0").joinpath("weights").write_bytes(bytes(2 << 20))
        await bench.order(Start(2, "a", spread("n1")))
        refused = await bench.ended("a", 2)
        assert (refused.how, refused.only_on) == (How.MACHINE_ERROR, ("n0",))
        assert refused.error == (
            "its checkpoints hold 2 MiB, and at most 1 MiB are copied; it can go on only on node n0"
        )
        assert refused.only_because == "its checkpoints hold 2 MiB, and at most 1 MiB are copied"
        assert not folder(bench, "n1").exists()
        await runs(bench, 3, 3, "n0")
        assert found(bench, 3) == ["1-0", "weights"]

    tell(tmp_path, story, apart=True, copy_limit_gib=1 / 1024)


def test_what_cannot_be_copied_says_why(tmp_path):
    async def story(bench: FleetStory) -> None:
        await ran(bench, "n0")
        folder(bench, "n0").joinpath("out").symlink_to("/etc")
        await bench.order(Start(2, "a", spread("n1")))
        refused = await bench.ended("a", 2)
        assert refused.only_on == ("n0",)
        assert "cannot be copied: the link 'out' leads out of the folder" in refused.error

    tell(tmp_path, story, apart=True)


def test_a_job_goes_on_from_the_second_copy_when_its_node_is_lost(tmp_path, caplog):
    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n1")
        await bench.until(lambda: folder(bench, "n2").joinpath("1-0").exists())
        bench.world.cut("n1")
        end = await bench.ended("a", 0)
        assert (end.how, end.only_on) == (How.LOST, ())
        await runs(bench, 1, 2, "n0")
        assert found(bench, 2) == ["1-0"]

    with caplog.at_level(logging.WARNING, "treadle"):
        tell(tmp_path, story, apart=True)
    assert (
        "job a goes on from what node n2 has: those of attempt 1 are on node n1, which is lost"
        in caplog.text
    )


def test_a_job_that_is_lost_with_its_only_checkpoints_says_so(tmp_path, caplog):
    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n1")
        bench.world.cut("n1")
        await bench.ended("a", 0)
        await runs(bench, 1, 2, "n0")
        assert found(bench, 2) == []

    with caplog.at_level(logging.WARNING, "treadle"):
        tell(tmp_path, story, apart=True)
    assert (
        "job a begins anew: there are no checkpoints; any that attempt 1 wrote are on"
        in caplog.text
    )


def test_an_attempt_that_wrote_nothing_takes_nothing_away_from_a_node_that_returns(tmp_path):
    """The second attempt begins anew, since the node with the checkpoints is away."""
    script = (
        'ls "$TREADLE_CHECKPOINT_DIR" > found-$TREADLE_ATTEMPT-$RANK; '
        '[ "$TREADLE_ATTEMPT" = 2 ] || echo 1 > "$TREADLE_CHECKPOINT_DIR/$TREADLE_ATTEMPT-$RANK"; '
        "touch wrote-$TREADLE_ATTEMPT-$RANK; exec sleep 86400"
    )

    async def story(bench: FleetStory) -> None:
        bench.job("a", "sh", "-c", script)
        await runs(bench, 0, 1, "n1")
        bench.world.cut("n1")
        await bench.ended("a", 0)
        await runs(bench, 1, 2, "n0")
        assert found(bench, 2) == []
        await stop(bench, 2)
        bench.world.mend("n1")
        await bench.until(lambda: "n1" in bench.engine.clients)
        await runs(bench, 3, 3, "n1")
        assert found(bench, 3) == ["1-0"]

    tell(tmp_path, story, apart=True)


def test_a_job_whose_large_checkpoints_are_lost_with_its_node_waits_for_it(tmp_path):
    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n1")
        folder(bench, "n1").joinpath("weights").write_bytes(bytes(2 << 20))
        await bench.until(lambda: bench.engine.copies.bound("a")[0])
        bench.world.cut("n1")
        end = await bench.ended("a", 0)
        assert (end.how, end.node_lost, end.only_on) == (How.LOST, True, ("n1",))
        assert end.only_because == "its checkpoints hold 2 MiB, and at most 1 MiB are copied"

    tell(tmp_path, story, apart=True, copy_limit_gib=1 / 1024)


def test_a_copy_survives_answers_that_are_lost_and_agents_that_die(tmp_path):
    async def story(bench: FleetStory) -> None:
        await ran(bench, "n0")
        folder(bench, "n0").joinpath("weights").write_bytes(bytes(3 << 20))
        target = bench.world.links["n1"]
        for verb in ("copy-expect", "copy-write", "copy-commit"):
            target.lose_answers_of.add(verb)
        await bench.order(Start(2, "a", spread("n1")))
        await bench.until(lambda: "copy-write" not in target.lose_answers_of)
        await bench.world.replace_agent("n1")
        end_or_start = await bench.until(
            lambda: [f for f in bench.jobs.facts if getattr(f, "action", 0) == 2]
        )
        if isinstance(end_or_start[0], AttemptEnded):  # Its node was away: it is tried again.
            assert end_or_start[0].how in (How.STOPPED, How.MACHINE_ERROR)
            await bench.order(Start(3, "a", spread("n1")))
            await bench.started("a", 3)
        assert folder(bench, "n1").joinpath("weights").stat().st_size == 3 << 20

    tell(tmp_path, story, apart=True)


def test_an_order_that_is_withdrawn_while_its_files_are_copied_is_not_launched(tmp_path):
    async def story(bench: FleetStory) -> None:
        await ran(bench, "n0")
        bench.world.links["n1"].refused.add("copy-commit")
        await bench.order(Start(2, "a", spread("n1")))
        await bench.until(lambda: "a" in bench.engine.copies.doing)
        (view,) = [view for view in bench.engine.view() if view.name == "n1"]
        assert view.stuck["a"].startswith("its checkpoints are being copied from node n0 to")
        await stop(bench, 3)
        bench.world.links["n1"].refused.clear()
        await runs(bench, 4, 3, "n2")
        assert found(bench, 3) == ["1-0"]
        assert bench.runs_on("a") == {"n2"}

    tell(tmp_path, story, apart=True)


def test_a_controller_that_died_while_it_copied_is_followed_by_one_that_copies(tmp_path):
    async def story(bench: FleetStory) -> None:
        await ran(bench, "n0")
        bench.world.links["n1"].refused.add("copy-commit")
        await bench.order(Start(2, "a", spread("n1")))
        await bench.until(lambda: "a" in bench.engine.copies.doing)
        engine = await bench.crash()
        bench.world.links["n1"].refused.clear()
        starting = row("a", Phase.STARTING, spread("n1"), action=2, attempt=2)
        await engine.adopt([starting], [AttemptId("a", 2)])
        await bench.started("a", 2)
        await bench.until((bench.root / "wrote-2-0").exists)
        assert found(bench, 2) == ["1-0"]

    tell(tmp_path, story, apart=True)


def test_a_job_is_given_a_copy_of_the_folder_it_was_submitted_from(tmp_path):
    """1. Its node has no such folder. 2. What it writes there stays for its next attempt."""

    async def story(bench: FleetStory) -> None:
        private = bench.root / "private"
        (private / "package").mkdir(parents=True)
        (private / "package" / "data").write_text("42")
        (private / "data").symlink_to("package/data")
        (private / "out").symlink_to("/etc/passwd")
        (private / "__pycache__").mkdir()
        script = f"ls > {bench.root}/$TREADLE_ATTEMPT; cat data >> {bench.root}/$TREADLE_ATTEMPT; "
        bench.job("a", "sh", "-c", f"{script} touch written; pwd", workdir=str(private))
        for order in (0, 1):
            await bench.order(Start(order, "a", spread("n1")))
            assert (await bench.ended("a", order)).code == 0
            own = str(next((bench.root / "nodes" / "n1" / "work").glob("[!.]*")))
            assert (await bench.started("a", order)).workdirs == (("n1", own),)
        assert (bench.root / "1").read_text() == "data\npackage\n42"
        assert (bench.root / "2").read_text() == "data\npackage\nwritten\n42"
        assert not (private / "written").exists()
        await bench.engine.discard("a")
        assert list((bench.root / "nodes" / "n1" / "work").iterdir()) == []

    tell(tmp_path, story, apart=True)


def test_a_folder_above_the_limit_is_not_copied(tmp_path):
    async def story(bench: FleetStory) -> None:
        private = bench.root / "private"
        private.mkdir()
        (private / "large").write_bytes(bytes(2 << 20))
        bench.job("a", "true", workdir=str(private))
        await bench.order(Start(0, "a", spread("n1")))
        refused = await bench.ended("a", 0)
        assert (refused.how, refused.only_on) == (How.MACHINE_ERROR, ())
        assert refused.error == (
            f"its folder {private} is not on node n1; it holds 2 MiB, and at most 1 MiB are copied"
        )

    tell(tmp_path, story, apart=True, copy_limit_gib=1 / 1024)


def test_paths_in_the_folder_lead_to_the_copy_that_a_job_is_given(tmp_path):
    """1. By a script's absolute path, as `treadle submit hello.sh` has it. 2. As an argument and
    in a variable.
    """

    async def story(bench: FleetStory) -> None:
        private = bench.root / "private"
        private.mkdir()
        hello = private / "hello.sh"
        hello.write_text(f'#!/bin/sh\ncat "$1" "$DATA" > {bench.root}/said\n')
        hello.chmod(0o755)
        (private / "a").write_text("argument ")
        (private / "b").write_text("variable")
        env = {"DATA": f"{private}/b"}
        bench.job("a", str(hello), f"{private}/a", workdir=str(private), env=env)
        await bench.order(Start(0, "a", spread("n1")))
        ended = await bench.ended("a", 0)
        assert (ended.how, ended.code, ended.error) == (How.EXITED, 0, "")
        assert (bench.root / "said").read_text() == "argument variable"

    tell(tmp_path, story, apart=True)


def test_a_script_outside_of_the_folder_that_a_node_lacks_is_refused(tmp_path):
    """It is on the machine of the controller alone; one that is nowhere fails at its launch."""

    async def story(bench: FleetStory) -> None:
        outside, inside = bench.root / "private-tools", bench.root / "private"
        for path in (outside, inside, inside / ".venv"):
            path.mkdir()
        train, python = outside / "train.py", inside / ".venv" / "python"
        for file in (train, python):
            file.touch()
        bench.job("a", "python", str(train), workdir=str(inside))
        await bench.order(Start(0, "a", spread("n1")))
        refused = await bench.ended("a", 0)
        assert (refused.how, refused.only_on) == (How.MACHINE_ERROR, ())
        assert refused.error == (
            f"it runs {train}, which is not on node n1, and only its folder {inside} is copied; "
            "it is on the daemon's machine alone"
        )
        bench.job("b", ".venv/python", workdir=str(inside))
        await bench.order(Start(1, "b", spread("n1")))
        assert (await bench.ended("b", 1)).error == (
            f"it runs {python}, which is not on node n1, though its folder is there: copies leave "
            "out what git ignores, and environments; it is on the daemon's machine alone"
        )
        bench.job("c", "./nowhere.sh", workdir=str(inside))
        await bench.order(Start(2, "c", spread("n1")))
        assert (await bench.ended("c", 2)).how is How.NOT_LAUNCHED

    tell(tmp_path, story, apart=True)


def test_a_script_that_one_node_has_binds_the_job_to_it(tmp_path):
    async def story(bench: FleetStory) -> None:
        tool = bench.root / "nodes" / "n0" / "tool.sh"  # of n0 alone, by what the others say
        tool.write_text("exit 0")
        bench.world.links["n1"].agent.has_file = lambda path: path != str(tool)  # type: ignore[method-assign]
        bench.job("a", "sh", str(tool))
        await bench.order(Start(0, "a", spread("n1")))
        refused = await bench.ended("a", 0)
        assert refused.only_on == ("n0", "n2")
        assert refused.error.endswith("; it can go on only on nodes n0, n2")

    tell(tmp_path, story, apart=True)


def test_copies_are_removed_when_the_job_has_ended_and_what_it_wrote_stays(tmp_path):
    async def story(bench: FleetStory) -> None:
        often(bench)
        bench.job("a", "sh", "-c", WRITES)
        await runs(bench, 0, 1, "n0")
        await bench.until(lambda: folder(bench, "n1").joinpath("1-0").exists())
        await stop(bench, 1)
        await bench.engine.tidy("a")
        assert not folder(bench, "n1").exists()
        assert folder(bench, "n0").joinpath("1-0").exists()

    tell(tmp_path, story, apart=True)


def test_a_folder_that_changes_while_it_is_copied_is_tried_again_after_a_while(
    tmp_path, monkeypatch
):
    tries: list[Path] = []

    def changing(folder: Path, uid: int | None, most: float) -> code_folders.Code:
        tries.append(folder)
        if len(tries) < 3:
            raise ChangedError("log.txt has changed")
        return code_in(folder, uid, most)

    monkeypatch.setattr(code_folders, "AGAIN_AFTER_S", (0.01, 0.01, 0.01))
    monkeypatch.setattr(code_folders, "code_in", changing)

    async def story(bench: FleetStory) -> None:
        inside = bench.root / "private"
        inside.mkdir()
        (inside / "go.sh").write_text("exec sleep 86400")
        bench.job("a", "sh", "go.sh", workdir=str(inside))
        await bench.order(Start(0, "a", spread("n1")))
        await bench.started("a", 0)
        assert len(tries) == 3
        assert bench.count(AttemptEnded, "a") == 0

    tell(tmp_path, story, apart=True)


def test_a_drain_names_the_jobs_whose_checkpoints_are_too_large_to_leave(tmp_path):
    async def story(bench: FleetStory) -> None:
        large = 'head -c 2097152 /dev/zero > "$TREADLE_CHECKPOINT_DIR/large"; '
        for name, command, number in (("a", large + WRITES, 0), ("b", WRITES, 1)):
            bench.job(name, "sh", "-c", command)
            place = Allocation((Device("n1", number),))
            await bench.order(Start(number, name, place))
            await bench.started(name, number)
        folders = [bench.root / "nodes" / "n1" / "checkpoints" / name for name in "ab"]
        await bench.until(lambda: all((each / "1-0").exists() for each in folders))
        await bench.engine.order_node("n1", NodeOrder.DRAIN)
        (drained,) = [fact for fact in bench.jobs.facts if isinstance(fact, NodeDrained)]
        why = "its checkpoints hold 2 MiB, and at most 1 MiB are copied"
        assert drained.bound == (BoundJob("a", ("n1",), why),)

    tell(tmp_path, story, apart=True, copy_limit_gib=1 / 1024)


def test_a_folder_that_only_one_node_has_is_not_said_to_be_elsewhere(tmp_path, monkeypatch):
    """Neither the daemon's machine nor the node of the order has it."""
    there = tmp_path / "mine"

    async def story(bench: FleetStory) -> None:
        def only_on(node: str) -> None:
            agent = bench.world.links[node].agent
            monkeypatch.setattr(agent, "has_folder", lambda path: node == "n2" and bool(path))
            monkeypatch.setattr(agent, "has_file", lambda path: node == "n2" and bool(path))

        for node in ("n0", "n1", "n2"):
            only_on(node)
        bench.job("a", "sh", "go.sh", workdir=str(there))
        await bench.order(Start(0, "a", spread("n1")))
        end = await bench.ended("a", 0)
        assert (end.how, end.only_on) == (How.MACHINE_ERROR, ("n2",))
        assert end.error == (
            f"its folder {there} is neither on node n1 nor on the machine of the daemon, so "
            "that it cannot be copied; it can go on only on node n2"
        )

    tell(tmp_path, story, apart=True)
