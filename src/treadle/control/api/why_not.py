"""Why a job is not on a device: what is true of the device first, then of the job."""

from treadle.control.api.context import Context
from treadle.control.api.reasons import because
from treadle.control.api.sentences import Said
from treadle.control.api.why import reason
from treadle.control.jobs import JobRecord
from treadle.core.cluster import Device
from treadle.core.device_types import has_memory, may_use
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.wire.decisions import WhyNot
from treadle.wire.problems import UnknownNameError


def why_not(context: Context, record: JobRecord, name: str) -> WhyNot:
    said, device, row = Said(context), _device(context, name), context.row(record.id)
    found = because("ending") if row is None else _found(context, row, device)
    sentence = said.sentence(found)
    if row is not None and found.code == "not-yet":  # What keeps it from any device is the answer.
        found = reason(context, record, row)
        sentence = f"{sentence}, and the job waits: {said.sentence(found)}"
    numbers = dict(found.numbers)
    shown = str(device)
    return WhyNot(job=record.id, device=shown, code=found.code, numbers=numbers, sentence=sentence)


def _found(context: Context, row: Job, device: Device) -> Reason:
    scheduler, shown = context.scheduler, str(device)
    if row.allocation is not None and device in row.allocation.devices:
        since_s = context.clock.now() - row.since_at
        return because("there", device=shown, phase=str(row.phase), since_s=since_s)
    if device in scheduler.closed:
        return because("device-closed", device=shown, because=scheduler.closed[device])
    if unlike := _unlike(context, row, device):
        return unlike
    jobs = tuple(scheduler.tenancy.tenants.get(device, {}).values())
    exclusive = row.spec.exclusive
    if row.phase is Phase.WAITING:
        return because("not-yet", device=shown, jobs=jobs, exclusive=exclusive)
    own = () if row.allocation is None else tuple(map(str, row.allocation.devices))
    return because("elsewhere", device=shown, jobs=jobs, devices=own, exclusive=exclusive)


def _unlike(context: Context, row: Job, device: Device) -> Reason | None:
    """That the job cannot use such a device, or not this node."""
    node = next(node for node in context.cluster.nodes if node.name == device.node)
    if row.only_on and node.name not in row.only_on:
        shell = row.only_on == row.spec.nodes
        return because("files", device=str(device), nodes=row.only_on, shell=shell)
    if may_use(row, node):
        return None
    needs, has = row.spec.device_memory_gib, node.device_memory_gib
    if not has_memory(node, needs):
        return because("other-memory", device=str(device), has_gib=has, asked_gib=needs)
    asked = " or ".join(row.spec.device_types)
    return because("other-type", device=str(device), has=node.device_type, asked=asked)


def _device(context: Context, name: str) -> Device:
    node, _, number = name.rpartition(":")
    there = {each.name: each.device_count for each in context.cluster.nodes}
    if number.isascii() and number.isdigit() and int(number) < there.get(node, 0):
        return Device(node, int(number))
    raise UnknownNameError(f"there is no device {name!r}", hint="treadle nodes lists all")
