"""How busy the devices of attempts are that still run: the store hears of it when they end."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.jobs import AttemptKey, id_of
from treadle.wire.machine import UsageRow

Busy = Mapping[AttemptKey, float]  # mean share of time in which their devices worked


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
