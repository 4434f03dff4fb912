"""The store's queries as SQL statements.

Limits and numbers that come from outside are brought into range here: a database would answer a
number beyond 64 bits with an error.
"""

from collections.abc import Sequence

from sqlalchemy import (
    Executable,
    Float,
    Text,
    and_,
    case,
    cast,
    func,
    or_,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.elements import ColumnElement

from treadle.store import schema
from treadle.store.check import WHOLE_MAX
from treadle.store.rows import AttemptRow, JobFilter

LIMIT_MAX = 1_000_000

_attempts = [schema.attempts.c[name] for name in AttemptRow._fields]
_order = (schema.jobs.c.number, schema.jobs.c.member)


def in_range(number: int) -> int:
    return max(-WHOLE_MAX, min(number, WHOLE_MAX))


def bounded(limit: int) -> int:
    return max(0, min(limit, LIMIT_MAX))


def active() -> Executable:
    return select(schema.jobs).where(schema.jobs.c.ended_at.is_(None)).order_by(*_order)


def job(identity: str) -> Executable:
    return select(schema.jobs).where(schema.jobs.c.id == identity)


def jobs_by_id(identities: Sequence[str]) -> Executable:
    return select(schema.jobs).where(schema.jobs.c.id.in_(list(identities)))


def jobs(wanted: JobFilter, *, before: tuple[int, int] | None, limit: int) -> Executable:
    table = schema.jobs
    query = select(table).order_by(table.c.number.desc(), table.c.member.desc())
    for column, value in (
        (table.c.owner, wanted.owner),
        (table.c.tenant, wanted.tenant),
        (table.c.array, wanted.array),
        (table.c.name, wanted.name),
    ):
        if value:
            query = query.where(column == value)
    if wanted.states:
        query = query.where(table.c.state.in_(list(wanted.states)))
    if wanted.ended is not None:
        ended = table.c.ended_at
        query = query.where(ended.is_not(None) if wanted.ended else ended.is_(None))
    if before is not None:
        query = query.where(tuple_(*_order) < tuple_(*map(in_range, before)))
    return query.limit(bounded(limit))


def attempts(identity: str) -> Executable:
    table = schema.attempts
    return select(*_attempts).where(table.c.job == identity).order_by(table.c.number)


def attempt(identity: str, number: int) -> Executable:
    table = schema.attempts
    return select(*_attempts).where(table.c.job == identity, table.c.number == in_range(number))


def open_attempts() -> Executable:
    table = schema.attempts
    order = (table.c.action, table.c.job, table.c.number)
    return select(*_attempts).where(table.c.ended_at.is_(None)).order_by(*order)


def attempts_between(since_at: float, until_at: float, *, limit: int) -> Executable:
    """Attempts that ran between two moments, those that began last first."""
    table = schema.attempts
    order = (table.c.started_at.desc(), table.c.job, table.c.number)
    return (
        select(*_attempts)
        .where(
            table.c.started_at < until_at,
            or_(table.c.ended_at.is_(None), table.c.ended_at > since_at),
        )
        .order_by(*order)
        .limit(bounded(limit))
    )


def lines_since(at: float, *, kinds: Sequence[str], limit: int) -> Executable:
    """The newest lines of some kinds, down to a moment, descending."""
    table = schema.journal
    query = select(table).where(table.c.wall_at >= at, table.c.kind.in_(list(kinds)))
    return query.order_by(table.c.id.desc()).limit(bounded(limit))


def lines(
    *, after: int, job: str, kinds: Sequence[str], limit: int, last: bool = False
) -> Executable:
    """Lines after an id, ascending; or the newest ones, descending."""
    table = schema.journal
    query = select(table).where(table.c.id > in_range(after))
    if job:
        query = query.where(table.c.job == job)
    if kinds:
        query = query.where(table.c.kind.in_(list(kinds)))
    order = table.c.id.desc() if last else table.c.id
    return query.order_by(order).limit(bounded(limit))


def unmeasured(after: tuple[int, int] | None, *, limit: int) -> Executable:
    """Ended jobs of which it is not known what they left on disk, the oldest first."""
    table, known = schema.jobs, schema.outputs
    query = (
        select(table.c.id, table.c.owner, table.c.ended_at, *_order)
        .outerjoin(known, known.c.job == table.c.id)
        .where(table.c.ended_at.is_not(None), known.c.job.is_(None))
        .order_by(*_order)
    )
    if after is not None:
        query = query.where(tuple_(*_order) > tuple_(*map(in_range, after)))
    return query.limit(bounded(limit))


def outputs(*, owner: str, after: tuple[float, str] | None, limit: int) -> Executable:
    """What ended jobs left and was not pruned, the oldest first."""
    table = schema.outputs
    there = and_(table.c.pruned_at.is_(None), table.c.bytes > 0)
    query = select(table).where(there).order_by(table.c.ended_at, table.c.job)
    if owner:
        query = query.where(table.c.owner == owner)
    if after is not None:
        query = query.where(tuple_(table.c.ended_at, table.c.job) > tuple_(*after))
    return query.limit(bounded(limit))


def output_bytes(owner: str) -> Executable:
    table = schema.outputs
    query = select(func.sum(table.c.bytes)).where(table.c.pruned_at.is_(None))
    return query.where(table.c.owner == owner) if owner else query


def ended_before(at: float, *, owner: str, limit: int) -> Executable:
    """Ended jobs, the oldest first."""
    table = schema.jobs
    query = select(table).where(table.c.ended_at < at)
    if owner:
        query = query.where(table.c.owner == owner)
    return query.order_by(*_order).limit(bounded(limit))


def with_diff(digest: str) -> Executable:
    """A job whose record names this difference of its code."""
    table = schema.jobs
    named = type_coerce(table.c.record, Text).contains(f'"diff":"{digest}"', autoescape=True)
    return select(table.c.id).where(named).limit(1)


def usage(since_at: float, until_at: float | None, *, now_at: float) -> Executable:
    """Device-seconds of each owner and tenant between two moments."""
    table = schema.attempts
    ends_at = now_at if until_at is None else until_at
    ended_at = func.coalesce(table.c.ended_at, now_at)
    first_at = _greater(table.c.started_at, since_at)
    last_at = case((ended_at < ends_at, ended_at), else_=ends_at)
    # If the clock was set back, an attempt may have ended before it began.
    seconds = case((last_at > first_at, last_at - first_at), else_=0.0)
    share = cast(table.c.device_count, Float) * seconds
    return (
        select(
            table.c.owner,
            table.c.tenant,
            func.count(table.c.job.distinct()),
            func.sum(share),
            # NULL times anything is NULL, and sums skip NULL.
            func.sum(share * table.c.busy),
            func.coalesce(func.sum(case((table.c.failed, share))), 0.0),
        )
        .where(
            and_(
                table.c.started_at < ends_at,
                or_(table.c.ended_at.is_(None), table.c.ended_at > since_at),
            )
        )
        .group_by(table.c.owner, table.c.tenant)
        .order_by(table.c.owner, table.c.tenant)
    )


def old_keys(before_at: float, *, limit: int) -> Executable:
    table = schema.keys
    return (
        select(table.c.owner, table.c.key)
        .where(table.c.made_at < before_at)
        .order_by(table.c.made_at)
        .limit(limit)
    )


def old_profiles(kept: int, *, limit: int) -> Executable:
    """Those that changed longest ago, beyond so many."""
    table = schema.profiles
    newest = select(table.c.key).order_by(table.c.changed_at.desc(), table.c.key.desc())
    return newest.offset(kept).limit(limit)


def old_tokens(before_at: float, *, limit: int) -> Executable:
    table = schema.tokens
    return select(table.c.id).where(table.c.expires_at < before_at).limit(limit)


def _greater(column: ColumnElement[float], value: float) -> ColumnElement[float]:
    return case((column > value, column), else_=value)
