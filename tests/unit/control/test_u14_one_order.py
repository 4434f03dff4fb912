"""What `why` says of a job's turn comes from one order: by priority, then as the policy ranks."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from treadle.control.learning import keys_of
from treadle.wire.jobs import JobRequest, State


def test_u14_the_reason_counts_urgent_jobs_as_the_position_does(tmp_path: Path) -> None:
    """1. The only device is taken by a job that cannot resume. 2. Two normal jobs and an urgent
    one wait. 3. The urgent one is ahead of both."""

    async def story(here: Bench) -> None:
        await here.reached(await here.submit("forever"), State.RUNNING)
        normal = [await here.submit("forever") for _ in range(2)]
        urgent = await here.submit("forever", priority=10)
        await here.settle()
        taken = "it asks for 1 device and the only device is taken"
        for job, ahead, place in (
            (urgent, "no job ranks ahead of it", 1),
            (normal[0], "1 job ranks ahead of it", 2),
            (normal[1], "2 jobs rank ahead of it", 3),
        ):
            why = await here.live.why(job)
            assert (why.because, why.position) == (f"{taken}; {ahead}", place)

    play(story, tmp_path, devices=1, policy="fifo")


def test_u14_as_many_closed_devices_are_named_as_must_open(tmp_path: Path) -> None:
    """Three of four devices are avoided, and a job of three waits for two of them."""

    async def story(here: Bench) -> None:
        for device in ("here:0", "here:2", "here:3"):
            await here.live.manage(ME, device, "avoid")
        await here.settle()
        job = await here.submit("forever", devices="3")
        await here.settle()
        opens = "manage (for admins) opens it again"
        assert (await here.live.why(job)).change == (
            f"treadle device here:0 {opens}; treadle device here:2 {opens}"
        )

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
        assert why.length.because == "3 runs that differ in numbers or paths"
        assert why.company == (
            "no job with its command was seen at work alone yet, not even with another --seed or "
            "--steps (any other number may change what it needs); that takes 20 s in which it "
            "prints steps or uses its device, or a whole run with steps"
        )

    play(story, tmp_path, devices=1)


def test_u14_a_held_array_is_released_as_a_whole(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        request = JobRequest(command=("forever",), array="0-2", held=True)
        array = await here.live.submit(ME, request)
        await here.settle()
        why = await here.live.why(array.id)
        assert why.because == "3 are held; the next, job 1_0: its user holds it"
        assert why.change == "treadle release 1 lets them start"
        assert (await here.live.why("1_1")).change == "treadle release 1_1 lets it start"

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
