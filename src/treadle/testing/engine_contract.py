"""The contract of an engine: subclass EngineContract, say how to make a bench, and run pytest.

It holds an engine to every rule of docs/add-an-engine.md; tests are named by the number of the
rule. A rule that an engine cannot be put to is skipped with the reason that its bench gives in
`cannot`. Rules 1 to 7 are in engine_order_rules.py, rules 10 to 13 in engine_machine_rules.py, rule
14 in engine_pause_rules.py.
"""

import pytest

from treadle.core.actions import Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, JobFinished, JobStopped
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.testing.engine_bench import BOTH, DONE, HERE, PER_S, EngineBench, on, row, told
from treadle.testing.engine_machine_rules import MachineRules
from treadle.testing.engine_order_rules import OrderRules
from treadle.testing.engine_pause_rules import PauseRules


class EngineContract(OrderRules, MachineRules, PauseRules):
    """What every engine promises. Subclasses set `__test__` and override `bench`."""

    # -- rule 8: adoption -----------------------------------------------------------------------

    @told()
    async def test_8_what_runs_is_found_again(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.crash()
        await bench.engine.adopt([row("long", Phase.RUNNING, HERE)], [AttemptId("long", 1)])
        assert bench.held() == {"long"}
        await bench.order(Stop(1, "long"))
        assert isinstance(bench.meaning(await bench.end("long", 1)), JobStopped)
        assert len(bench.facts) == 1  # the start was known before

    @told("launches")
    async def test_8_a_start_that_the_controller_has_not_seen_is_reported_again(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("long")
        await bench.crash()
        await bench.engine.adopt([row("long", Phase.STARTING, HERE)], [AttemptId("long", 1)])
        started = await bench.started("long", 0)
        assert (started.iterations_done, started.iterations_per_s) == (DONE, PER_S)
        assert started.attempt == 1
        assert bench.controls.attempts == {("long", 0): 1}

    @told("exit codes")
    async def test_8_an_end_that_happened_meanwhile_is_reported(self, bench: EngineBench) -> None:
        await bench.runs("held")
        await bench.engine.close()
        await bench.release("held", 3)
        await bench.crash()
        await bench.engine.adopt([row("held", Phase.RUNNING, HERE)], [AttemptId("held", 1)])
        end = await bench.end("held", 0)
        assert isinstance(end, AttemptEnded)
        assert (end.attempt, end.how, end.code) == (1, How.EXITED, 3)

    @told()
    async def test_8_an_end_that_the_controller_has_not_seen_is_reported_again(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        await bench.crash()
        await bench.engine.adopt([row("short", Phase.RUNNING, HERE)], [AttemptId("short", 1)])
        assert bench.meaning(await bench.end("short", 0)) == JobFinished("short", 0)

    @told()
    async def test_8_a_start_that_is_owed_is_carried_out(self, bench: EngineBench) -> None:
        waits = row("long", Phase.STARTING, HERE, action=3, attempt=3)
        await bench.engine.adopt([waits], [AttemptId("long", 1)])
        await bench.started("long", 3)
        assert bench.meanings("long") == []

    @told()
    async def test_8_a_change_that_is_owed_is_carried_out(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.crash()
        attempts = [AttemptId("long", 1), AttemptId("long", 2)]
        await bench.engine.adopt([row("long", Phase.STARTING, BOTH, action=1)], attempts)
        await bench.started("long", 1)
        assert [(end.attempt, end.how) for end in bench.ends("long")] == [(1, How.REPLACED)]

    @pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.CANCELLING])
    @told()
    async def test_8_a_stop_that_is_owed_is_carried_out(
        self, bench: EngineBench, phase: Phase
    ) -> None:
        await bench.runs("long")
        await bench.crash()
        await bench.engine.adopt([row("long", phase, action=1)], [AttemptId("long", 1)])
        assert isinstance(bench.meaning(await bench.end("long", 1)), JobStopped)

    @told()
    async def test_8_attempts_that_no_job_knows_are_stopped(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.crash()
        starts = row("short", Phase.STARTING, HERE, action=1, attempt=1)
        await bench.engine.adopt([starts])
        await bench.end("short", 1)  # It needs the device of `long`.
        assert "long" not in bench.held()
        assert bench.ends("long") == []

    @told()
    async def test_8_the_end_of_an_earlier_attempt_is_reported_as_replaced(
        self, bench: EngineBench
    ) -> None:
        """1. An attempt is replaced. 2. The controller crashes before it has seen that."""
        await bench.runs("long")
        await bench.order(Change(1, "long", BOTH))
        await bench.started("long", 1)
        await bench.crash()
        attempts = [AttemptId("long", 1), AttemptId("long", 2)]
        await bench.engine.adopt([row("long", Phase.RUNNING, BOTH, action=1)], attempts)
        (ended,) = bench.ends("long")
        assert (ended.attempt, ended.how) == (1, How.REPLACED)
        assert bench.held() == {"long"}

    # -- rule 8: nonces -------------------------------------------------------------------------

    @told("launches")
    async def test_8_what_runs_with_another_nonce_is_stopped_and_not_taken_over(
        self, bench: EngineBench
    ) -> None:
        """1. Attempt 1 runs. 2. A restored store orders an attempt 1 of its own."""
        bench.controls.nonce = "first"
        await bench.runs("long")
        await bench.restore("second")
        waits = row("long", Phase.STARTING, HERE)
        await bench.engine.adopt([waits], [AttemptId("long", 1, "second")])
        await bench.started("long", 0)
        assert bench.controls.attempts == {("long", 0): 1}, "it was not launched again"
        assert bench.ends("long") == []
        running = {found.attempt for found in bench.engine.measurements()}
        assert running <= {AttemptId("long", 1, "second")}, "the first still runs"

    @told("launches")
    async def test_8_an_end_with_another_nonce_is_not_believed(self, bench: EngineBench) -> None:
        """1. Attempt 1 ends. 2. A restored store orders an attempt 1 of its own, which must run."""
        bench.controls.nonce = "first"
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        await bench.restore("second")
        waits = row("short", Phase.STARTING, HERE)
        await bench.engine.adopt([waits], [AttemptId("short", 1, "second")])
        await bench.end("short", 0)
        assert bench.controls.attempts == {("short", 0): 1}, "it was not launched again"
        assert [end.attempt for end in bench.ends("short")] == [1]

    @told("output")
    async def test_9_output_of_another_nonce_is_not_given(self, bench: EngineBench) -> None:
        bench.controls.nonce = "first"
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        await bench.engine.output(AttemptId("short", 1, "first"), 0)
        for nonce in ("second", ""):
            with pytest.raises(InvalidInputError):
                await bench.engine.output(AttemptId("short", 1, nonce), 0)

    # -- rule 9: output -------------------------------------------------------------------------

    @told("output")
    async def test_9_output_is_read_by_rank_and_offset(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "talker", BOTH))
        attempt = AttemptId("talker", 1)
        for rank in (0, 1):
            wanted = b"rank %d one\n" % rank
            assert await bench.text(attempt, rank, wanted) == wanted
        await bench.release("talker")
        await bench.end("talker", 0)
        output = bench.engine.output
        assert (await output(attempt, 0)).data == b"rank 0 one\ntwo\n"
        assert (await output(attempt, 1, offset=7, limit=3)).data == b"one"
        last = await output(attempt, 1, offset=-4)
        assert (last.offset, last.data, last.size, last.lost) == (11, b"two\n", 15, 0)
        beyond = await output(attempt, 1, offset=99)
        assert (beyond.offset, beyond.data) == (15, b"")

    @told()
    async def test_9_output_that_does_not_exist_is_refused(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "short", HERE))
        await bench.end("short", 0)
        for attempt, rank in ((("short", 1), 5), (("short", 9), 0), (("unknown", 1), 0)):
            with pytest.raises(InvalidInputError):
                await bench.engine.output(AttemptId(*attempt), rank)

    @told("output")
    async def test_9_an_offset_into_what_was_dropped_continues_behind_it(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "flood", HERE))
        await bench.end("flood", 0)
        found = await bench.engine.output(AttemptId("flood", 1), 0, offset=4096)
        assert found.size == 8192
        assert found.lost > 0
        assert found.offset == 4096 + found.lost
        assert found.data

    @told("output")
    async def test_9_follow_gives_output_as_it_is_written_and_ends_with_the_attempt(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("talker", BOTH)
        found = b""
        async for piece in bench.engine.follow(AttemptId("talker", 1), 1, offset=7):
            found += piece.data
            if found == b"one\n":
                await bench.release("talker")
        assert found == b"one\ntwo\n"

    # -- the rest of the port -------------------------------------------------------------------

    @told()
    async def test_nodes_and_views_agree(self, bench: EngineBench) -> None:
        nodes, views = bench.engine.nodes(), bench.engine.view()
        assert [node.name for node in nodes] == [view.name for view in views]
        assert [node.device_count for node in nodes] == [len(view.devices) for view in views]
        assert views[0].devices[2].name == "n0:2"

    @told("measurements")
    async def test_measurements_are_of_attempts_that_run(self, bench: EngineBench) -> None:
        assert list(bench.engine.measurements()) == []
        await bench.runs("long")
        (found,) = bench.engine.measurements()
        assert found.attempt == AttemptId("long", 1)
        await bench.order(Stop(1, "long"))
        await bench.end("long", 1)
        assert list(bench.engine.measurements()) == []

    @told("measurements")
    async def test_measurements_have_their_moment_and_say_who_is_alone(
        self, bench: EngineBench
    ) -> None:
        """1. Two jobs share a device. 2. One of them stops: the other is alone."""
        await bench.order(Start(0, "long", HERE), Start(1, "held", on("n0", 0, turn=1)))
        await bench.started("long", 0)
        await bench.started("held", 1)
        found = {each.job: each for each in bench.engine.measurements()}
        assert {name: each.alone for name, each in found.items()} == {"long": False, "held": False}
        assert all(each.at >= 0.0 for each in found.values())
        for each in found.values():
            shares = (each.busy, each.load.busy, each.load.memory_busy, each.load.active)
            assert all(share is None or 0.0 <= share <= 1.0 for share in shares)
        await bench.order(Stop(2, "held"))
        await bench.end("held", 2)
        (left,) = bench.engine.measurements()
        assert left.job == "long"
        assert left.alone
