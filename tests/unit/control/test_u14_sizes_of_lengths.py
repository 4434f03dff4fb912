"""A length says for how many devices it is, where that is not what was seen or will be given."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.wire.jobs import Estimate, JobRequest, State


def checked(found: Estimate | None, because: str, *, holds_s: float) -> None:
    assert found is not None
    assert found.because == because
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.low_s < holds_s < found.high_s


def test_u14_a_size_that_was_not_seen_may_be_no_faster_and_is_said(tmp_path: Path) -> None:
    """A command that took 1,000 s on one device, such as `sleep 1000`, takes that on two."""

    async def story(here: Bench) -> None:
        teach(here, "", *[1000.0] * 5)
        because = "from 5 runs of this command, none on 2 devices"
        dry = await here.live.dry_run(ME, JobRequest(command=("forever",), devices="2"))
        checked(dry.length, because, holds_s=1000.0)
        job = await here.submit("forever", devices="2")
        await here.reached(job, State.RUNNING)
        checked((await here.live.why(job)).end, because, holds_s=999.0)

    play(story, tmp_path, devices=2)


def test_u14_the_length_of_an_elastic_job_says_for_which_size_it_is(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        teach(here, "", *[1000.0] * 5)
        await here.reached(await here.submit("forever", devices="2"), State.RUNNING)
        job = await here.submit("forever", devices="1..2")
        await here.settle()
        because = "from 5 runs of this command, none on 2 devices, if it has 2 devices all the time"
        checked((await here.live.why(job)).length, because, holds_s=1000.0)

    play(story, tmp_path, devices=2)
