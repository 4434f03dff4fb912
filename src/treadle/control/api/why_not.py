"""Why a job is not on a device: what is true of the device first, then of the job."""

from dataclasses import replace

from treadle.control.api.context import Context
from treadle.control.api.node_views import device_called
from treadle.control.api.sentences import Said
from treadle.control.api.why import reason
from treadle.control.jobs import JobRecord
from treadle.core.cluster import Device
from treadle.core.device_types import has_memory, may_use
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason, because
from treadle.wire.decisions import WhyNot


def why_not(context: Context, record: JobRecord, name: str) -> WhyNot:
    said, row = Said(context), context.row(record.id)
    device = device_called(name, context.cluster.nodes)
    found = because("ending") if row is None else _found(context, row, device)
    answer = WhyNot(job=record.id, device=str(device), **said.spoken(found))
    if row is None or found.code != "not-yet":
        return answer
    own = said.spoken(reason(context, record, row))  # What keeps it from any device.
    sentence = f"{answer.sentence}, and the job waits: {own['sentence']}"
    return replace(answer, code=own["code"], numbers=own["numbers"], sentence=sentence)


def _found(context: Context, row: Job, device: Device) -> Reason:
    scheduler, shown = context.scheduler, str(device)
    held = () if row.allocation is None else row.allocation.devices
    if device in held:
        since_s = context.clock.now() - row.since_at
        return because("there", device=shown, phase=str(row.phase), since_s=since_s)
    if device in scheduler.closed:
        return because("device-closed", device=shown, because=scheduler.closed[device])
    if unlike := _unlike(context, row, device):
        return unlike
    jobs = tuple(scheduler.tenancy.tenants.get(device, {}).values())
    found = because("not-yet", device=shown, jobs=jobs, exclusive=row.spec.exclusive)
    if row.phase is Phase.WAITING:
        return found
    return because("elsewhere", **found.numbers, devices=tuple(map(str, held)))


def _unlike(context: Context, row: Job, device: Device) -> Reason | None:
    """That the job cannot use such a device, or not this node."""
    node = next(each for each in context.cluster.nodes if each.name == device.node)
    if row.only_on and node.name not in row.only_on:
        by = row.only_because
        return because("files", device=str(device), nodes=row.only_on, by=by)
    if may_use(row, node):
        return None
    needs, has = row.spec.device_memory_gib, node.device_memory_gib
    if not has_memory(node, needs):
        return because("other-memory", device=str(device), has_gib=has, asked_gib=needs)
    asked = " or ".join(row.spec.device_types)
    return because("other-type", device=str(device), has=node.device_type, asked=asked)
