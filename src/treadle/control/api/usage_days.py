"""Device-hours by day (UTC), user and tenant, and what of them was wasted, from the store.

How busy the devices of running attempts are is added: the store hears of it when they end.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.spells import KINDS, Machines, Now
from treadle.control.jobs import AttemptKey, id_of
from treadle.control.loop import wall
from treadle.store.rows import AttemptRow
from treadle.store.store import Store
from treadle.wire.machine import UsageRow
from treadle.wire.problems import InvalidRequestError
from treadle.wire.usage_days import DayTotal, UsageDayRow, UsageDays

DAY_S = 86_400.0
DAYS_MAX = 400  # whose sums are kept and given
ATTEMPTS_MAX = 50_000
ORDERS_MAX = 20_000
LINES_MAX = 2000
WITHIN_S = 60.0  # an order may be given so long before its job's processes run

Part = tuple[int, float]  # the day, counted from 1970, and the seconds in it
Busy = Mapping[AttemptKey, float]  # mean share of time in which their devices worked


class _Order(msgspec.Struct):
    id: int


_orders = msgspec.json.Decoder(_Order)


@dataclass(slots=True)
class _Sum:
    jobs: set[str] = field(default_factory=set)
    allocated_s: float = 0.0
    measured_s: float = 0.0
    used_s: float | None = None
    failed_s: float = 0.0
    idle_s: float | None = None
    restart_s: float = 0.0


async def usage_days(
    context: Context, fragmented: Mapping[str, float], since_at: float, until_at: float | None
) -> UsageDays:
    """fragmented: device-hours by day (fragmented.py)."""
    now_at = wall()
    until = now_at if until_at is None else min(until_at, now_at)
    since = max(since_at, until - DAYS_MAX * DAY_S)
    now = Now(tuple(context.cluster.nodes), {})
    busy = running_busy(context)
    span = since, until
    found = await context.reads.ask(lambda store: days_of(store, now, busy, span, now_at))
    # Of a day that is asked for in part, it is not known how much was in that part.
    cut = {date_of(int(at // DAY_S)) for at in span if at % DAY_S and at != now_at}
    known = {day: hours for day, hours in fragmented.items() if day not in cut}
    days = (replace(total, fragmented_h=known.get(total.day)) for total in found.days)
    return replace(found, days=tuple(days))


def days_of(
    store: Store, now: Now, busy: Busy, span: tuple[float, float], now_at: float
) -> UsageDays:
    """busy: how busy the devices of attempts are that still run."""
    since, until = span
    rows = store.attempts_between(since, until, limit=ATTEMPTS_MAX + 1)
    if len(rows) > ATTEMPTS_MAX:
        raise InvalidRequestError(
            f"more than {ATTEMPTS_MAX:,} attempts ran in that time",
            hint="ask for a shorter time with since_at and until_at",
        )
    orders = _order_moments(store, rows, since)
    sums: defaultdict[tuple[int, str, str], _Sum] = defaultdict(_Sum)
    for row in rows:
        assert row.started_at is not None, "only attempts that ran are asked for"
        devices = len(row.devices)
        ended_at = now_at if row.ended_at is None else row.ended_at
        share = busy.get(AttemptKey(row.job, row.number)) if row.ended_at is None else row.busy
        for day, seconds in parts(max(row.started_at, since), min(ended_at, until)):
            _add(sums[day, row.owner, row.tenant], row, seconds * devices, share)
        if orders is not None and (ordered_at := orders.get(row.action)) is not None:
            for day, seconds in parts(max(ordered_at, since), min(row.started_at, until)):
                sums[day, row.owner, row.tenant].restart_s += seconds * devices
    return UsageDays(
        rows=tuple(
            UsageDayRow(
                day=date_of(day),
                user=user,
                tenant=tenant,
                jobs=len(found.jobs),
                allocated_h=found.allocated_s / 3600.0,
                measured_h=found.measured_s / 3600.0,
                used_h=_hours(found.used_s),
                failed_h=found.failed_s / 3600.0,
                idle_h=_hours(found.idle_s),
                restart_h=None if orders is None else found.restart_s / 3600.0,
            )
            for (day, user, tenant), found in sorted(sums.items())
        ),
        days=tuple(_totals(store, now, since, until)),
    )


def _add(found: _Sum, row: AttemptRow, device_s: float, busy: float | None) -> None:
    """An hour is wasted for one cause: what a failed attempt held is not idle as well."""
    found.jobs.add(row.job)
    found.allocated_s += device_s
    found.failed_s += device_s if row.failed else 0.0
    if busy is not None:
        found.measured_s += device_s
        found.used_s = (found.used_s or 0.0) + device_s * busy
        idle = 0.0 if row.failed else max(0.0, 1.0 - busy)
        found.idle_s = (found.idle_s or 0.0) + device_s * idle


def _order_moments(
    store: Store, rows: Sequence[AttemptRow], since: float
) -> dict[int, float] | None:
    """When each later attempt was ordered; None if there are too many orders to look through."""
    again = {row.action for row in rows if row.number > 1}
    if not again:
        return {}
    lines = store.lines_since(since - WITHIN_S, kinds=("Start", "Change"), limit=ORDERS_MAX)
    if len(lines) == ORDERS_MAX:
        return None
    found = ((_orders.decode(line.body).id, line.wall_at) for line in lines)
    return {order: at for order, at in found if order in again}


def _totals(store: Store, now: Now, since: float, until: float) -> Iterator[DayTotal]:
    """How many device-hours there were, from when the store begins."""
    first = store.lines(0, limit=1)
    begin = max(since, first[0].wall_at if first else until)
    lines = store.lines_since(begin, kinds=KINDS, limit=LINES_MAX)
    known = len(lines) < LINES_MAX
    sums: defaultdict[int, float] = defaultdict(float)
    for node in Machines(now, lines).nodes:
        from_at = begin if node.from_at is None else max(begin, node.from_at)
        to_at = until if node.to_at is None else min(until, node.to_at)
        known = known and (node.devices > 0 or node.to_at is None)
        for day, seconds in parts(from_at, to_at):
            sums[day] += seconds * node.devices
    for day in sorted(sums):
        hours = sums[day] / 3600.0 if known else None
        yield DayTotal(day=date_of(day), capacity_h=hours)


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600.0


def running_busy(context: Context) -> Busy:
    """Of the attempts that run and are measured."""
    seen = context.learner.seen
    shares = {key: seen.busy(id_of(row)) for key, row in context.jobs.open.items()}
    return {key: share for key, share in shares.items() if share is not None}


def with_running(
    context: Context, rows: Sequence[UsageRow], since_at: float, until_at: float
) -> tuple[UsageRow, ...]:
    """Sums of the store, with what running attempts used until then."""
    used_h: defaultdict[tuple[str, str], float] = defaultdict(float)
    for key, busy in running_busy(context).items():
        row = context.jobs.open[key]
        if row.started_at is not None and (ran_s := until_at - max(row.started_at, since_at)) > 0:
            used_h[row.owner, row.tenant] += busy * ran_s * len(row.devices) / 3600.0
    return tuple(
        replace(row, used_h=(row.used_h or 0.0) + used_h[row.user, row.tenant])
        if (row.user, row.tenant) in used_h
        else row
        for row in rows
    )


def parts(from_at: float, to_at: float) -> Iterator[Part]:
    """A span of time, cut at midnight UTC."""
    while from_at < to_at:
        day = int(from_at // DAY_S)
        end = min(to_at, (day + 1) * DAY_S)
        yield day, end - from_at
        from_at = end


def date_of(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
