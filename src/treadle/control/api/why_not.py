"""Why a job is not on a device: what is true of the device first, then of the job."""

from treadle.control.api.context import Context
from treadle.control.api.why_holding import NAMED_MAX
from treadle.control.api.why_waiting import reason
from treadle.control.jobs import JobRecord
from treadle.core.cluster import Device
from treadle.core.device_types import has_memory, may_use
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.wording import devices, named_jobs, span
from treadle.wire.decisions import WhyNot
from treadle.wire.problems import UnknownNameError


def why_not(context: Context, record: JobRecord, name: str) -> WhyNot:
    device = _device(context, name)
    cause, because = _found(context, record, device)
    return WhyNot(job=record.id, device=str(device), cause=cause, because=because)


def _found(context: Context, record: JobRecord, device: Device) -> tuple[str, str]:
    scheduler = context.scheduler
    row = context.row(record.id)
    if row is None:
        return "ended", f"it has ended ({str(context.jobs.shown_state(record)).lower()})"
    if row.allocation is not None and device in row.allocation.devices:
        since = span(context.clock.now() - row.since_at)
        return "there", f"it is on {device}, and has been {row.phase} for {since}"
    if device in scheduler.closed:
        fact = context.closed.get(device)
        cause = fact.cause if fact is not None and fact.cause else "closed"
        return cause, f"{device} takes no new work: {scheduler.closed[device]}"
    if unlike := _other_type(context, row, device):
        return "type", unlike
    tenants = list(scheduler.tenancy.tenants.get(device, {}).values())
    finding = reason(context, record, row)
    text = f"{device} is free"
    if tenants:
        text = f"{device} is held by {named_jobs(tenants, NAMED_MAX)}"
        if not finding.never and (alone := _apart(context, row)):
            text += f"; {alone}"
    if row.phase is Phase.WAITING:
        return finding.cause, f"{text}, and the job waits: {finding.because}"
    if row.allocation is None:
        return "stopping", f"{text}, and the job is being stopped"
    own = ", ".join(map(str, row.allocation.devices[:NAMED_MAX]))
    if row.size > NAMED_MAX:
        own += ", ..."
    return "elsewhere", f"{text}; the job has {devices(row.size)} ({own}): {finding.because}"


def _apart(context: Context, row: Job) -> str:
    """Why it does not join those that run, where the policy says so."""
    if row.spec.exclusive:
        return "the job is exclusive and shares with none"
    if row.phase is not Phase.WAITING:
        return ""
    scheduler = context.scheduler
    return ""


def _other_type(context: Context, row: Job, device: Device) -> str:
    node = next(node for node in context.cluster.nodes if node.name == device.node)
    if row.only_on and node.name not in row.only_on:
        if row.only_on == row.spec.nodes:
            return f"its shell is on {', '.join(row.only_on[:NAMED_MAX])}"
        return f"its files are on {', '.join(row.only_on[:NAMED_MAX])} and cannot be copied"
    needs = row.spec.device_memory_gib
    if may_use(row, node):
        return ""
    if has_memory(node, needs):
        words = " or ".join(row.spec.device_types)
        return f"{device} is of type {node.device_type}, and the job asks for {words}"
    return (
        f"it needs {needs:g} GiB of each GPU's memory and {device} has "
        f"{node.device_memory_gib:g} GiB"
    )


def _device(context: Context, name: str) -> Device:
    node, _, number = name.rpartition(":")
    there = {each.name: each.device_count for each in context.cluster.nodes}
    if number.isascii() and number.isdigit() and int(number) < there.get(node, 0):
        return Device(node, int(number))
    raise UnknownNameError(f"there is no device {name!r}", hint="treadle nodes lists all")
