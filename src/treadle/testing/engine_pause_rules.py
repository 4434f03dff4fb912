"""Rule 14 of docs/add-an-engine.md: pauses. Part of EngineContract."""

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Pause
from treadle.core.attempt import How
from treadle.core.events import AttemptEnded, JobPaused
from treadle.core.job import Job
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.testing.engine_bench import HERE, BenchTests, EngineBench, row, told

FROZEN = HERE.as_paused(Pause.FROZEN)


class PauseRules(BenchTests):
    """How attempts are paused and go on. `held` can be frozen."""

    @told("pauses")
    async def test_14_a_paused_job_leaves_its_devices_and_goes_on_as_the_same_attempt(
        self, bench: EngineBench
    ) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN), Start(2, "short", HERE, ("held",)))
        paused = await _paused(bench, 1)
        assert bench.index(paused) < bench.index(await bench.started("short", 2))
        await bench.end("short", 2)
        assert bench.held() == set()
        await bench.order(Change(3, "held", HERE))
        started = await bench.started("held", 3)
        assert (started.refused, started.attempt, bench.meanings("held")) == ("", 1, [])
        await bench.release("held", 0)
        await bench.end("held", 3)

    @told("pauses")
    async def test_14_a_job_goes_on_once_its_devices_are_free(self, bench: EngineBench) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN), Start(2, "long", HERE, ("held",)))
        await bench.started("long", 2)
        await bench.order(Stop(3, "long"), Change(4, "held", HERE, ("long",)))
        ended = await bench.end("long", 3)
        assert bench.index(ended) < bench.index(await bench.started("held", 4))

    @told("pauses")
    async def test_14_a_paused_job_is_stopped(self, bench: EngineBench) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN))
        await _paused(bench, 1)
        await bench.order(Stop(2, "held"))
        end = await bench.end("held", 2)
        assert isinstance(end, AttemptEnded)
        assert (end.attempt, end.how) == (1, How.STOPPED)

    @told("pauses")
    async def test_14_a_pause_of_a_job_of_which_nothing_runs_launches_nothing(
        self, bench: EngineBench
    ) -> None:
        await bench.order(Change(4, "held", FROZEN))
        assert await bench.end("held", 4) == AttemptEnded("held", 4, 0, How.STOPPED)
        await bench.crash()
        await bench.engine.adopt([_row(Phase.STARTING, 5)])
        assert await bench.end("held", 5) == AttemptEnded("held", 5, 0, How.STOPPED)

    @told("pauses")
    async def test_14_the_newest_of_several_orders_counts(self, bench: EngineBench) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN), Change(2, "held", HERE))
        await bench.started("held", 2)
        await bench.order(Change(3, "held", FROZEN))
        await _paused(bench, 3)

    @told("pauses")
    async def test_14_a_paused_job_is_found_again_and_goes_on(self, bench: EngineBench) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN))
        await _paused(bench, 1)
        await bench.crash()
        await bench.engine.adopt([_row(Phase.PAUSED, 1)], [AttemptId("held", 1)])
        assert bench.held() == set()
        await bench.order(Start(2, "short", HERE))
        await bench.end("short", 2)
        await bench.order(Change(3, "held", HERE))
        await bench.started("held", 3)
        assert bench.meanings("held") == []

    @told("pauses")
    async def test_14_a_pause_that_the_controller_has_not_seen_is_reported_again(
        self, bench: EngineBench
    ) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN))
        await _paused(bench, 1)
        await bench.crash()
        await bench.engine.adopt([_row(Phase.STARTING, 1)], [AttemptId("held", 1)])
        await _paused(bench, 1)
        assert bench.meanings("held") == []

    @told("pauses")
    async def test_14_a_pause_that_is_owed_is_carried_out(self, bench: EngineBench) -> None:
        await _begin(bench)
        await bench.crash()
        await bench.engine.adopt([_row(Phase.STARTING, 1)], [AttemptId("held", 1)])
        await _paused(bench, 1)
        assert bench.held() == set()

    @told("pauses")
    async def test_14_a_paused_job_of_which_an_order_to_go_on_is_owed_goes_on(
        self, bench: EngineBench
    ) -> None:
        await _begin(bench)
        await bench.order(Change(1, "held", FROZEN))
        await _paused(bench, 1)
        await bench.crash()
        owed = _row(Phase.STARTING, 2)._replace(allocation=HERE)
        await bench.engine.adopt([owed], [AttemptId("held", 1)])
        await bench.started("held", 2)
        assert bench.meanings("held") == []


async def _begin(bench: EngineBench) -> None:
    await bench.order(Start(0, "held", HERE))
    started = await bench.started("held", 0)
    assert Pause.FROZEN in started.pauses


async def _paused(bench: EngineBench, action: int) -> JobPaused:
    """The answer to an order to pause `held`."""
    fact = await bench.fact(
        lambda fact: isinstance(fact, JobPaused) and (fact.job, fact.action) == ("held", action)
    )
    assert isinstance(fact, JobPaused)
    assert (fact.how, fact.refused) == (Pause.FROZEN, "")
    return fact


def _row(phase: Phase, action: int) -> Job:
    found = row("held", phase, FROZEN, action=action)
    return found._replace(pauses=(Pause.FROZEN,))
