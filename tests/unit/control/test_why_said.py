"""What `why` says in the states in which users found it untrue or hard to read."""

from pathlib import Path

import pytest

from tests.unit.control.memory import HOME, ME, Bench, lesson, play_on, playing, span
from tests.unit.control.test_estimates import teach
from treadle.control.loop.live_policy import Guarded, PolicyInCharge
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import JobSubmitted
from treadle.core.job import JobId
from treadle.core.ports import Policy
from treadle.core.reasons import Reason
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.engines.memory_world import MemoryWorld
from treadle.models.learning.kinds import by_command
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.simple.orders import fifo
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.builders import job as spec_of
from treadle.wire.jobs import JobRequest, State


@playing(devices=3)
async def test_u14_a_gang_waits_for_named_jobs_that_free_enough_devices(here: Bench) -> None:
    """Three jobs of one device run. The job that waits gets the device of the one that ends first,
    and a gang of two the devices of that job and of the one that ends next."""
    for model, length_s in (("a", 900.0), ("b", 300.0), ("c", 600.0)):
        teach(here, model, *[length_s] * 5)
        await here.runs(model=model)
    one = await here.submit("forever", model="b")
    await here.settle()
    assert (await here.live.why(one)).freed_by == ("2",)
    gang = await here.submit("forever", model="b", devices="2", priority=10)
    await here.settle()
    assert set((await here.live.why(gang)).freed_by) == {"3", one}


@playing(devices=2, policy="fifo")
async def test_u14_devices_that_the_jobs_ahead_will_take_are_not_promised(here: Bench) -> None:
    """Job 2 ends first, and the next job in line takes its device. The last one in line gets the
    device when that job ends in turn."""
    for model, length_s in (("a", 300.0), ("b", 2000.0), ("c", 700.0)):
        teach(here, model, *[length_s] * 5)
    await here.runs(model="b")
    await here.runs(model="a")
    following = await here.submit("forever", model="c")
    last = await here.submit("forever", model="a")
    await here.settle()
    assert (await here.live.why(following)).freed_by == ("2",)
    assert (await here.live.why(last)).freed_by == (following,)


class Laid(Policy):
    """Job 1 has the first device, job 2 both beside it; job 3 waits until both are free."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        first, second = Device("here", 0), Device("here", 1)
        places = {"1": Allocation((first,)), "2": Allocation((first, second), turn=1)}
        if not snapshot.tenants:
            places["3"] = Allocation((first, second))
        waiting = [job.id for job in snapshot.waiting() if job.id in places]
        return Schedule({name: places[name] for name in waiting})


@playing(devices=2)
async def test_a_gang_waits_for_all_devices_of_jobs_that_share_some(here: Bench) -> None:
    context = here.live.context
    context.scheduler.set_policy(Laid(), context.clock.now())
    teach(here, "", *[300.0] * 5)
    teach(here, "long", *[900.0] * 5)
    await here.runs()
    await here.runs(model="long", devices="2")
    gang = await here.submit("forever", devices="2")
    await here.settle()
    assert (await here.live.why(gang)).freed_by == ("2",)


@playing(devices=2)
async def test_u14_jobs_that_start_at_the_same_moment_have_places_of_their_own(here: Bench) -> None:
    teach(here, "", *[1000.0] * 5)
    await here.runs(devices="2")
    behind = [await here.submit("forever") for _ in range(3)]
    await here.settle()
    answers = [await here.live.why(job) for job in behind]
    assert [answer.position for answer in answers] == [1, 2, 3]
    assert [answer.estimate and answer.estimate.orders for answer in answers] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]


@playing(devices=1)
async def test_u14_members_of_an_array_that_wait_for_its_limit_say_what_the_others_do(
    here: Bench,
) -> None:
    """1. The only device is taken, so none of the array runs. 2. It is free, and one runs."""
    first = await here.runs()
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-3%2"))
    await here.settle()
    last = array.jobs[-1]
    assert here.state(last) is State.PENDING, "its user does not hold it"
    status = here.live.status()
    assert (status.waiting, status.held) == (4, 0)
    found = (await here.live.why(last)).numbers
    assert found == {"array": array.id, "limit": 2, "running": 0, "held": (), "before": 3}
    here.memory.finish(first)
    await here.reached(array.jobs[0], State.RUNNING)
    await here.settle()
    found = (await here.live.why(last)).numbers
    assert found == {"array": array.id, "limit": 2, "running": 1, "held": (), "before": 2}
    await here.live.hold(ME, array.jobs[1])
    found = (await here.live.why(last)).numbers
    assert found["held"] == (array.jobs[1],)


@playing(devices=4)
async def test_u14_a_job_after_another_and_a_limited_one_have_a_range_for_their_start(
    here: Bench,
) -> None:
    """Jobs of 1,000 s run on two of four devices, one of them in an array that runs one by one."""
    teach(here, "", *[1000.0] * 5)
    first = await here.submit("forever")
    array = await here.live.submit(ME, JobRequest(command=("forever",), array="0-2%1"))
    await here.reached(array.jobs[0], State.RUNNING)
    after = await here.submit("forever", after=(first,))
    await here.settle()
    for job, around_s in ((after, 1000.0), (array.jobs[1], 1000.0), (array.jobs[2], 2000.0)):
        why = await here.live.why(job)
        assert why.position is None
        assert why.estimate is not None
        earliest_s, latest_s = span(why.estimate)
        assert 0.5 * around_s < earliest_s < latest_s < 1.5 * around_s
        assert why.estimate.coverage == 0.8
    dry = await here.live.dry_run(ME, JobRequest(command=("forever",), after=(first,)))
    assert dry.starts_now is False
    assert dry.estimate is not None
    assert dry.estimate.earliest_s is not None


@playing(devices=4)
async def test_u14_an_array_says_what_its_members_do_and_when_all_have_ended(here: Bench) -> None:
    """Four jobs of 1,000 s, two at once: about 2,000 s."""
    teach(here, "", *[1000.0] * 5)
    request = JobRequest(command=("forever",), name="sweep", array="0-3%2")
    array = await here.live.submit(ME, request)
    await here.reached(array.jobs[1], State.RUNNING)
    await here.settle()
    for word in (array.id, "sweep"):
        why = await here.live.why(word)
        assert why.code == "array"
        assert why.sentence.startswith("2 running, 2 waiting; ")
        assert (why.id, why.state, why.members) == (array.id, State.RUNNING, 4)
        low_s, high_s = span(await here.end(word))
        assert 1000.0 < low_s <= 2000.0 <= high_s < 3000.0
    for job in array.jobs:
        await here.reached(job, State.RUNNING)
        here.memory.finish(job)
        await here.reached(job, State.SUCCEEDED)
    await here.settle()
    over = await here.live.why(array.id)
    assert (over.sentence, over.state) == ("4 succeeded", State.SUCCEEDED)


# -- `why` of a running job, and of a policy that cannot answer ------------------------------------


@playing(devices=2, policy="weave-l")
async def test_a_running_job_says_how_many_devices_it_has(here: Bench) -> None:
    name = await here.runs(devices="1..2")
    why = await here.live.why(name)
    assert why.code == "running"
    assert why.numbers == {"size": 2, "least": 1, "most": 2, "asked": 2}
    assert (await here.live.job(name)).job.because == "", "that it runs, the state says"


class Speechless(Wrapper):
    """A policy that raises when it is asked why."""

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        raise ValueError(f"no words for {job}")


def test_a_policy_that_raises_stops_nothing() -> None:
    inner = Speechless(fifo(placement("consolidate"), ScalingModel()))
    scheduler = Scheduler(Guarded(inner, PolicyInCharge()), Cluster((Node("n", 1),)))
    scheduler.step([JobSubmitted(spec_of("a")), JobSubmitted(spec_of("b"))], 0.0)
    assert scheduler.why("a", 1.0).code == "starting"
    assert scheduler.why("b", 1.0).code == "devices"


@playing(devices=4)
async def test_u14_as_many_closed_devices_are_named_as_must_open(here: Bench) -> None:
    """Three of four devices are avoided, and a job of three waits for two of them."""
    for device in ("here:0", "here:2", "here:3"):
        await here.live.manage(ME, device, "avoid")
    await here.settle()
    job = await here.submit("forever", devices="3")
    await here.settle()
    why = await here.live.why(job)
    assert (why.code, why.numbers["asked"], why.numbers["open"]) == ("closed", 3, 1)
    assert why.change.count("treadle device") == 2


@playing(devices=1)
async def test_u14_length_and_company_each_say_from_which_jobs_they_are(here: Bench) -> None:
    """Runs of another width say how long a job takes, and not what it needs of a device."""
    for _ in range(3):
        keys = by_command(ME.user, "", ("forever", "--width", "1"), folder=HOME)
        lesson(here.live.context.learner.profiles, keys, 1, 1000.0)
    await here.runs()
    job = await here.submit("forever", "--width", "2")
    await here.settle()
    why = await here.live.why(job)
    assert why.length is not None
    assert why.length.because == "from 3 similar runs, other --width"
    assert dict(why.details)["sharing"] == "not yet: forever has not been measured"


@pytest.mark.parametrize(("tries", "unknown"), [("on", "forever"), ("off", "other")])
def test_what_has_to_be_measured_before_a_job_shares_is_named(
    tries: str, unknown: str, tmp_path: Path
) -> None:
    """One that is not known may be tried beside one that is, unless tries are switched off."""

    async def story(here: Bench) -> None:
        await here.runs()
        job = await here.submit("other")
        await here.settle()
        details = dict((await here.live.why(job)).details)
        assert details["sharing"] == f"not yet: {unknown} has not been measured"

    play_on(MemoryWorld.of(Node("here", 1, "none")), story, tmp_path, policy=f"afs?tries={tries}")


@playing(devices=4)
async def test_u14_a_held_array_is_released_as_a_whole(here: Bench) -> None:
    request = JobRequest(command=("forever",), array="0-2", held=True)
    array = await here.live.submit(ME, request)
    await here.settle()
    why = await here.live.why(array.id)
    assert (why.code, why.change) == ("held", "treadle release 1")
    assert (await here.live.why("1_1")).change == "treadle release 1_1"
