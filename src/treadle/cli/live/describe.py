"""`treadle describe`: all details of a job except its secrets."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import click

from treadle.cli.live.job_rows import devices_text, progress_text
from treadle.cli.live.job_selection import job_argument, one_job
from treadle.cli.live.load_text import load_lines
from treadle.cli.live.session import Session, echo_json, json_option, session
from treadle.cli.live.stage_text import step_text
from treadle.cli.live.why import (
    estimate_text,
    length_text,
    place_text,
    range_text,
    starts_label,
)
from treadle.cli.show.clock import date_text
from treadle.cli.show.table import Column, pairs, table
from treadle.cli.show.wording import command_text, plain
from treadle.core.allocation import Pause
from treadle.core.errors import TreadleError
from treadle.core.wording import ago, gib_text, listed, named_jobs, several, share, short_span, span
from treadle.wire.history import JobHistory
from treadle.wire.job_fields import duration_text
from treadle.wire.jobs import (
    AttemptView,
    CompanyView,
    FailureView,
    JobDetail,
    JobView,
    State,
    Why,
)
from treadle.wire.notation import CARRIED

ATTEMPTS_MAX = 20  # that are listed, the newest
BESIDE_MAX = 4  # jobs that are named
SPELL_MIN_S = 1.0
SPELLS_MAX = 8  # times with others that are listed, the newest
_WAITS = (State.PENDING, State.PAUSED)
_ATTEMPTS = (
    Column("ATTEMPT"),
    Column("DEVICES", least=12),
    Column("STARTED"),
    Column("TIME", right=True),
    Column("EXIT", right=True),
    Column("HOW IT ENDED", least=20),
)


@click.command()
@job_argument
@click.option("--all", "every", is_flag=True, help="All attempts, not only the newest 20.")
@json_option
def describe(job: str, every: bool, as_json: bool) -> None:
    """Show all details of JOB."""
    here = session()
    detail = here.client.job(one_job(here, job))
    if as_json:
        echo_json(detail)
        return
    history = here.client.job_history(detail.job.id) if detail.attempts else None
    answer = _why(here, detail.job)
    click.echo(detail_text(detail, here, history, answer, every=every))


def _why(here: Session, view: JobView) -> Why | None:
    """When a waiting job starts; without an answer, the rest is shown all the same."""
    if view.state not in _WAITS:
        return None
    try:
        return here.client.why(view.id)
    except TreadleError:
        return None


def detail_text(
    detail: JobDetail,
    here: Session,
    history: JobHistory | None = None,
    answer: Why | None = None,
    *,
    every: bool = False,
) -> str:
    """every: list all attempts."""
    view = detail.job
    recent = detail if every else replace(detail, attempts=detail.attempts[-ATTEMPTS_MAX:])
    name = f" ({plain(view.name)})" if view.name else ""
    text = f"job {plain(view.id)}{name} {view.state.value}\n"
    failure = _failure(detail.failure) if detail.failure else []
    used = [] if history is None else load_lines(history)
    host_used = any(name == "host use" for name, _ in used)
    rows = [*_now(view, here.now()), *_ahead(answer), *used]
    rows += [*_asked(detail, recent, peak=not host_used), *failure]
    text += pairs(rows, width=here.width)
    if detail.attempts:
        runs = [_attempt(run, view.state, here.now()) for run in recent.attempts]
        text += "\n\n" + table(_ATTEMPTS, runs, width=here.width, colour=here.colour)
    if earlier := len(detail.attempts) - len(recent.attempts):
        text += f"\n{several(earlier, 'earlier attempt')}; --all shows them"
    return text


def _now(view: JobView, now: float) -> list[tuple[str, str]]:
    """The job's present state."""
    array = "" if not view.array else f"member {view.index} of array {plain(view.array)}"
    submitted = f"{date_text(view.submitted_at)}, {ago(view.submitted_at, now)}"
    started = "" if view.started_at is None else f"{date_text(view.started_at)}"
    ended = "" if view.ended_at is None else f"{date_text(view.ended_at)}"
    tenant = f", tenant {plain(view.tenant)}" if view.tenant else ""
    held = f" ({', '.join(plain(device) for device in view.devices)})" if view.devices else ""
    counts = [
        several(number, noun)
        for number, noun in ((view.resizes, "resize"), (view.failures, "failure"))
        if number
    ]
    ran = f"{short_span(view.running_s)} with devices, {view.device_s / 3600:,.2f} device-hours"
    return [
        ("because", "" if view.state is State.FAILED else plain(view.because)),
        ("user", f"{plain(view.user)}{tenant}"),
        ("array", array),
        ("devices", f"{devices_text(view)}{held}"),
        ("plan", plain(view.plan)),
        ("progress", _progress(view)),
        ("a step", step_text({} if view.progress is None else view.progress.stages)),
        ("end", "" if view.end is None else range_text(view.end, "in ")),
        ("submitted", submitted),
        ("started", started),
        ("ended", ended + (f", exit code {view.code}" if ended and view.code is not None else "")),
        ("ran", ", ".join([ran, *counts]) if view.attempts else ""),
    ]


def _ahead(answer: Why | None) -> list[tuple[str, str]]:
    """What `why` says of a waiting job's start and length."""
    if answer is None or answer.state not in _WAITS:
        return []
    start = "never" if answer.never else estimate_text(answer.estimate, answer.freed_by)
    length = "" if answer.state is State.PAUSED else length_text(answer.length)
    return [("queue", place_text(answer)), (starts_label(answer), start), ("length", length)]


def _progress(view: JobView) -> str:
    found = view.progress
    if found is None:
        return ""
    parts = [progress_text(view)]
    if found.total:
        parts.append(f"step {found.step:,.0f} of {found.total:,.0f}")
    if found.per_s:
        parts.append(f"{found.per_s:,.3g} steps/s")
    if found.loss is not None:
        parts.append(f"loss {found.loss:.4g}")
    return ", ".join(parts) + (" (read from its output)" if found.source == "log" else "")


def _asked(detail: JobDetail, recent: JobDetail, *, peak: bool) -> list[tuple[str, str]]:
    """The job's request.

    recent: the same with the attempts that are listed. peak: show the most memory that it used,
    which is not shown above.
    """
    view = detail.job
    env = [f"{plain(key)}={plain(value)}" for key, value in detail.env.items()]
    shown = [line for line in env if line.partition("=")[0] not in CARRIED]
    kinds = [
        "guaranteed" if view.guaranteed else "not guaranteed",
        "resumable" if view.resumable else "not resumable",
        *(() if detail.preemptible else ("not preemptible",)),
        f"priority {view.priority}",
    ]
    limit = "no time limit" if detail.time_limit_s is None else duration_text(detail.time_limit_s)
    retries = several(detail.retries, "retry", "retries")
    retries = f"at most {retries}" if detail.retries else retries
    if detail.retries and not detail.retry_unknown:
        retries += " of transient failures"
    return [
        ("command", command_text(view.command)),
        ("workdir", _workdir(detail)),
        ("code", _code(detail)),
        ("checkpoints", _of_attempts(recent, lambda run: [run.fallback] if run.fallback else [])),
        ("ranks", _of_attempts(recent, lambda run: run.replaced)),
        ("env", "\n".join(shown)),
        ("secrets", ", ".join(plain(name) for name in detail.secrets)),
        ("device type", plain(detail.device_type)),
        ("model", plain(view.model)),
        ("kind", ", ".join(kinds)),
        ("limits", f"{limit}, grace {duration_text(detail.grace_s)}, {retries}"),
        ("host", _host(detail, peak=peak)),
        ("GPU memory", "" if detail.gpu_memory_gib is None else gib_text(detail.gpu_memory_gib)),
        ("sharing", _sharing(detail)),
        ("resizing", _resizing(detail)),
        ("pausing", _pausing(detail)),
        ("after", ", ".join(plain(job) for job in detail.after)),
        ("after any", ", ".join(plain(job) for job in detail.after_any)),
        ("log", _log(detail)),
    ]


def _log(detail: JobDetail) -> str:
    at = detail.logs_pruned_at
    return "" if at is None else f"pruned on {date_text(at)}"


def _host(detail: JobDetail, *, peak: bool) -> str:
    """Host memory and cores that it asked for, and the most memory that it used."""
    parts = []
    for name, value, text in (
        ("memory", detail.memory_gib, f"memory {gib_text(detail.memory_gib or 0)}"),
        ("cpus", detail.cpus, f"{detail.cpus or 0:g} cores"),
    ):
        if value is not None:
            parts.append(text + ("" if name in detail.enforced else " (not enforced here)"))
    peaks = [run.memory_peak_gib for run in detail.attempts if run.memory_peak_gib is not None]
    if peaks and peak:
        parts.append(f"peak {gib_text(max(peaks))}")
    kills = detail.attempts[-1].memory_kills if detail.attempts else 0
    if kills:
        parts.append(f"{several(kills, 'process was', 'processes were')} killed for memory")
    return ", ".join(parts)


def _sharing(detail: JobDetail) -> str:
    if detail.alone_because:
        return f"none: {plain(detail.alone_because)}"
    if detail.exclusive:
        return "none: exclusive"
    beside = detail.job.beside
    spells = [spell for run in detail.attempts for spell in run.company]
    # Jobs that met for a moment, while one was starting or leaving, did not share.
    past = [_shared(spell) for spell in spells if not spell.lasts and spell.seconds >= SPELL_MIN_S]
    now = [spell for spell in spells if spell.lasts]
    if beside and not now:  # The other is being launched.
        now = [CompanyView(jobs=beside, seconds=0.0)]
    past += [f"now {_shared(spell)}" for spell in now]
    return "\n".join(past[-SPELLS_MAX:])


def _shared(spell: CompanyView) -> str:
    """with job 3 for 12m, at 83% of its speed alone"""
    text = f"with {plain(named_jobs(spell.jobs, BESIDE_MAX))}"
    if spell.seconds >= SPELL_MIN_S:
        text += f" for {short_span(spell.seconds)}"
    if spell.relative is None:
        return text
    part = "about" if spell.relative >= 1.0 else f"{share(spell.relative)} of"
    return f"{text}, at {part} its speed alone"


def _resizing(detail: JobDetail) -> str:
    if not detail.changes:
        return ""
    last = "" if detail.stall_s is None else f", stalled {detail.stall_s:.2f} s last time"
    restart = f"; a restart takes about {span(detail.restart_s)}" if detail.restart_s else ""
    return f"without a restart{last}{restart}"


def _pausing(detail: JobDetail) -> str:
    """How its running attempt can be paused."""
    if detail.not_paused:
        return f"refused: {plain(detail.not_paused)}"
    frees = Pause.SUSPENDED in detail.pauses
    how = "frozen, or suspended, which frees its GPU memory" if frees else "frozen"
    return how if detail.pauses else ""


def _code(detail: JobDetail) -> str:
    code = detail.code
    if code is None or not code.commit:
        return ""
    branch = f" on {plain(code.branch)}" if code.branch else ""
    lines = several(_changed_lines(code.diff), "changed line")
    changed = f", with {lines}" if code.dirty else ""
    if code.cut and not code.diff:
        changed = ", with changes too large to record" if code.dirty else "; changes are not known"
    return f"{plain(code.commit[:12])}{branch}{changed}"


def _changed_lines(diff: str) -> int:
    """Lines that were added or removed, without what git says around them."""
    count, in_part = 0, False
    for line in diff.splitlines():
        if line.startswith("@@"):
            in_part = True
        elif line.startswith("diff "):
            in_part = False
        else:
            count += in_part and line.startswith(("+", "-"))
    return count


def _workdir(detail: JobDetail) -> str:
    """The folder it was submitted from, and copies of it in which attempts ran."""
    copies = dict.fromkeys(folder for run in detail.attempts for folder in run.workdirs)
    return "\n".join([plain(detail.workdir), *(f"run in a copy: {plain(each)}" for each in copies)])


def _of_attempts(detail: JobDetail, said: Callable[[AttemptView], Iterable[str]]) -> str:
    return "\n".join(
        f"attempt {run.number}: {plain(text)}" for run in detail.attempts for text in said(run)
    )


def _failure(failure: FailureView) -> list[tuple[str, str]]:
    return [
        ("failure", f"{plain(failure.sentence)} ({failure.kind}, rule {plain(failure.rule)})"),
        ("evidence", plain(failure.evidence)),
        ("advice", plain(failure.advice)),
    ]


def _attempt(run: AttemptView, state: State, now: float) -> list[str]:
    how = plain(run.told)
    if run.failure:
        retried = "; retried" if run.failure.retried else ""
        sentence = plain(run.failure.sentence)
        how = f"{sentence.removesuffix('.')}{retried}" if retried else sentence
    elif run.ended_at is None and run.lost:
        nodes = "node" if len(run.lost) == 1 else "nodes"
        how = f"{nodes} {plain(listed(run.lost, BESIDE_MAX))} lost, being ended"
    begun = run.started_at > 0
    runs = "paused" if state is State.PAUSED else "running"
    return [
        str(run.number),
        ", ".join(plain(device) for device in run.devices),
        ago(run.started_at, now) if begun else "not yet",
        short_span((run.ended_at or now) - run.started_at - run.paused_s) if begun else "",
        "" if run.code is None else str(run.code),
        how or ((runs if begun else "starting") if run.ended_at is None else ""),
    ]
