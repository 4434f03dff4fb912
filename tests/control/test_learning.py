"""What is learned from jobs that ran, and how far those that run say they are."""

import asyncio
import pwd
import sys
from math import inf, nan
from pathlib import Path

import pytest

from tests.control.asking import LONG, engine_of, in_memory, runs, telling, telling_in_memory, waits
from tests.control.daemons import daemon
from tests.control.living import ME, bash, ended, view_of
from tests.unit.control.memory import lesson
from tests.waiting import until
from treadle.control.api import LiveService
from treadle.control.learning.learned_lengths import Profiles, Question
from treadle.control.learning.metering import Meter
from treadle.core.job import JobSpec
from treadle.core.job_report import Report
from treadle.models.learning.kinds import by_command
from treadle.models.scaling import ScalingModel
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import Role, Who
from treadle.wire.problems import ConflictError, InvalidRequestError, NotAllowedError

OTHER = Who(user="nobody", role=Role.USER, uid=pwd.getpwnam("nobody").pw_uid)


async def expected(live: LiveService, request: JobRequest, who: Who = ME) -> tuple[float, str]:
    """How long a job would be taken to last by policies, and what people are told that rests on."""
    found = await live.dry_run(who, request)
    length = found.spec["iterations"]
    assert isinstance(length, float)
    assert found.length is not None
    return length, found.length.because


def test_the_same_command_is_believed_to_last_as_long_again(tmp_path: Path) -> None:
    request = bash("sleep 0.4; true")

    async def first(live: LiveService) -> None:
        assert await expected(live, request) == (3600.0, "no run of this script has ended here")
        await ended(live, (await live.submit(ME, request)).id)
        length_s, why = await expected(live, request)
        assert 0.3 <= length_s < 4.0
        assert why == "from 1 run of this command"
        assert (await expected(live, request, OTHER))[0] == 3600.0

    async def second(live: LiveService) -> None:
        assert 0.3 <= (await expected(live, request))[0] < 4.0

    in_memory(first, tmp_path)
    in_memory(second, tmp_path)  # It is kept over a restart.


@telling_in_memory()
async def test_what_its_user_says_is_believed_until_something_is_known(live: LiveService) -> None:
    request = bash("sleep 0.1", estimate_s=500.0)
    assert await expected(live, request) == (500.0, "from its user's estimate")
    await ended(live, (await live.submit(ME, request)).id)
    # It takes 0.1 s on a quiet machine; what its user said is far from any.
    assert (await expected(live, request))[0] < 100.0


@telling_in_memory()
async def test_a_job_that_fails_teaches_nothing(live: LiveService) -> None:
    request = bash("exit 3", retries=0)
    await ended(live, (await live.submit(ME, request)).id)
    assert (await expected(live, request))[0] == 3600.0


def test_each_change_is_written_once_and_can_be_read_back() -> None:
    profiles = Profiles()
    keys = by_command("me", "m", ("train",))
    for size, length_s in ((4, 1.0), (1, 2.0), (1, 3.0)):
        lesson(profiles, keys, size, length_s)
    rows = profiles.changes(7.0)
    written = [row.key for row in rows]
    assert len(set(written)) == len(written)
    assert set(keys.kinds) < set(written)  # Those of a user and of all are also kept by size.
    assert profiles.changes(8.0) == []
    again = Profiles(rows)
    read, kept = (known.ask(Question(keys, 1, (1, 4), "m", 9.0)) for known in (again, profiles))
    assert read == kept
    assert again.changes(8.0) == []


@pytest.mark.parametrize(
    ("estimate_s", "length_s", "source"), [(500.0, 500.0, "its user"), (None, 3600.0, "nothing")]
)
def test_a_kind_never_seen_lasts_as_its_user_says_and_scales_with_a_serial_tenth(
    estimate_s: float | None, length_s: float, source: str
) -> None:
    keys = by_command("me", "", ("train",))
    found = Profiles().ask(Question(keys, 2, estimate_s=estimate_s))
    assert (found.length_s, found.source) == (length_s, source)
    job = JobSpec("a", length_s, sizes=(1, 2), profile=found.profile)
    assert ScalingModel().alone(job, 1) == pytest.approx(1.1 / 2)


# -- progress -------------------------------------------------------------------------------------


@telling()
async def test_printed_progress_is_read_and_gives_a_time_to_go(live: LiveService) -> None:
    body = (
        "for i in $(seq 1 400); do "
        "printf '\\r %d%%|## | %d/400 [00:01<00:02, 9it/s, loss=0.5]' $((i/4)) $i; "
        "sleep 0.02; done"
    )
    job = await runs(live, body)
    while (progress := (await view_of(live, job)).progress) is None or progress.eta_s is None:
        await live._reporting._progress.look()
        await asyncio.sleep(0.05)
    assert progress.source == "log"
    assert progress.total == 400
    assert progress.loss == 0.5
    assert progress.per_s is not None
    assert 10 < progress.per_s < 60
    assert 1 < progress.eta_s < 30
    row = live.context.scheduler.jobs[job]
    while row.spec.iterations > 100:  # It was an hour; soon the scheduler knows better.
        await live._reporting._progress.look()
        await asyncio.sleep(0.05)
        row = live.context.scheduler.jobs[job]
    assert 6 < row.spec.iterations < 30


@telling_in_memory()
async def test_a_count_without_its_end_is_shown_and_nothing_is_made_of_it(
    live: LiveService,
) -> None:
    job = await runs(live, f"echo 'iter 450: loss 0.25'; {LONG}")
    await live._reporting._progress.look()
    progress = (await view_of(live, job)).progress
    assert progress is not None
    assert (progress.step, progress.total, progress.eta_s) == (450, None, None)
    assert progress.loss == 0.25


def test_a_job_reports_through_the_api_of_a_real_daemon(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, treadle\n"
        "for step in range(1, 61):\n"
        "    treadle.report(step, 120, loss=1.0 / step, checkpoint=step - 1)\n"
        "    time.sleep(0.05)\n"
        "time.sleep(60)\n"
    )
    with daemon("--devices", "1") as here:
        request = JobRequest(command=(sys.executable, str(script)), grace_s=0.2)
        (job,) = here.client.submit(request).jobs

        def arrived() -> bool:
            progress = here.view(job).progress
            return progress is not None and progress.step == 60

        until(arrived)
        progress = here.view(job).progress
        assert progress is not None
        assert (progress.source, progress.total) == ("report", 120)
        assert progress.loss == pytest.approx(1 / 60)
        until(lambda: (found := here.view(job).progress) is not None and found.eta_s is not None)


LIES = (
    Report(step=11, total=10),
    Report(step=-1, total=10),
    Report(step=nan, total=10),
    Report(step=1, total=nan),
    Report(step=inf, total=inf),
    Report(step=1, total=-5),
    Report(step=1, total=10, loss=nan),
    Report(step=1, total=10, checkpoint=-3),
    Report(step=1e16),
    Report(step=1, total=1e16),
    Report(step=1, total=10, checkpoint=1e16),
)


@telling_in_memory()
async def test_a_job_that_lies_gains_nothing(live: LiveService) -> None:
    job = await runs(live, resumable=True)
    before = live.context.scheduler.jobs[job]
    own = Who(user="me", role=Role.VIEWER, job=job)
    for lie in LIES:
        with pytest.raises(InvalidRequestError):
            await live.report(own, job, lie)
    assert (await view_of(live, job)).progress is None
    assert live.context.scheduler.jobs[job] == before
    # What it has saved cannot be more than what it has done.
    await live.report(own, job, Report(step=5, total=10, checkpoint=1000))
    said = live.context.learner.progress(job)
    assert said is not None
    assert said.checkpoint == 0.5


@telling_in_memory()
async def test_only_the_job_itself_its_owner_and_admins_may_report(live: LiveService) -> None:
    job, other = await runs(live), await waits(live, LONG, held=True)
    with pytest.raises(NotAllowedError):
        await live.report(Who(user="me", role=Role.VIEWER, job=other), job, Report(step=1))
    with pytest.raises(NotAllowedError):
        await live.report(OTHER, job, Report(step=1))
    with pytest.raises(ConflictError, match="is not running"):
        await live.report(ME, other, Report(step=1))
    await live.report(ME, job, Report(step=1))


def test_a_speed_is_measured_over_a_while_and_starts_over_with_the_count() -> None:
    meter = Meter()
    assert meter.see("a", 1, 10, 0.0) is None  # No attempt has begun.
    meter.begin("a", action=0, size=1, share=0.0, now=0.0)
    gauge = meter.see("a", 10, 100, 10.0)
    assert gauge is not None
    assert gauge.share_per_s() is None  # The first report.
    meter.see("a", 20, 100, 11.0)
    assert gauge.share_per_s() is None  # Too short a time.
    meter.see("a", 50, 100, 14.0)
    assert gauge.share_per_s() == pytest.approx(0.1)
    meter.see("a", 5, 100, 15.0)  # It began again.
    assert gauge.share_per_s() is None
    meter.end("a")
    assert meter.gauge("a") is None


@telling_in_memory()
async def test_a_job_that_stopped_early_is_shown_with_the_steps_that_it_did(
    live: LiveService,
) -> None:
    """It succeeded, and says nothing of the steps that it left out. What it printed after the last
    look at it is read once more when it has ended."""
    prints = await runs(live, f"echo step 14/100 loss 0.4; {LONG}")
    reports = await runs(live)
    await live.report(ME, reports, Report(step=7, total=10, loss=0.5))
    await live._reporting._progress.look()
    engine_of(live).write(prints, b"step 15/100 loss 0.3\n")
    for job in (prints, reports):
        engine_of(live).finish(job)
    for view, shown in zip(
        await ended(live, prints, reports), ((15, 100, 0.3), (7, 10, 0.5)), strict=True
    ):
        assert view.state is State.SUCCEEDED
        said = view.progress
        assert said is not None
        assert (said.step, said.total, said.loss) == shown
