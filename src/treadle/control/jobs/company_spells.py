"""With which jobs an attempt shares its devices, and for how long: from starts and ends alone.

What is measured of jobs cannot tell: a job is not looked at before its first step, nor while no
controller runs. Starts and ends are facts with moments of their own, so both sides of a spell have
the same length, and a restart of the controller loses nothing: spells are in the attempts' rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.jobs.job_table import AttemptKey, JobTable
from treadle.control.jobs.records import attempt_body, attempt_of
from treadle.core.cluster import Device
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
    """Begin and end spells of sharing, in the order in which it happened.

    Facts of one step may be about moments far apart: while no controller ran, several jobs ended.
    """
    step = _Step(jobs, scheduler, sorted(moves))
    for move in step.moves:
        row = jobs.attempt(move.attempt)
        if row is None:
            continue
        before, after = set(_present(row)), set(step.beside(row, move.at))
        _put(jobs, row, after, move.at)
        for other in before ^ after:
            found = step.row_of(other, move.at)
            if found is not None:
                present = set(_present(found))
                present = present - {row.job} if other in before else present | {row.job}
                _put(jobs, found, present, move.at)


class _Step:
    """Which attempts ran at a moment of the present step.

    The scheduler knows only who holds devices at its end. Attempts that ended in it are looked at
    besides, and those that start later in it are left out.
    """

    def __init__(self, jobs: JobTable, scheduler: Scheduler, moves: Sequence[Moved]) -> None:
        self.moves = moves
        self._jobs = jobs
        self._tenants, self._paused = scheduler.tenancy.tenants, scheduler.paused
        self._last = {move.attempt: move.at for move in moves}
        self._ended: dict[JobId, list[AttemptKey]] = defaultdict(list)
        self._left: dict[str, set[JobId]] = defaultdict(set)  # jobs that ended, by their devices
        for key in self._last:
            row = None if key in jobs.open else jobs.attempt(key)
            if row is not None:
                self._ended[row.job].append(key)
                for device in row.devices:
                    self._left[device].add(row.job)

    def beside(self, row: AttemptRow, at: float) -> Iterator[JobId]:
        """The jobs on its devices at that moment; none if it has ended by then."""
        if (row.ended_at is not None and row.ended_at <= at) or row.job in self._paused:
            return
        names: set[JobId] = set()
        for text in row.devices:
            node, _, number = text.rpartition(":")
            names.update(self._tenants.get(Device(node, int(number)), {}).values())
            names.update(self._left.get(text, ()))
        for other in names - {row.job}:
            found = self.row_of(other, at)
            if found is not None and not set(row.devices).isdisjoint(found.devices):
                yield other

    def row_of(self, identity: JobId, at: float) -> AttemptRow | None:
        """The attempt at a job that ran at that moment."""
        for key in self._ended.get(identity, ()):
            row = self._jobs.attempt(key)
            if row is not None and _ran(row, at):
                return row
        record = self._jobs.record(identity)
        key = AttemptKey(identity, 0 if record is None else record.running)
        row = self._jobs.open.get(key)
        if row is None or row.started_at is None:
            return None
        starts_later = row.started_at > at and self._last.get(key, at) > at
        return None if starts_later else row


def as_shown(
    spells: Sequence[CompanyView], seen: Sighting | None, now: float | None = None
) -> tuple[CompanyView, ...]:
    """Spells with the speeds that were measured in them. now: the end of one that lasts."""
    measured = {} if seen is None else {spell.jobs: spell.relative for spell in seen.company}
    return tuple(
        replace(
            spell,
            relative=_at_most_alone(measured.get(spell.jobs, spell.relative)),
            seconds=spell.seconds if now is None else _lasted(spell, now),
        )
        for spell in spells
    )


def _at_most_alone(relative: float | None) -> float | None:
    """No job is faster while it shares: what is above 1 is the noise of both measurements."""
    return None if relative is None else min(1.0, relative)


def _present(row: AttemptRow) -> tuple[JobId, ...]:
    """The jobs that it shares its devices with."""
    return next((s.jobs for s in attempt_of(row.body).company if s.since_at is not None), ())


def _ran(row: AttemptRow, at: float) -> bool:
    """Whether an attempt that has ended ran then."""
    if row.started_at is None or row.ended_at is None:
        return False
    return row.started_at <= at < row.ended_at


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
    """Spells that are all over; those with the same jobs are one."""
    total: dict[tuple[JobId, ...], CompanyView] = {}
    for spell in spells:
        seconds = _lasted(spell, at)
        if spell.jobs in total:
            seconds += total.pop(spell.jobs).seconds
        total[spell.jobs] = replace(spell, seconds=round(seconds, 1), since_at=None)
    return iter(total.values())


def _lasted(spell: CompanyView, at: float) -> float:
    return spell.seconds if spell.since_at is None else max(0.0, at - spell.since_at)
