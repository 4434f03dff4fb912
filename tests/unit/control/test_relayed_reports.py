"""Reports that come through the engine are checked and heard as those of the API."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.control.memory import Bench, play, playing
from treadle.control.api import reporting
from treadle.core.allocation import Allocation
from treadle.core.events import Event, JobStarted
from treadle.core.job_report import JobReport, Report
from treadle.core.launch import Launch
from treadle.core.ports import Controls
from treadle.wire.jobs import Progress, State


def token_of(here: Bench, job: str) -> str:
    row = here.live.context.scheduler.jobs[job]
    assert row.allocation is not None
    launch = here.memory._controls.launch(job, row.action, row.allocation)
    return launch.secrets["TREADLE_JOB_TOKEN"]


def say(here: Bench, job: str, report: Report, *, token: str = "", at: float | None = None) -> None:
    now = here.live.context.clock.now()
    given = JobReport(
        job=job, token=token or token_of(here, job), report=report, at=now if at is None else at
    )
    here.memory._controls.report(given)


async def progress(here: Bench, job: str) -> Progress | None:
    return (await here.live.job(job)).job.progress


@playing()
async def test_a_report_through_the_engine_is_heard(here: Bench) -> None:
    job = await here.runs()
    say(here, job, Report(step=40, total=100, loss=0.5, stages={"load": 0.1}))
    found = await progress(here, job)
    assert found is not None
    assert (found.step, found.total, found.loss, found.source) == (40, 100, 0.5, "report")
    assert found.stages == {"load": 0.1}


def test_what_the_api_refuses_is_refused_here_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(here: Bench) -> None:
        job, other = await here.submit("forever"), await here.submit("forever")
        for each in (job, other):
            await here.reached(each, State.RUNNING)
        good = Report(step=1, total=10)
        say(here, job, good, token="wrong")
        say(here, job, good, token=token_of(here, other))
        say(here, "99", good, token=token_of(here, job))
        say(here, job, Report(step=11, total=10))
        say(here, job, Report(step=float("nan"), total=10))
        assert await progress(here, job) is None
        say(here, job, good)
        assert await progress(here, job) is not None

    with caplog.at_level(logging.INFO, "treadle"):
        play(story, tmp_path)
    refused = [line for line in caplog.messages if "was refused" in line]
    assert refused[:2] == [
        "a report of job 1 was refused: it does not come with the token of a job",
        "a report of job 1 was refused: this token reports on job 2, not on 1",
    ]
    assert len(refused) == 5


@playing()
async def test_a_speed_goes_by_when_it_was_said_and_not_by_when_it_came(here: Bench) -> None:
    job = await here.runs()
    clock = here.live.context.clock
    now = clock.now()
    gauge = here.live.context.learner.gauge(job)
    assert gauge is not None
    gauge.seen_at = gauge.from_at = now - 60.0
    say(here, job, Report(step=10, total=100), at=now - 10.0)
    say(here, job, Report(step=30, total=100), at=now)
    assert gauge.measured_s == pytest.approx(10.0)
    assert gauge.share_per_s() == pytest.approx(0.02)
    say(here, job, Report(step=31, total=100), at=now + 1e6)  # a clock that is wrong
    assert gauge.seen_at <= clock.now()


@dataclass
class Hasty:
    """Controls of an engine that learns of a start and of a report in the same moment."""

    inner: Controls
    tokens: dict[str, str] = field(default_factory=dict)

    def launch(self, job: str, action: int, allocation: Allocation) -> Launch:
        launch = self.inner.launch(job, action, allocation)
        self.tokens[job] = launch.secrets["TREADLE_JOB_TOKEN"]
        return launch

    def tell(self, *facts: Event) -> None:
        for fact in facts:
            if isinstance(fact, JobStarted):
                report, token = Report(step=7, total=10), self.tokens[fact.job]
                self.report(JobReport(job=fact.job, token=token, report=report, at=0.0))
            self.inner.tell(fact)

    def report(self, *reports: JobReport) -> None:
        self.inner.report(*reports)


@playing()
async def test_a_report_that_comes_with_the_start_of_its_job_is_heard_once_it_runs(
    here: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "EARLY_S", 0.01)
    here.memory._controls = Hasty(here.memory._controls)
    job = await here.runs()
    for _ in range(5000):
        if (found := await progress(here, job)) is not None:
            assert found.step == 7
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it was never heard")
