"""What a user may change of a job, and the facts that this becomes.

Name and priority can change while a job runs; devices, tenant and time limit only while it waits:
what runs was started with them.
"""

from dataclasses import asdict, replace

from treadle.control.api.context import Context
from treadle.control.api.nodes_away import whole_cluster
from treadle.control.jobs import Fact, JobRecord, checked, most_of_a_type, question_about
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobUpdated
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.journal.facts import JobEdited
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.notation import sizes_of
from treadle.wire.problems import ConflictError, InvalidRequestError


def facts_of(context: Context, record: JobRecord, row: Job, change: JobChange) -> list[Fact]:
    """The facts that make the change; raises if it is not possible."""
    _check(record, row, change)
    before = context.inbox.newest_spec(row)
    spec = before
    if change.priority is not None:
        spec = replace(spec, priority=change.priority)
    if change.tenant is not None:
        spec = replace(spec, tenant=change.tenant)
    if change.devices is not None:
        spec = _resized(context, record, spec, change.devices)
    facts: list[Fact] = [JobEdited(record.id, change.name, change.time_limit_s)]
    if spec != before:
        facts.append(JobUpdated(spec))
    return facts


def _check(record: JobRecord, row: Job, change: JobChange) -> None:
    """As a submission is checked, and that what runs is as it was started."""
    given = {name: value for name, value in asdict(change).items() if value is not None}
    try:
        checked(JobRequest(command=record.command, **given))
    except InvalidInputError as error:
        raise InvalidRequestError(str(error)) from None
    if change.name == "":
        raise InvalidRequestError("name is empty; expected printable characters")
    fixed = {"devices": change.devices, "tenant": change.tenant, "time limit": change.time_limit_s}
    for what, value in fixed.items():
        if value is not None and row.phase is not Phase.WAITING:
            does = "is paused" if row.allocation and row.allocation.paused else "runs"
            raise ConflictError(
                f"job {record.id} {does}, and its {what} can be changed only while it waits",
                hint=f"treadle cancel {record.id}, then submit it again",
            )


def _resized(context: Context, record: JobRecord, spec: JobSpec, devices: str) -> JobSpec:
    try:
        sizes = sizes_of(devices)
    except InvalidInputError as error:
        raise InvalidRequestError(str(error)) from None
    most = most_of_a_type(spec.device_types, context.cluster, spec.device_memory_gib)
    asked = max((n for n in sizes if n <= most), default=sizes[0])
    resized = replace(spec, sizes=sizes, asked=asked)
    known = context.learner.profiles.ask(question_about(record, resized))
    wanted = replace(
        resized, iterations=known.length_s, order_work=known.order_s, profile=known.profile
    )
    never = context.scheduler.policy.never_fits(wanted, whole_cluster(context))
    if never is not None:
        raise InvalidRequestError(f"the job could never run here: {never}")
    return wanted
