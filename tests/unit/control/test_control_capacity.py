"""U13: jobs that can never fit, and those that may wait for capacity."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play
from treadle.core.cluster import Cluster, Node
from treadle.core.job import JobSpec
from treadle.testing.builders import policy as made
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError


def test_u13_a_job_that_can_never_fit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def story(here: Bench) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            await here.submit("true", devices="5")
        assert str(refused.value) == (
            "the job can never run here: it asks for 5 devices and the cluster has 4"
        )
        assert refused.value.hint == (
            "submit it with --devices 4 or fewer, or with --wait-for-capacity to queue it until "
            "it fits"
        )
        assert (await here.live.jobs(ended=True)).jobs == ()
        assert await here.submit("true") == "1"

    play(story, tmp_path)


def test_more_gpu_memory_than_any_gpu_has_is_said_in_one_sentence() -> None:
    policy = made("fifo+live")
    spec = JobSpec("a", 1.0, device_memory_gib=100.0)
    small, large = (Node(name, 8, device_memory_gib=gib) for name, gib in (("a", 24), ("b", 80)))
    assert policy.never_fits(spec, Cluster((small, large))) == (
        "it asks for 100 GiB of GPU memory, and the largest GPU has 80 GiB"
    )
    assert policy.never_fits(spec, Cluster((small, Node("c", 8)))) is None, "c does not say"
    fits = replace(spec, device_memory_gib=80.0)
    assert policy.never_fits(fits, Cluster((small, large))) is None
    wide = replace(fits, sizes=(16,), asked=16)
    assert policy.never_fits(wide, Cluster((small, large))) == (
        "it asks for 16 devices with 80 GiB of memory each, and there are 8"
    )


def test_u13_a_job_may_wait_for_capacity(tmp_path: Path) -> None:
    """It is not said that it can never run: it is queued until there is room."""

    async def story(here: Bench) -> None:
        await here.submit("forever", devices="4")
        await here.submit("true")
        job = await here.submit("true", devices="5", wait_for_capacity=True)
        await here.settle()
        assert here.state(job) is State.PENDING
        why = await here.live.why(job)
        assert (why.code, why.never) == ("capacity", False)

    play(story, tmp_path)
