"""Finds jobs and arrays by what people type: an id, or a name."""

import re
from collections.abc import Iterable, Sequence

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord, record_of
from treadle.store.rows import JobFilter
from treadle.store.store import Store
from treadle.wire.problems import InvalidRequestError, NotFoundError, RequestError

_IDENTITY = re.compile(r"\d{1,19}(_\d{1,19})?", re.ASCII)
_SHOWN = 5  # ids of jobs with the same name


async def found(context: Context, names: Iterable[str]) -> dict[str, JobRecord | RequestError]:
    """The job of each id or name, or why there is none.

    What is in memory is found without the store, which may not answer. An id comes before a name,
    an active job before one that has ended, and of ended ones the newest counts.
    """
    answers: dict[str, JobRecord | RequestError] = {}
    absent: list[str] = []
    for name in dict.fromkeys(names):
        record = context.jobs.record(name)
        if record is None:
            absent.append(name)
        else:
            answers[name] = record
    if ids := [name for name in absent if _IDENTITY.fullmatch(name)]:
        rows = await context.reads.ask(lambda store: store.jobs_by_id(ids))
        answers |= {row.id: record_of(row) for row in rows}
    answers |= _active(context, [name for name in absent if name not in answers])
    if left := [name for name in absent if name not in answers]:
        answers |= await context.reads.ask(lambda store: _ended(store, left))
    return answers


async def array_called(context: Context, word: str) -> str:
    """The array that has this id, or this name; empty if there is none, or a job is meant.

    As of jobs: an id comes before a name, an active one before one that has ended, and of ended
    ones the newest counts. A name stands for an array if no other active job has it.
    """
    jobs = context.jobs
    if word in jobs.arrays:
        return word
    if not word or jobs.record(word) is not None:
        return ""
    if _IDENTITY.fullmatch(word):
        known = await context.reads.ask(lambda store: _known_array(store, word))
        if known is not None:
            return known
    named = {record.array or record.id for record in jobs.records.values() if record.name == word}
    if named:
        only = next(iter(named))
        return only if len(named) == 1 and only in jobs.arrays else ""
    rows = await context.reads.ask(lambda store: store.jobs(JobFilter(name=word), limit=1))
    return rows[0].array if rows else ""


def _known_array(store: Store, identity: str) -> str | None:
    """An array by its id; empty if it is the id of a job, None if of nothing."""
    if store.job(identity) is not None:
        return ""
    return identity if store.jobs(JobFilter(array=identity), limit=1) else None


def _active(context: Context, names: Sequence[str]) -> dict[str, JobRecord | RequestError]:
    wanted = frozenset(names) - {""}
    if not wanted:
        return {}
    named: dict[str, list[JobRecord]] = {}
    for record in context.jobs.records.values():
        if record.name in wanted:
            named.setdefault(record.name, []).append(record)
    return {
        name: records[0] if len(records) == 1 else _several(name, records)
        for name, records in named.items()
    }


def _several(name: str, records: Sequence[JobRecord]) -> RequestError:
    ids = ", ".join(record.id for record in records[:_SHOWN])
    return InvalidRequestError(f"{len(records)} jobs are called {name!r}; give an id ({ids} ...)")


def _ended(store: Store, names: Sequence[str]) -> dict[str, JobRecord | RequestError]:
    answers: dict[str, JobRecord | RequestError] = {}
    for name in names:
        rows = store.jobs(JobFilter(name=name), limit=1) if name else []
        missing = NotFoundError(f"there is no job {name[:80]!r}", hint="treadle ps -a lists all")
        answers[name] = record_of(rows[0]) if rows else missing
    return answers
