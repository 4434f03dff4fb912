"""Host memory and cores as requests: who may start beside whom, and what is said of limits."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.asking import LONG, runs, telling, waits
from tests.control.living import ME, bash, ended, local, until, view_of
from tests.engines.groups import containment
from treadle.control.api import LiveService
from treadle.engines.node.cgroup import Containment
from treadle.wire.jobs import State
from treadle.wire.problems import InvalidRequestError

EATS = "b = bytearray(1)\nfor _ in range(300): b += bytes(1 << 20)"


def memory_of(live: LiveService) -> float:
    (node,) = live.nodes()
    return node.memory_gib


@telling()
async def test_jobs_whose_memory_does_not_fit_together_run_one_after_the_other(
    live: LiveService,
) -> None:
    most = memory_of(live)
    first = await runs(live, memory_gib=most * 0.6)
    second = await waits(live, memory_gib=most * 0.6)
    beside = await runs(live)  # It asks for nothing, and there are devices.
    found = await live.why(second)
    assert (found.code, (await view_of(live, second)).state) == ("host", State.PENDING)
    assert found.numbers["memory_gib"] == pytest.approx(most * 0.6)
    listed = {view.id: view for view in (await live.jobs()).jobs}  # B14: as `treadle ps`
    assert (listed[second].cause, listed[second].because) == ("host", found.sentence)
    await live.cancel(ME, first)
    await until(live, State.RUNNING, jobs=(second,))
    assert (await view_of(live, beside)).state is State.RUNNING


@telling()
async def test_a_request_beyond_the_node_is_refused(live: LiveService) -> None:
    (node,) = live.nodes()
    with pytest.raises(InvalidRequestError) as refused:
        await live.submit(ME, bash(LONG, memory_gib=node.memory_gib + 1, cpus=1.0))
    assert str(refused.value) == (
        f"the job can never run here: it asks for {node.memory_gib + 1:.3g} GiB of host memory "
        f"and 1 core of one node, and the largest has {node.memory_gib:.3g} GiB and "
        f"{node.cores} cores"
    )
    with pytest.raises(InvalidRequestError, match="cpus is 0; expected "):
        await live.submit(ME, bash(LONG, cpus=0.0))


@telling()
async def test_a_job_over_its_memory_has_failed_for_that_and_is_not_retried(
    live: LiveService,
) -> None:
    with containment("cgroup v1") as contained:
        local(live).groups.containment = contained
        request = bash("true", memory_gib=0.125, retries=3)
        request = replace(request, command=("python3", "-c", EATS))
        job = (await live.submit(ME, request)).id
        (view,) = await ended(live, job)
        assert (view.state, view.code, view.attempts) == (State.FAILED, 137, 1)
        detail = await live.job(job)
        assert detail.failure is not None
        assert detail.failure.rule == "memory-limit"
        sentence = "it used more than its --memory of 128 MiB (peak 128 MiB)"
        assert detail.failure.evidence == sentence
        assert (detail.memory_gib, detail.enforced) == (0.125, ("cpus", "memory"))
        assert [run.memory_peak_gib for run in detail.attempts] == [0.125]
        assert [run.told for run in detail.attempts] == ["oom-killed"]


@telling()
async def test_a_request_of_gpu_memory_where_there_are_cpu_slots_alone_is_answered(
    live: LiveService,
) -> None:
    for device_type in ("", "cpu"):
        request = bash("true", gpu_memory_gib=20.0, device_type=device_type)
        (note,) = (await live.submit(ME, request)).notes
        assert "--gpu-memory" in note
    assert (await live.submit(ME, bash("true"))).notes == ()


@telling()
async def test_where_nothing_enforces_a_limit_the_submission_says_so(live: LiveService) -> None:
    local(live).groups.containment = Containment(None)
    while live.nodes()[0].containment != "processes only":
        await asyncio.sleep(0.01)
    made = await live.submit(ME, bash("true", memory_gib=0.5, cpus=1.0))
    (note,) = made.notes
    assert note == (
        "--memory and --cpus are not enforced here, because this machine gives Treadle no "
        "cgroup that can; jobs are still placed by what they ask for"
    )
    await ended(live, made.id)
    assert (await live.job(made.id)).enforced == ()
    (node,) = live.nodes()
    assert (node.containment, node.enforced) == ("processes only", ())
