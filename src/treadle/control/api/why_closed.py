"""Why a job waits: devices that it could use take no new work."""

from collections.abc import Iterable

from treadle.control.api.context import Context
from treadle.control.api.queue_order import (
    closed_devices,
    closed_idle,
    device_count,
    free_devices,
    free_text,
)
from treadle.control.api.why_holding import NAMED_MAX, Finding
from treadle.core.cluster import Device
from treadle.core.job import Job
from treadle.core.wording import are, devices


def on_closed(context: Context, row: Job) -> Finding | None:
    """Enough devices are idle, but some of them are closed; or too few are left open."""
    scheduler, least = context.scheduler, row.spec.sizes[0]
    free = free_devices(scheduler, row)
    idle = closed_idle(scheduler, row)
    if not free < least <= free + len(idle):
        return _too_few_open(context, row)
    count = len(idle)
    if free:
        have = (
            f"{free_text(scheduler, row)} and {'one' if count == 1 else count} more cannot be used"
        )
    else:
        have = "the only idle one" if count == 1 else f"{count} idle ones"
        have += " cannot be used"
    shown = _once(scheduler.closed[device] for device in idle[:NAMED_MAX])
    opening = _once(_opening(context, device) for device in idle[: least - free][:NAMED_MAX])
    return Finding("closed", f"it needs {devices(least)}; {have}: {shown}", opening)


def _too_few_open(context: Context, row: Job) -> Finding | None:
    """It would wait though all jobs ended."""
    scheduler, least = context.scheduler, row.spec.sizes[0]
    shut, count = closed_devices(scheduler, row), device_count(scheduler, row)
    left = count - len(shut)
    if not left < least <= count:
        return None
    said = _once(context.scheduler.closed[device] for device in shut[:NAMED_MAX])
    opening = _once(_opening(context, device) for device in shut[: least - left][:NAMED_MAX])
    only = f"only {left} of {count} {are(left)}" if left else f"none of {count} is"
    return Finding("closed", f"it needs {devices(least)}; {only} open: {said}", opening)


def _once(sentences: Iterable[str]) -> str:
    """Devices may be closed for one reason, which is that of their node."""
    return "; ".join(dict.fromkeys(sentences))


def _opening(context: Context, device: Device) -> str:
    """How a closed device is opened again."""
    said = _OPENED.get(_cause(context, device), _FREED)
    return said.format(device=device, node=device.node)


_FREED = "{device} opens again as soon as the foreign process has left it"
_OPENED = {
    "avoided": "treadle device {device} manage (for admins) opens it again",
    "excluded": "treadle device {device} manage (for admins) opens it for this run",
    "machine": "{device} opens again as soon as its machine can launch jobs",
    "unseen": "{device} opens again as soon as its driver answers",
    "silent": "node {node} is used again as soon as its agent answers",
    "unconfirmed": "node {node} is used again as soon as its cluster confirms it",
    "stuck": "{device} opens again as soon as that process is gone",
    "quarantined": "treadle device {device} unquarantine (for admins), once it is clean",
}


def _cause(context: Context, device: Device) -> str:
    fact = context.closed.get(device)
    return "" if fact is None else fact.cause
