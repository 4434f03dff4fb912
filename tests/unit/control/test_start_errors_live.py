"""What people are told of starts is compared with what happens, and corrects later ranges."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play_on, playing
from tests.unit.control.test_estimates import teach
from treadle.control.api.start_draws import comparable
from treadle.control.learning.kept_starts import Starts
from treadle.core.cluster import Node
from treadle.engines.memory_world import MemoryWorld
from treadle.sim.start_estimate import NotYet
from treadle.wire.jobs import State

LONG_AGO = -1e6


def late_by(starts: Starts, factor: float) -> None:
    """Twelve jobs started so many times as late as was said."""
    for number in range(12):
        starts.promise(f"past {number}", [1000.0] * 10, LONG_AGO)
        starts.started(f"past {number}", LONG_AGO + 1000.0 * factor)


@playing(devices=1)
async def test_a_start_is_said_to_be_as_late_as_earlier_ones_were(here: Bench) -> None:
    teach(here, "", *[1000.0] * 5)
    await here.runs()
    second = await here.submit("forever")
    await here.settle()
    before = (await here.live.why(second)).estimate
    late_by(here.live.context.learner.starts, 3.0)
    third = await here.submit("forever", "and ever")
    await here.settle()
    after = (await here.live.why(second)).estimate
    assert before is not None
    assert after is not None
    assert before.latest_s is not None
    assert after.latest_s is not None
    assert before.sentence == "if no jobs are added"
    assert after.sentence == "from 12 earlier starts"
    assert after.latest_s > 2.0 * before.latest_s
    assert after.coverage == 0.8
    assert (await here.live.why(third)).estimate is not None


@playing(devices=1)
async def test_a_simulation_that_does_not_reach_the_start_leaves_it_unknown(here: Bench) -> None:
    """1. One in eight jobs runs for months, so the simulation with the longest lengths comes to no
    start. 2. Until starts were compared, there is no latest start. 3. Then it is months away."""
    teach(here, "", *[1000.0] * 7, 1e7)
    await here.runs()
    second = await here.submit("forever")
    await here.settle()
    before = (await here.live.why(second)).estimate
    late_by(here.live.context.learner.starts, 1.0)
    await here.submit("forever", "and ever")
    await here.settle()
    after = (await here.live.why(second)).estimate
    assert before is not None
    assert after is not None
    assert before.latest_s is None
    assert before.coverage is None
    assert after.latest_s is None
    assert after.coverage is None


def test_simulations_can_be_compared_where_most_of_them_come_to_a_start() -> None:
    assert comparable([1.0, 9.0, 5.0]) == [1.0, 9.0, 5.0]
    assert comparable([1.0, NotYet(7.0), 5.0]) == [1.0, 5.0, 7.0]
    assert comparable([1.0, NotYet(2.0), 5.0]) == [1.0, 5.0, 5.0], "it was slow, and not early"
    assert comparable([1.0, NotYet(7.0)]) == []
    assert comparable([NotYet(0.0)]) == []
    assert comparable([]) == []


def test_the_start_of_a_job_is_compared_with_the_first_answer_about_it(tmp_path: Path) -> None:
    """1. A job waits and is asked about. 2. What it waits for is cancelled: it starts at once.
    3. The next controller knows what was learned."""
    there = MemoryWorld.of(Node("here", 1, "none"))

    async def before(here: Bench) -> None:
        teach(here, "", *[1000.0] * 5)
        first = await here.runs()
        second = await here.submit("forever")
        await here.settle()
        assert (await here.live.why(second)).estimate is not None
        late_by(here.live.context.learner.starts, 1.0)
        await here.live.cancel(ME, first)
        await here.reached(second, State.RUNNING)
        await here.settle()
        assert here.live.context.learner.starts.compared == 13

    async def after(here: Bench) -> None:
        assert here.live.context.learner.starts.compared == 13

    play_on(there, before, tmp_path)
    play_on(there, after, tmp_path)


def test_errors_that_cannot_be_read_are_forgotten() -> None:
    starts = Starts()
    starts.restore("{")
    assert starts.compared == 0
    assert starts.take_change() is None
    late_by(starts, 1.0)
    text = starts.take_change()
    assert starts.take_change() is None, "each change once"
    again = Starts()
    again.restore(text)
    assert again.compared == 12
