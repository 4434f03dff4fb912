"""With which jobs an attempt shares its devices, and for how long: from starts and ends alone.

What is measured of jobs cannot tell: a job is not looked at before its first step, nor while no
controller runs. Starts and ends are facts with moments of their own, so both sides of a spell have
the same length, and a restart of the controller loses nothing: spells are in the attempts' rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.jobs.job_table import AttemptKey, JobTable
from treadle.control.jobs.records import attempt_body, attempt_of
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.core.sighting import Sighting
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import CompanyView

SPELLS_MAX = 32  # of one attempt, the newest


class Moved(NamedTuple):
    """An attempt came to its devices or left them."""

    at: float  # seconds since 1970
    attempt: AttemptKey


def follow_company(jobs: JobTable, scheduler: Scheduler, moves: Iterable[Moved]) -> None:
    """Begin and end spells in company, in the order in which it happened.

    Facts of one step may be about moments far apart: while no controller ran, several jobs ended.
    """
    in_order = sorted(moves)
    ended = {move.attempt.job: move.attempt for move in in_order if move.attempt not in jobs.open}
    for move in in_order:
        row = jobs.attempt(move.attempt)
        if row is None:
            continue
        before = set(_present(row))
        after = set(_on_its_devices(jobs, scheduler, row)) if row.ended_at is None else set()
        _put(jobs, row, after, move.at)
        for other in before ^ after:
            found = _row_of(jobs, other, ended)
            if found is not None:
                present = set(_present(found))
                present = present - {row.job} if other in before else present | {row.job}
                _put(jobs, found, present, move.at)


def as_shown(
    spells: Sequence[CompanyView], seen: Sighting | None, now: float | None = None
) -> tuple[CompanyView, ...]:
    """Spells with the speeds that were measured in them. now: the end of one that lasts."""
    measured = {} if seen is None else {spell.jobs: spell.relative for spell in seen.company}
    return tuple(
        replace(
            spell,
            relative=measured.get(spell.jobs, spell.relative),
            seconds=spell.seconds if now is None else _lasted(spell, now),
        )
        for spell in spells
    )


def _present(row: AttemptRow) -> tuple[JobId, ...]:
    """The jobs that it shares its devices with."""
    return next((s.jobs for s in attempt_of(row.body).company if s.since_at is not None), ())


def _on_its_devices(jobs: JobTable, scheduler: Scheduler, row: AttemptRow) -> Iterator[JobId]:
    job, held = scheduler.jobs.get(row.job), frozenset(row.devices)
    devices = () if job is None or job.allocation is None else job.allocation.devices
    tenants = (scheduler.tenancy.tenants.get(device, {}) for device in devices)
    for other in {name for turns in tenants for name in turns.values()} - {row.job}:
        found = _row_of(jobs, other, {})
        if found is not None and not held.isdisjoint(found.devices):
            yield other


def _row_of(
    jobs: JobTable, identity: JobId, ended: Mapping[JobId, AttemptKey]
) -> AttemptRow | None:
    """The attempt at a job that runs, or that ended in the same step."""
    record = jobs.record(identity)
    if record is None:
        return None
    row = jobs.open.get(AttemptKey(identity, record.running))
    if row is not None and row.started_at is not None:
        return row
    return jobs.attempt(ended[identity]) if identity in ended else None


def _put(jobs: JobTable, row: AttemptRow, others: set[JobId], at: float) -> None:
    view = attempt_of(row.body)
    if set(_present(row)) == others:
        return
    spells = list(_over(view.company, at))
    if others:
        spells.append(CompanyView(jobs=tuple(sorted(others)), seconds=0.0, since_at=at))
    body = attempt_body(replace(view, company=tuple(spells[-SPELLS_MAX:])))
    jobs.put_attempt(row._replace(body=body))


def _over(spells: Sequence[CompanyView], at: float) -> Iterator[CompanyView]:
    """Spells of which none lasts; all in the same company are one."""
    total: dict[tuple[JobId, ...], CompanyView] = {}
    for spell in spells:
        seconds = _lasted(spell, at)
        if spell.jobs in total:
            seconds += total.pop(spell.jobs).seconds
        total[spell.jobs] = replace(spell, seconds=round(seconds, 1), since_at=None)
    return iter(total.values())


def _lasted(spell: CompanyView, at: float) -> float:
    return spell.seconds if spell.since_at is None else max(0.0, at - spell.since_at)
