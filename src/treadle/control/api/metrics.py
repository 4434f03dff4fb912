"""Metrics for monitoring, by the names that docs/operations.md lists, in base units."""

from collections import Counter
from collections.abc import Mapping

from treadle.control.api.context import Context
from treadle.control.api.node_views import node_views
from treadle.core.lifecycle import Phase
from treadle.version import __version__
from treadle.wire.jobs import State

Figure = tuple[str, Mapping[str, str], float]


def metrics(context: Context) -> tuple[Figure, ...]:
    """All of them at this moment."""
    scheduler, charge = context.scheduler, context.charge
    states = Counter(record.state for record in context.jobs.records.values())
    all_devices = [device for node in node_views(context) for device in node.devices]
    rows: list[Figure] = [
        ("treadle_jobs", {"state": state}, float(states.get(state, 0)))
        for state in State
        if not state.ended
    ]
    devices = Counter(device.state for device in all_devices)
    rows += [
        ("treadle_devices", {"state": state}, float(devices.get(state, 0)))
        for state in (
            "free",
            "held",
            "foreign",
            "quarantined",
            "avoided",
            "paused",
            "silent",
            "unconfirmed",
        )
    ]
    for device in all_devices:
        labels = {"device": device.name}
        if device.memory_used_gib is not None:
            used = device.memory_used_gib * 2**30
            rows.append(("treadle_device_memory_used_bytes", labels, used))
        if device.busy is not None:
            rows.append(("treadle_device_busy_ratio", labels, device.busy))
    now = context.clock.now()
    waits = [now - job.since_at for job in scheduler.jobs.values() if job.phase is Phase.WAITING]
    rows += [
        ("treadle_longest_wait_seconds", {}, max(waits, default=0.0)),
        ("treadle_decision_seconds", {"of": "last"}, charge.last_s),
        ("treadle_decision_seconds", {"of": "longest"}, charge.longest_s),
        ("treadle_decision_cpu_seconds_total", {}, charge.cpu_s),
        ("treadle_decisions_total", {}, float(scheduler.decisions)),
        ("treadle_orders_total", {}, float(scheduler.counters.order)),
        ("treadle_journal_lines_total", {}, float(context.commit.last_line)),
        (
            "treadle_store_failing",
            {},
            float(bool(context.condition.store_error or context.condition.store_silent)),
        ),
        ("treadle_policy_failing", {}, float(bool(charge.failing))),
        ("treadle_build_info", {"version": __version__, "policy": charge.policy}, 1.0),
    ]
    return tuple(rows)
