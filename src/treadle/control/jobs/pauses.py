"""What the record of a job keeps of its pauses: since when, how, by whom, where its memory is.

Time in which a job is paused is no time of its attempt: the moment at which that began moves on by
it, so that limits, speeds and sums count running time alone.
"""

from dataclasses import replace

from treadle.control.jobs.records import JobRecord
from treadle.core.actions import Change
from treadle.core.events import JobHeld, JobPaused, JobReleased, JobStarted
from treadle.wire.jobs import PauseView


def pause_ordered(record: JobRecord, order: Change, *, now: float, at: float, asked: bool) -> None:
    """It computes until it reports that it is paused.

    asked: somebody put it on hold.
    """
    how = order.allocation.paused
    assert how is not None, "the order pauses it"
    if record.pause is None:
        record.paused_s = now
    record.pause = PauseView(
        how=how,
        since_at=at if record.pause is None else record.pause.since_at,
        by=record.held_by if asked else "",
        for_job="" if asked else order.for_job,
        devices=tuple(map(str, order.allocation.devices)),
    )
    record.launched[order.id] = record.running


def has_paused(record: JobRecord, fact: JobPaused, *, now: float, at: float) -> None:
    """It computes no more. It may have been told to go on, and could not."""
    pause = record.pause
    if pause is None:
        return
    since_at, memory_gib = pause.since_at, fact.memory_gib
    if not fact.refused:
        record.paused_s, since_at = now, at
    elif memory_gib is None:
        memory_gib = pause.memory_gib
    record.pause = replace(
        pause, how=fact.how, since_at=since_at, memory_gib=memory_gib, stuck=fact.refused
    )


def goes_on(record: JobRecord, fact: JobStarted, now: float) -> float:
    """It computes again, or could not be paused; for how long it did not."""
    away_s = 0.0 if record.paused_s is None else max(0.0, now - record.paused_s)
    if record.began_s is not None:
        record.began_s += away_s
    record.away_s += away_s
    record.pause, record.paused_s, record.not_paused = None, None, fact.refused
    return away_s


def away_s(record: JobRecord, now: float) -> float:
    """For how long the newest attempt was paused by now, in all."""
    return record.away_s + (0.0 if record.paused_s is None else max(0.0, now - record.paused_s))


def ran_until(record: JobRecord, until_s: float) -> float:
    """For how long the newest attempt has run, by the run's own clock."""
    assert record.began_s is not None, "it has begun"
    paused_s = until_s if record.paused_s is None else record.paused_s
    return max(0.0, min(until_s, paused_s) - record.began_s)


def held(record: JobRecord, fact: JobHeld | JobReleased) -> None:
    """Somebody put it on hold; a paused job stays paused then."""
    if isinstance(fact, JobReleased):
        return
    record.held_by = fact.by
    if record.pause is not None and fact.by:
        record.pause = replace(record.pause, by=fact.by, for_job="", stuck="")
