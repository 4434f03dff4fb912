"""The rows of attempts: ordered, started, ended, or unused because nothing of them ran."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from treadle.control.jobs.job_table import nodes_in
from treadle.control.jobs.records import JobRecord, attempt_body, attempt_of
from treadle.core.actions import Change, Start
from treadle.core.events import AttemptEnded, JobStarted, RankReplaced
from treadle.core.job import JobId
from treadle.core.sighting import Sighting
from treadle.core.wording import listed
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import UNUSED, AttemptView, CompanyView, FailureView

NONCE_BYTES = 8
NAMED_MAX = 3
STARTED_OVER = "it started from the beginning: its checkpoints are on"
CLOCK_SLACK_S = 1.0  # a difference between two clocks that is not a change of the clock


def nonce_of(run: str, order: Start | Change) -> str:
    """What tells the attempt that an order may begin from any other; empty if no run id is known.

    A number is given again if nothing of the attempt ran, or a backup was restored; a nonce never.
    """
    if not run:
        return ""
    return blake2b(f"{run}/{order.job}/{order.id}".encode(), digest_size=NONCE_BYTES).hexdigest()


def opened(record: JobRecord, order: Start | Change, run: str) -> AttemptRow:
    """An attempt that an order may begin; nothing of it runs if one that runs changes instead."""
    devices = tuple(map(str, order.allocation.devices))
    view = AttemptView(number=record.attempts, devices=devices, started_at=0.0)
    return AttemptRow(
        job=record.id,
        number=record.attempts,
        action=order.id,
        owner=record.owner,
        tenant=record.tenant,
        devices=devices,
        started_at=None,
        ended_at=None,
        busy=None,
        failed=False,
        body=attempt_body(view),
        nonce=nonce_of(run, order),
    )


def started(
    row: AttemptRow, fact: JobStarted, at: float, lost_on: tuple[str, ...] = ()
) -> AttemptRow:
    """lost_on: the nodes that had the checkpoints of its job, and were lost."""
    over = lost_on and nodes_in(row.devices).isdisjoint(lost_on)
    view = replace(
        attempt_of(row.body),
        started_at=at,
        fallback=f"{STARTED_OVER} {listed(lost_on, NAMED_MAX)}, lost before" if over else "",
        workdirs=tuple(f"{node}:{folder}" for node, folder in fact.workdirs),
    )
    return row._replace(started_at=at, body=attempt_body(view))


def with_replaced(row: AttemptRow, fact: RankReplaced) -> AttemptRow:
    """An attempt that lost a rank that was killed."""
    view = attempt_of(row.body)
    replaced = (*view.replaced, replaced_text(fact.rank, fact.code))
    return row._replace(body=attempt_body(replace(view, replaced=replaced)))


def replaced_text(rank: int, code: int) -> str:
    """How a rank was killed while its job went on."""
    number = code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"rank {rank} was killed by {name}, and another took its place"


def moved(row: AttemptRow, devices: tuple[str, ...]) -> AttemptRow:
    """An attempt that changed its devices without a restart."""
    view = replace(attempt_of(row.body), devices=devices, started_at=row.started_at or 0.0)
    return row._replace(devices=devices, body=attempt_body(view))


def with_loss(row: AttemptRow, node: str) -> AttemptRow:
    """An attempt that lost a node."""
    view = attempt_of(row.body)
    lost = tuple(dict.fromkeys((*view.lost, node)))  # It may be told twice.
    return row._replace(body=attempt_body(replace(view, lost=lost)))


def closed(
    row: AttemptRow, ended: AttemptEnded, failure: FailureView | None, at: float, *, away_s: float
) -> AttemptRow:
    """An attempt that ended; `at` counts where its supervisor could not say when.

    away_s: for how long it was paused. What is charged is counted from that much later.
    """
    ended_at = at if ended.ended_at is None else ended.ended_at
    started_at = row.started_at if row.started_at is not None else ended.started_at
    there_s = (ended.ran_s or 0.0) + away_s
    if started_at is not None and abs(ended_at - started_at - there_s) > CLOCK_SLACK_S:
        started_at = ended_at - there_s  # The wall clock was set meanwhile.
    before = attempt_of(row.body)
    view = AttemptView(
        number=row.number,
        devices=row.devices,
        started_at=ended_at if started_at is None else started_at,
        ended_at=ended_at,
        paused_s=away_s,
        code=ended.code,
        told=ended.how.shown,
        failure=failure,
        memory_peak_gib=_peak_gib(ended),
        memory_kills=ended.memory_kills,
        company=company_views(ended.seen),
        lost=before.lost,
        fallback=before.fallback,
        workdirs=before.workdirs,
        replaced=before.replaced,
    )
    return row._replace(
        busy=ended.busy,
        started_at=None if started_at is None else started_at + away_s,
        ended_at=ended_at,
        failed=failure is not None and not ended.node_lost,
        body=attempt_body(view),
    )


def company_views(seen: Sighting | None, beside: Sequence[JobId] = ()) -> tuple[CompanyView, ...]:
    """With which jobs it shared its devices, and how fast it was; beside: those there now."""
    return tuple(
        CompanyView(
            jobs=spell.jobs,
            seconds=spell.seconds,
            # No job is faster while it shares: what is above 1 is the noise of both measurements.
            relative=None if spell.relative is None else min(1.0, spell.relative),
            lasts=set(spell.jobs) == set(beside),
        )
        for spell in (() if seen is None else seen.company)
    )


def _peak_gib(ended: AttemptEnded) -> float | None:
    """The highest that was seen: what its supervisor counts may miss processes of its own."""
    seen = None if ended.seen is None else ended.seen.memory_peak_gib
    return max((peak for peak in (ended.memory_peak_gib, seen) if peak is not None), default=None)


def cut(row: AttemptRow, at: float) -> AttemptRow:
    """An attempt whose end was not heard before its job had ended."""
    view = replace(attempt_of(row.body), ended_at=at)
    return row._replace(ended_at=at, body=attempt_body(view))


def unused(row: AttemptRow, at: float) -> AttemptRow:
    """An attempt of which nothing ran: people do not see it."""
    view = AttemptView(
        number=row.number,
        devices=row.devices,
        started_at=at,
        ended_at=at,
        told=UNUSED,
    )
    return row._replace(ended_at=at, body=attempt_body(view))


def failure_of(fact: AttemptEnded, *, retried: bool) -> FailureView | None:
    """Why it failed, as far as its output says."""
    verdict = fact.verdict
    if verdict is None:
        return None
    return FailureView(
        kind=verdict.kind,
        rule=verdict.rule,
        sentence=verdict.sentence,
        advice=verdict.advice,
        evidence=fact.error or verdict.evidence,
        more=verdict.more,
        retried=retried,
    )
