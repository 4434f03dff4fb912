"""What if, of a real controller: simulated by a process of its own."""

import asyncio
from pathlib import Path

import pytest

from tests.control.asking import in_memory, runs, telling_in_memory, waits
from treadle.control.api import LiveService
from treadle.wire.problems import InvalidRequestError, NotFoundError, UnavailableError
from treadle.wire.what_if import WhatIfRequest


@telling_in_memory()
async def test_more_devices_and_one_job_less_end_the_others_sooner(live: LiveService) -> None:
    first = await runs(live, devices="4", estimate_s=100, name="big")
    second = await waits(live, devices="4", estimate_s=50)
    same = await live.what_if(WhatIfRequest())
    assert same.now == same.then
    ends = {job.job: job.now_s for job in same.jobs}
    assert ends[first] == pytest.approx(100, rel=0.2)
    assert ends[second] == pytest.approx(150, rel=0.2)
    assert same.now.makespan_s == ends[second]
    assert [job.name for job in same.jobs] == ["big", "bash"]
    assert {spell.job for spell in same.spells_now} == {first, second}
    larger = await live.what_if(WhatIfRequest(cluster="2x4"))
    then = {job.job: job.then_s for job in larger.jobs}
    assert then[second] == pytest.approx(50, rel=0.2), "it need not wait"
    assert larger.then.cluster == "2x4"
    without = await live.what_if(WhatIfRequest(without=(first,)))
    assert without.then.jobs == 1
    assert {job.job: job.then_s for job in without.jobs}[first] is None
    assert {job.job: job.then_s for job in without.jobs}[second] == pytest.approx(50, rel=0.2)


@telling_in_memory()
async def test_what_is_not_known_is_said(live: LiveService) -> None:
    await runs(live, devices="1")
    found = await live.what_if(WhatIfRequest(policy="fifo"))
    assert found.jobs[0].assumed
    assert any("how long 1 job will run is not known" in note for note in found.notes)
    assert found.then.policy.startswith("fifo")


@telling_in_memory()
async def test_no_file_of_the_server_is_read_and_names_are_checked(live: LiveService) -> None:
    for wrong in (
        WhatIfRequest(cluster="/etc/passwd"),
        WhatIfRequest(cluster="9999x9999"),
        WhatIfRequest(policy="nosuch"),
        WhatIfRequest(without=("77",)),
    ):
        with pytest.raises((InvalidRequestError, NotFoundError)):
            await live.what_if(wrong)


@telling_in_memory()
async def test_the_loop_answers_while_it_simulates(live: LiveService) -> None:
    await runs(live, devices="1", estimate_s=100)
    asking = asyncio.ensure_future(live.what_if(WhatIfRequest(policy="fifo")))
    turns = 0
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 100
    assert (await asking).now.ended == 1


def test_what_a_process_that_failed_said_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("treadle.control.api.what_if.COMMAND", ("-P", "-m", "treadle.no_such"))

    async def story(live: LiveService) -> None:
        with pytest.raises(UnavailableError, match="the simulation failed"):
            await live.what_if(WhatIfRequest())

    in_memory(story, tmp_path)
    assert "No module named treadle.no_such" in caplog.text
