"""A job that is being stopped holds its devices until it has released them."""

from pathlib import Path

from tests.unit.control.memory import ME, Bench, play
from tests.unit.control.test_estimates import teach
from treadle.wire.jobs import State


def test_u14_a_job_that_is_being_stopped_still_holds_its_devices(tmp_path: Path) -> None:
    """1. One of two jobs is cancelled and does not end by itself. 2. Another one is to follow it,
    and a last one waits for the job that runs."""

    async def story(here: Bench) -> None:
        teach(here, "known", *[1000.0] * 5)
        stays = await here.submit("forever")
        await here.reached(stays, State.RUNNING)
        here.memory.hang(stays)
        await here.reached(await here.submit("forever", model="known"), State.RUNNING)
        await here.live.cancel(ME, stays)
        await here.reached(stays, State.STOPPING)
        await here.settle()
        status = here.live.status()
        assert (status.free, status.running, status.stopping) == (0, 1, 1)
        view = (await here.live.job(stays)).job
        assert view.devices == ("here:0",)
        why = await here.live.why(stays)
        held = "2 jobs hold devices (1 of them is being stopped)"
        assert why.evidence == (f"{held}, both devices are taken, no job waits",)
        assert why.length is None, "it does not run to its end"
        follows = await here.submit("forever", model="known")
        last = await here.submit("forever", model="known")
        await here.settle()
        assert here.state(follows) is State.STARTING
        status = here.live.status()
        assert (status.running, status.starting, status.stopping, status.waiting) == (1, 1, 1, 1)
        why = await here.live.why(last)
        assert why.evidence == (
            f"{held}, 1 more is starting as they are released, both devices are taken, 1 job waits",
        )
        assert why.estimate is not None
        assert why.estimate.coverage == 0.8, "a job that is being stopped is no unknown"

    play(story, tmp_path, devices=2)
