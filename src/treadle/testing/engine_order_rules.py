"""Rules 1 to 7 of docs/add-an-engine.md: orders and their answers. Part of EngineContract."""

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Cluster, Node
from treadle.core.events import (
    AttemptEnded,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStopped,
    JobSubmitted,
)
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.testing.builders import job, policy
from treadle.testing.engine_bench import (
    BOTH,
    DONE,
    HERE,
    PER_S,
    THERE,
    BenchTests,
    EngineBench,
    on,
    told,
)


class OrderRules(BenchTests):
    """How orders are carried out and answered."""

    # -- rule 1: answers ------------------------------------------------------------------------

    @told()
    async def test_1_a_start_is_answered_by_its_id(self, bench: EngineBench) -> None:
        await bench.order(Start(7, "long", HERE))
        started = await bench.started("long", 7)
        assert started.iterations_per_s > 0

    @told()
    async def test_1_a_start_says_which_attempt_runs(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "long", HERE))
        assert (await bench.started("long", 0)).attempt == 1
        await bench.order(Stop(1, "long"))
        await bench.end("long", 1)
        await bench.order(Start(2, "long", HERE))
        assert (await bench.started("long", 2)).attempt == 2

    @told("launches")
    async def test_1_a_start_repeats_what_the_controller_believes(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "long", HERE))
        started = await bench.started("long", 0)
        assert (started.iterations_done, started.iterations_per_s) == (DONE, PER_S)

    @told()
    async def test_1_a_job_that_is_left_alone_finishes(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "short", HERE))
        end = await bench.end("short", 0)
        assert bench.meaning(end) == JobFinished("short", 0)
        assert bench.index(await bench.started("short", 0)) < bench.index(end)

    @told("exit codes")
    async def test_1_a_job_that_fails_says_its_exit_code(self, bench: EngineBench) -> None:
        await bench.runs("held")
        await bench.release("held", 3)
        end = await bench.end("held", 0)
        assert isinstance(end, AttemptEnded)
        assert (end.attempt, end.how, end.code, end.codes) == (1, How.EXITED, 3, (3,))
        assert isinstance(end.meaning, JobFailed)

    @told()
    async def test_1_a_stop_is_answered_by_an_end_that_says_stopped(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("long")
        await bench.order(Stop(1, "long"))
        end = await bench.end("long", 1)
        assert isinstance(bench.meaning(end), JobStopped)
        assert [(end.attempt, end.how) for end in bench.ends("long")] == [(1, How.STOPPED)]

    @told()
    async def test_1_a_stop_of_a_job_of_which_nothing_runs_is_answered(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Stop(4, "long"))
        assert await bench.end("long", 4) == AttemptEnded("long", 4, 0, How.STOPPED)

    @told("progress")
    async def test_1_a_stopped_job_resumes_where_it_was(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.order(Stop(1, "long"))
        stopped = bench.meaning(await bench.end("long", 1))
        await bench.order(Start(2, "long", THERE))
        resumed = await bench.started("long", 2)
        assert isinstance(stopped, JobStopped)
        assert resumed.iterations_done == stopped.iterations_done

    # -- rule 2: after --------------------------------------------------------------------------

    @told()
    async def test_2_a_start_waits_for_a_stop(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.order(Stop(1, "long"), Start(2, "short", HERE, ("long",)))
        started = await bench.started("short", 2)
        assert bench.index(await bench.end("long", 1)) < bench.index(started)

    @told("slow stops")
    async def test_2_a_start_waits_for_a_stop_that_takes_long(self, bench: EngineBench) -> None:
        await bench.runs("slow")
        await bench.order(Stop(1, "slow"), Start(2, "short", HERE, ("slow",)))
        await bench.order(Start(3, "long", THERE))
        await bench.started("long", 3)  # The engine had time to start `short` as well.
        assert bench.starts("short") == []
        await bench.release("slow")
        started = await bench.started("short", 2)
        assert bench.index(await bench.end("slow", 1)) < bench.index(started)

    @told()
    async def test_2_jobs_of_different_turns_share_a_device(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "long", HERE), Start(1, "held", on("n0", 0, turn=1)))
        await bench.started("long", 0)
        await bench.started("held", 1)
        (node,) = [node for node in bench.engine.view() if node.name == "n0"]
        assert set(node.devices[0].jobs) == {"long", "held"}
        assert [node.devices[0].state, node.devices[1].state] == ["held", "free"]

    @told()
    async def test_2_jobs_that_swap_devices_in_a_circle_do_not_meet(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "long", HERE), Start(1, "held", THERE))
        await bench.started("long", 0)
        await bench.started("held", 1)
        await bench.order(
            Stop(2, "long"),
            Change(3, "held", HERE, ("long",)),
            Start(4, "long", THERE, ("long", "held")),
        )
        stopped = await bench.end("long", 2)
        assert bench.index(stopped) < bench.index(await bench.started("held", 3))
        await bench.started("long", 4)

    # -- rule 3: supersession -------------------------------------------------------------------

    @told()
    async def test_3_the_newest_of_several_changes_is_answered(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "long", HERE))
        await bench.order(Change(1, "long", THERE))
        await bench.order(Change(2, "long", BOTH))
        await bench.started("long", 2)
        (node,) = [node for node in bench.engine.view() if node.name == "n0"]
        assert [device.jobs for device in node.devices[:2]] == [("long",), ("long",)]

    @told()
    async def test_3_a_stop_supersedes_a_change(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.order(Change(1, "long", THERE), Stop(2, "long"))
        end = await bench.end("long", 2)
        assert bench.facts[-1] is end
        assert bench.held() == set()

    @told()
    async def test_3_a_stop_supersedes_a_start_that_has_not_run(self, bench: EngineBench) -> None:
        await bench.order(Start(0, "long", HERE), Stop(1, "long"))
        assert isinstance(bench.meaning(await bench.end("long", 1)), JobStopped)
        await bench.order(Start(2, "short", HERE))
        await bench.end("short", 2)

    @told("slow stops")
    async def test_3_a_stop_of_a_start_that_waits_is_answered_at_once(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("slow")
        await bench.order(Stop(1, "slow"), Start(2, "long", HERE, ("slow",)))
        await bench.order(Stop(3, "long"))
        assert await bench.end("long", 3) == AttemptEnded("long", 3, 0, How.STOPPED)
        assert bench.meanings("slow") == []
        await bench.release("slow")
        await bench.end("slow", 1)

    @told()
    async def test_3_a_start_behind_a_stop_of_the_same_job_runs_it_again(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("long")
        await bench.order(Stop(1, "long"), Start(2, "long", THERE, ("long",)))
        stopped = await bench.end("long", 1)
        assert bench.index(stopped) < bench.index(await bench.started("long", 2))

    # -- rule 4: changes ------------------------------------------------------------------------

    @told()
    async def test_4_a_change_is_answered_by_its_id(self, bench: EngineBench) -> None:
        await bench.runs("long")
        await bench.order(Change(1, "long", BOTH))
        await bench.started("long", 1)

    @told()
    async def test_4_a_change_that_was_not_announced_replaces_the_attempt(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "long", HERE))
        assert (await bench.started("long", 0)).changes == ()
        await bench.order(Change(1, "long", BOTH))
        started = await bench.started("long", 1)
        assert started.attempt == 2
        (ended,) = bench.ends("long")
        assert (ended.attempt, ended.how, ended.meaning) == (1, How.REPLACED, None)
        assert bench.index(ended) < bench.index(started)
        await bench.order(Stop(2, "long"))
        await bench.end("long", 2)
        assert [end.attempt for end in bench.ends("long")] == [1, 2]

    @told("changes while it runs")
    async def test_4_a_change_that_was_announced_keeps_the_attempt(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "flexible", HERE))
        assert "size" in (await bench.announced("flexible", 0)).changes
        await bench.order(Change(1, "flexible", BOTH))
        assert (await bench.started("flexible", 1)).attempt == 1
        assert bench.ends("flexible") == []
        await bench.order(Stop(2, "flexible"))
        await bench.end("flexible", 2)
        assert [end.attempt for end in bench.ends("flexible")] == [1]

    @told("changes while it runs", "newcomers", "output")
    async def test_4_a_job_whose_new_ranks_fail_goes_on_with_what_it_has(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "alone", HERE))
        await bench.announced("alone", 0)
        await bench.text(AttemptId("alone", 1), 0, b"rank 0 of 1")  # It trains.
        await bench.order(Change(1, "alone", BOTH))
        answer = await bench.started("alone", 1)
        assert (answer.attempt, bool(answer.refused)) == (1, True)
        await bench.order(Start(2, "long", THERE))  # What it was not given is free.
        await bench.started("long", 2)
        assert bench.ends("alone") == []
        await bench.order(Stop(3, "alone"))
        await bench.end("alone", 3)
        assert [end.attempt for end in bench.ends("alone")] == [1]

    @told("changes while it runs")
    async def test_4_what_was_not_announced_is_not_changed_while_it_runs(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "flexible", HERE))
        await bench.announced("flexible", 0)
        await bench.order(Change(1, "flexible", THERE))  # other devices, the same size
        await bench.started("flexible", 1)
        assert [end.how for end in bench.ends("flexible")] == [How.REPLACED]

    # -- rule 5: ends win -----------------------------------------------------------------------

    @told()
    async def test_5_a_change_of_a_job_that_has_ended_launches_nothing(
        self, bench: EngineBench
    ) -> None:
        await bench.runs("held")
        await bench.release("held")
        end = await bench.end("held", 0)
        await bench.order(Change(1, "held", BOTH))
        answer = await bench.end("held", 1)
        assert bench.meaning(end) == JobFinished("held", 0)
        assert answer == AttemptEnded("held", 1, 0, How.STOPPED)
        assert 1 not in bench.starts("held")
        assert bench.held() == set()

    @told()
    async def test_5_a_swap_of_a_job_that_has_ended_launches_nothing(
        self, bench: EngineBench
    ) -> None:
        """Its Start begins another hold in the scheduler: the end is repeated under that id."""
        await bench.runs("held")
        await bench.release("held")
        await bench.end("held", 0)
        await bench.order(Stop(1, "held"), Start(2, "held", THERE, ("held",)))
        assert bench.meaning(await bench.end("held", 2)) == JobFinished("held", 2)
        assert bench.held() == set()

    @told("slow stops")
    async def test_5_an_end_answers_an_order_that_came_meanwhile(self, bench: EngineBench) -> None:
        """The job ends by itself before the stop takes effect."""
        await bench.runs("slow")
        await bench.order(Change(1, "slow", THERE))
        await bench.order(Stop(2, "slow"))
        await bench.release("slow")
        await bench.end("slow", 2)
        assert 1 not in bench.starts("slow")

    # -- rule 6: launch failures ----------------------------------------------------------------

    @told("launches")
    async def test_6_a_command_that_cannot_be_executed_is_not_launched(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "missing", HERE), Start(1, "short", THERE))
        end = await bench.end("missing", 0)
        assert isinstance(end, AttemptEnded)
        assert (end.attempt, end.how, end.code) == (1, How.NOT_LAUNCHED, 127)
        assert end.error
        await bench.end("short", 1)

    @told()
    async def test_6_a_device_that_does_not_exist_is_an_engine_error(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Start(0, "long", on("elsewhere", 0)), Start(1, "short", HERE))
        end = await bench.end("long", 0)
        assert isinstance(end, AttemptEnded)
        assert end.how is How.ENGINE_ERROR
        assert "elsewhere:0" in end.error
        await bench.end("short", 1)

    # -- rule 7: repeats ------------------------------------------------------------------------

    @told()
    async def test_7_a_scheduler_that_hears_everything_twice_comes_to_the_same_end(
        self, bench: EngineBench
    ) -> None:
        """1. A scheduler starts two jobs. 2. Each fact is given to it twice. 3. Both finish."""
        scheduler = Scheduler(policy("fifo"), Cluster((Node("n0", 2),)))
        jobs = [job("short", length_s=10.0), job("held", length_s=1000.0)]
        actions = scheduler.step([JobSubmitted(spec) for spec in jobs], 0.0)
        seen, given = len(bench.facts), len(actions)
        await bench.order(*actions)
        await bench.started("held", actions[-1].id)
        await bench.release("held")
        while scheduler.jobs:
            while len(bench.facts) == seen:
                await bench.more()
            news, seen = bench.facts[seen:], len(bench.facts)
            twice = [fact for fact in news for _ in range(2)]
            again: list[Action] = scheduler.step(twice, float(seen))
            given += len(again)
            await bench.order(*again)
        assert given == 2

    @told()
    async def test_7_late_reports_of_an_earlier_attempt_change_nothing(
        self, bench: EngineBench
    ) -> None:
        """1. A job starts, is stopped and starts again. 2. Its first reports arrive once more."""
        scheduler = Scheduler(policy("fifo"), Cluster((Node("n0", 2),)))
        (start,) = scheduler.step([JobSubmitted(job("long", length_s=86_400.0))], 0.0)
        await bench.order(start)
        await bench.started("long", start.id)
        (stop,) = scheduler.step([*bench.facts, JobHeld("long", "test")], 1.0)
        await bench.order(stop)
        await bench.end("long", stop.id)
        late = list(bench.facts)
        (again,) = scheduler.step([*late, JobReleased("long", "test")], 2.0)
        await bench.order(again)
        await bench.started("long", again.id)
        scheduler.step(bench.facts[len(late) :], 3.0)
        before = scheduler.jobs["long"]
        assert (before.phase, before.action) == (Phase.RUNNING, again.id)
        assert scheduler.step(late, 3.0) == []
        assert scheduler.jobs["long"] == before
