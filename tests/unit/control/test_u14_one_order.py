"""What `why` says of a job's turn comes from one order: by priority, then as the policy ranks."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from treadle.control.learning import keys_of
from treadle.wire.jobs import JobRequest, State


def test_urgent_jobs_come_first_in_the_queue(tmp_path: Path) -> None:
    """1. The only device is taken by a job that cannot resume. 2. Two normal jobs and an urgent
    one wait. 3. The urgent one is ahead of both."""

    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever"), State.RUNNING)
        normal = [await here.submit("forever") for _ in range(2)]
        urgent = await here.submit("forever", priority=10)
        await here.settle()
        for place, job in enumerate((urgent, *normal), 1):
            assert (await here.live.why(job)).position == place

    play(story, tmp_path, devices=1, policy="fifo")


def test_u14_as_many_closed_devices_are_named_as_must_open(tmp_path: Path) -> None:
    """Three of four devices are avoided, and a job of three waits for two of them."""

    async def story(here: Bench) -> None:
        for device in ("here:0", "here:2", "here:3"):
            await here.live.manage(ME, device, "avoid")
        await here.settle()
        job = await here.submit("forever", devices="3")
        await here.settle()
        why = await here.live.why(job)
        assert (why.code, why.numbers["asked"], why.numbers["open"]) == ("closed", 3, 1)
        assert why.change.count("treadle device") == 2

    play(story, tmp_path, devices=4)


def test_u14_length_and_company_each_say_from_which_jobs_they_are(tmp_path: Path) -> None:
    """Runs of another width say how long a job takes, and not what it needs of a device."""

    async def story(here: Bench) -> None:
        for _ in range(3):
            keys = keys_of(ME.user, "", ("forever", "--width", "1"))
            here.live.context.learner.profiles.learn(keys, 1, 1000.0)
        await here.reached(await here.submit("forever"), State.RUNNING)
        job = await here.submit("forever", "--width", "2")
        await here.settle()
        why = await here.live.why(job)
        assert why.length is not None
        assert why.length.because == "from 3 similar runs"
        assert dict(why.details)["sharing"] == "not yet: forever has not been measured"

    play(story, tmp_path, devices=1)


def test_u14_a_held_array_is_released_as_a_whole(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        request = JobRequest(command=("forever",), array="0-2", held=True)
        array = await here.live.submit(ME, request)
        await here.settle()
        why = await here.live.why(array.id)
        assert (why.code, why.change) == ("held", "treadle release 1")
        assert (await here.live.why("1_1")).change == "treadle release 1_1"

    play(story, tmp_path, devices=4)


def test_u14_an_array_whose_dependency_failed_is_dropped_as_a_whole(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        first = await here.submit("exit", "7", retries=0)
        await here.reached(first, State.FAILED)
        request = JobRequest(command=("forever",), array="0-1", after=(first,))
        array = await here.live.submit(ME, request)
        await here.settle()
        assert (await here.live.why(array.id)).change == (
            f"treadle release {array.id} runs them anyway; treadle cancel {array.id} drops them"
        )

    play(story, tmp_path, devices=4)


def test_u14_no_end_is_promised_of_a_job_that_has_only_a_time_limit(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever", time_limit_s=600.0), State.RUNNING)
        job = await here.submit("forever")
        await here.settle()
        why = await here.live.why(job)
        assert why.estimate is not None
        assert why.estimate.latest_s is not None
        assert why.change == ""

    play(story, tmp_path, devices=1)
