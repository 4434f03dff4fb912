"""Makes jobs of a request: checks it, numbers the jobs, adds what is known of jobs like them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec
from msgspec import structs

from treadle.control.jobs.elastic_command import completed
from treadle.control.jobs.job_kinds import INDEX, likeness_of, program_of
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import Expectation, Profiles, Question
from treadle.core.cluster import CPU, Cluster
from treadle.core.device_types import GPU, devices_on, named, says_any, too_small
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.core.launch import CHECKPOINT_DIR
from treadle.core.machine import JobFiles
from treadle.core.ports import Policy
from treadle.core.wording import from_to, short_span
from treadle.models.learning.commands import is_shell, parsed
from treadle.models.learning.expectation import remaining
from treadle.policies.base.suited import usable_by
from treadle.wire import notation
from treadle.wire.job_fields import RETRIES_MAX
from treadle.wire.jobs import JobRequest
from treadle.wire.notation import (
    CPUS_MAX,
    CPUS_MIN,
    MEMORY_MAX_GIB,
    MEMORY_MIN_GIB,
    PRIORITY_MAX,
    array,
    device_types_of,
    is_identity,
    job_name,
    ranks,
    shown,
    sizes_of,
    stop_signal,
)
from treadle.wire.problems import InvalidRequestError

NAME_MAX = 128
WORDS_MAX = 4096
# Bytes of a command and its environment as JSON, in which they are kept and sent; as much as Linux
# takes in one string.
TEXT_MAX = 128 * 1024
VARIABLES_MAX = 1000
AFTER_MAX = 1000
SECONDS_MAX = 366 * 86_400.0
GRACE_MAX_S = 86_400.0
PROBABLY = 0.5  # a limit that more runs than this exceed is warned of
RETRIES = 3  # of transient failures, if the user does not say
_PLACE = f"--env {CHECKPOINT_DIR}=..."
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TENANT = re.compile(r"[A-Za-z0-9_.@-]{0,64}", re.ASCII)


class Person(NamedTuple):
    """The user a job is for, as the machine knows them."""

    name: str
    uid: int | None = None
    gid: int | None = None
    home: str = "/"


@dataclass(frozen=True, slots=True)
class Submission:
    """The jobs of one request, before the scheduler knows them."""

    id: str  # of the job or the array
    records: tuple[JobRecord, ...]
    specs: tuple[JobSpec, ...]
    expectation: Expectation
    notes: tuple[str, ...]


def prepare(
    request: JobRequest,
    number: int,
    *,
    person: Person,
    cluster: Cluster,
    profiles: Profiles,
    now: float,
    wall_at: float,
    nonce: str = "",
) -> Submission:
    """The jobs that a request asks for; raises InvalidRequestError with what is wrong with it.

    nonce: random, since the number may have been given before, in a store that is gone.
    """
    try:
        checked(request)
        request = completed(request)
        sizes = sizes_of(request.devices)
        types = device_types_of(request.device_type) or types_by_default(request, cluster.by_type)
        members = array(request.array) if request.array else None
    except InvalidInputError as error:
        raise InvalidRequestError(str(error)) from None
    most = most_of_a_type(types, cluster, request.gpu_memory_gib or 0.0)
    asked = max((size for size in sizes if size <= most), default=sizes[0])
    first = _record(request, number, person=person, sizes=sizes, wall_at=wall_at)
    first.nonce = nonce
    question = Question.of(
        program_of(first),
        asked=asked,
        sizes=sizes,
        estimate_s=request.estimate_s,
        limit_s=request.time_limit_s,
        device_gib=request.gpu_memory_gib,
    )
    known = profiles.ask(question)
    spec = _spec(request, first, known=known, asked=asked, now=now)
    spec = replace(spec, device_types=types)
    notes = _notes(request, sizes, known, named(types, cluster))
    if members is None:
        return Submission(first.id, (first,), (spec,), known, notes)
    records, specs = [], []
    for member in members.numbers:
        record = structs.replace(
            first,
            id=f"{number}_{member}",
            member=member,
            array=first.id,
            array_size=len(members.numbers),
            array_limit=members.at_once_max or 0,
            array_text=request.array,
            launched={},
        )
        records.append(record)
        specs.append(replace(spec, id=record.id))
    return Submission(first.id, tuple(records), tuple(specs), known, notes)


def types_by_default(request: JobRequest, there: Collection[str]) -> tuple[str, ...]:
    """GPUs, if there are some when the job is submitted; none are named where there are none.

    It is settled then, so that jobs do not go to CPU slots when a node with GPUs is lost.
    """
    gpus = any(kind != CPU for kind in there)
    return (GPU,) if gpus and not request.model.startswith("cpu-") else ()


def kept_to_gpus(wanted: Submission, request: JobRequest, away: Collection[str]) -> Submission:
    """The same where nodes of these types take no jobs now, and GPUs may be among them."""
    types = types_by_default(request, away)
    if request.device_type or not types:
        return wanted
    return replace(wanted, specs=tuple(replace(s, device_types=types) for s in wanted.specs))


def most_of_a_type(types: Sequence[str], cluster: Cluster, device_memory_gib: float) -> int:
    """The most devices that one job of these types gets: of one type, unless it may mix."""
    small = too_small(device_memory_gib, cluster)
    counts = [devices_on(cluster.by_type[each] - small, cluster) for each in named(types, cluster)]
    return sum(counts) if says_any(types) else max(counts, default=0)


def check_fits(
    request: JobRequest, wanted: Submission, *, policy: Policy, cluster: Cluster
) -> None:
    """Refuse a job that the policy could not place even if the cluster were empty."""
    if request.wait_for_capacity or not cluster.device_count:
        return  # Without any device, what will fit is not known yet.
    spec = wanted.specs[0]
    never = policy.never_fits(spec, cluster)
    if never is None:
        return
    fewer = fits_at_most(spec, cluster)
    other = f"submit it with --devices {fewer}, or" if fewer else "submit it"
    raise InvalidRequestError(
        f"the job can never run here: {never}",
        hint=f"{other} with --wait-for-capacity to queue it until it fits",
    )


def fits_at_most(spec: JobSpec, cluster: Cluster) -> str:
    """The devices to ask for instead, if the cluster has fewer than the job needs at least."""
    most = devices_on(usable_by(spec, cluster), cluster)
    if not most or spec.sizes[0] <= most:
        return ""
    return "1" if most == 1 else f"{most} or fewer"


def _record(
    request: JobRequest, number: int, *, person: Person, sizes: tuple[int, ...], wall_at: float
) -> JobRecord:
    """What is kept of a job that is no member of an array."""
    return JobRecord(
        id=str(number),
        number=number,
        name=request.name or name_by_default(request.command),
        owner=person.name,
        command=request.command,
        submitted_at=wall_at,
        uid=person.uid,
        gid=person.gid,
        tenant=request.tenant,
        workdir=request.workdir or person.home,
        ranks=ranks(request.ranks),
        env=dict(request.env),
        slurm=request.slurm,
        secrets=tuple(sorted(request.secrets)),
        time_limit_s=request.time_limit_s,
        memory_gib=request.memory_gib,
        cpus=request.cpus,
        gpu_memory_gib=request.gpu_memory_gib,
        device_type=notation.device_type(request.device_type) if request.device_type else "",
        exclusive=request.exclusive,
        warm=request.warm,
        elastic=request.elastic,
        notify=notation.moments(request.notify),
        grace_s=request.grace_s,
        stop_signal=stop_signal(request.stop_signal),
        after=request.after,
        after_any=request.after_any,
        model=request.model,
        sizes=sizes,
        priority=request.priority,
        guaranteed=request.guaranteed,
        estimate_s=request.estimate_s,
        submitted_held=request.held,
        wait_for_capacity=request.wait_for_capacity,
        retries=RETRIES if request.retries is None else request.retries,
        retry_unknown=request.retries is not None,
        resumable=request.resumable,
        preemptible=request.preemptible,
        code=None if request.code is None else replace(request.code, diff=""),
    )


def _spec(
    request: JobRequest, record: JobRecord, *, known: Expectation, asked: int, now: float
) -> JobSpec:
    """The same job as the scheduler sees it."""
    return JobSpec(
        id=record.id,
        iterations=known.length_s,
        order_work=known.order_s,
        sizes=record.sizes,
        asked=asked,
        profile=known.profile,
        submit_at=now,
        owner=record.owner,
        tenant=request.tenant,
        guaranteed=request.guaranteed,
        priority=request.priority,
        retries=record.retries,
        retry_unknown=record.retry_unknown,
        estimate_s=request.estimate_s or 0.0,
        command=request.command,
        kind=likeness_of(record).shape,
        resumable=request.resumable,
        preemptible=request.preemptible,
        host_memory_gib=request.memory_gib or 0.0,
        host_cores=request.cpus or 0.0,
        device_memory_gib=request.gpu_memory_gib or 0.0,
        exclusive=request.exclusive,
    )


def checked(request: JobRequest) -> None:
    """Refuse what cannot be kept or launched, in one sentence."""
    if not request.command or not request.command[0]:
        raise InvalidInputError("a job needs a command, such as: treadle submit -- python train.py")
    if len(request.command) > WORDS_MAX:
        raise InvalidInputError(
            f"the command has {len(request.command)} words; expected at most {WORDS_MAX}"
        )
    _check_texts(request)
    _check_variables(request)
    if request.workdir and not PurePosixPath(request.workdir).is_absolute():
        raise InvalidInputError(
            f"workdir is {shown(request.workdir)}; expected an absolute path, which "
            "`treadle submit` makes of any"
        )
    if ".." in PurePosixPath(request.workdir).parts:
        raise InvalidInputError(
            f'workdir is {shown(request.workdir)}; expected a path without ".."'
        )
    if not _TENANT.fullmatch(request.tenant):
        raise InvalidInputError(
            f"tenant is {shown(request.tenant)}; expected up to 64 letters, digits and _.@-"
        )
    _check_numbers(request)
    for identity in (*request.after, *request.after_any):
        if not re.fullmatch(r"[\w.-]{1,64}", identity, re.ASCII):
            raise InvalidInputError(f"after names {shown(identity)}; expected the id of a job")
    if len(request.after) + len(request.after_any) > AFTER_MAX:
        raise InvalidInputError(f"after names more than {AFTER_MAX} jobs")


def _check_texts(request: JobRequest) -> None:
    job_name(request.name, "name")
    for what, text in (("name", request.name), ("model", request.model)):
        if len(text) > NAME_MAX or not text.isprintable():
            raise InvalidInputError(
                f"{what} is {shown(text)}; expected up to {NAME_MAX} printable characters"
            )
    texts = [*request.command, request.workdir, *request.env.values(), *request.secrets.values()]
    for text in texts:
        if "\0" in text:
            raise InvalidInputError("a zero byte cannot be part of a command, path or variable")
        if not _is_text(text):
            raise InvalidInputError(f"{shown(text)} is not UTF-8 text")
    taken = sum(len(msgspec.json.encode(text)) - len('""') for text in texts)
    if taken > TEXT_MAX:
        raise InvalidInputError(
            f"command and environment take {taken} bytes as they are kept, in which a control "
            f"character takes 6; expected at most {TEXT_MAX}"
        )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_variables(request: JobRequest) -> None:
    if len(request.env) + len(request.secrets) > VARIABLES_MAX:
        raise InvalidInputError(f"a job has at most {VARIABLES_MAX} variables and secrets")
    for name in (*request.env, *request.secrets):
        if not _VARIABLE.fullmatch(name) or len(name) > NAME_MAX:
            raise InvalidInputError(
                f"{shown(name)} cannot name a variable; expected letters, digits and _"
            )
    both = set(request.env) & set(request.secrets)
    if both:
        raise InvalidInputError(f"{min(both)} is both a variable and a secret; expected one")


def _check_numbers(request: JobRequest) -> None:
    if abs(request.priority) > PRIORITY_MAX:
        raise InvalidInputError(
            f"priority is {request.priority}; expected {-PRIORITY_MAX} to {PRIORITY_MAX}"
        )
    if request.retries is not None and not 0 <= request.retries <= RETRIES_MAX:
        raise InvalidInputError(f"retries is {request.retries}; expected 0 to {RETRIES_MAX}")
    if not 0 <= request.grace_s <= GRACE_MAX_S:
        raise InvalidInputError(
            f"grace_s is {request.grace_s:g}; expected 0 to {GRACE_MAX_S:g} seconds"
        )
    for name, value in (("time_limit_s", request.time_limit_s), ("estimate_s", request.estimate_s)):
        if value is not None and not (isfinite(value) and 0 < value <= SECONDS_MAX):
            raise InvalidInputError(
                f"{name} is {value:g}; expected more than 0 and at most {SECONDS_MAX:g} seconds"
            )
    for name, value, least, most in (
        ("memory_gib", request.memory_gib, MEMORY_MIN_GIB, MEMORY_MAX_GIB),
        ("gpu_memory_gib", request.gpu_memory_gib, MEMORY_MIN_GIB, MEMORY_MAX_GIB),
        ("cpus", request.cpus, CPUS_MIN, CPUS_MAX),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidInputError(f"{name} is {value:g}; expected {least:g} to {most:g}")


@lru_cache(maxsize=32_768)  # It is asked of every row of a list of jobs.
def name_by_default(command: tuple[str, ...]) -> str:
    """A name for a job whose user gave none: the script, or the program."""
    script = parsed(command)
    runs_script = script.file or script.module
    name = script.name if runs_script else PurePosixPath(command[0]).name or command[0]
    found = "".join(mark for mark in name if mark.isprintable())[:NAME_MAX]
    return "job" if not found or is_identity(found) else found


def given_name(record: JobRecord) -> str:
    """What its user called a job; empty if it has a name by default."""
    return "" if record.name == name_by_default(record.command) else record.name


def not_enforced(request: JobRequest, enforced: Collection[str]) -> tuple[str, ...]:
    """What to say of limits that no node enforces."""
    wanted = (("memory", request.memory_gib), ("cpus", request.cpus))
    missing = [f"--{name}" for name, value in wanted if value is not None and name not in enforced]
    if not missing:
        return ()
    are = "is" if len(missing) == 1 else "are"
    names = " and ".join(missing)
    note = f"{names} {are} not enforced here, because this machine gives Treadle no cgroup that "
    return (note + "can; jobs are still placed by what they ask for",)


def check_nodes(request: JobRequest, files: JobFiles, cluster: Cluster) -> None:
    """Refuse a resumable job that needs several nodes, which do not see its checkpoints."""
    least, most = sizes_of(request.devices)[0], max(cluster.counts.values(), default=0)
    if _bound(request, files) and least > most > 0:
        raise InvalidInputError(
            f"the job needs several nodes and is resumable, but they do not see each other's "
            f"checkpoints; keep them where all do ({_PLACE}), or leave out --resumable"
        )


def files_notes(request: JobRequest, files: JobFiles) -> tuple[str, ...]:
    """What to say of nodes that do not see its files."""
    notes = [files.note] if files.note else []
    folder = f"{request.workdir}/"
    inside = [word for word in request.command if word.startswith(folder)]
    if files.archive and request.workdir and inside:
        named = f"the command names {shown(inside[0])}, and some nodes do not see that folder"
        notes.append(f"{named}; there the job runs in a copy: use a path relative to the folder")
    if _bound(request, files):
        notes.append(
            "its checkpoints stay on the node where it starts, and so does the job; another place "
            f"that all nodes see frees it ({_PLACE})"
        )
    return tuple(notes)


def _bound(request: JobRequest, files: JobFiles) -> bool:
    """Whether its checkpoints bind it to nodes."""
    own = CHECKPOINT_DIR in request.env or CHECKPOINT_DIR in request.secrets
    return request.resumable and files.apart and not own


def _notes(
    request: JobRequest, sizes: Sequence[int], known: Expectation, kinds: Collection[str]
) -> tuple[str, ...]:
    """kinds: types of device that it may use, of those that there are."""
    notes = []
    if request.gpu_memory_gib is not None and set(kinds) == {CPU}:
        notes.append("--gpu-memory has no effect on CPU slots")
    if request.array and not is_shell(request.command) and any(map(INDEX.search, request.command)):
        notes.append("no shell reads this command, so its $ stays as it is; bash -c '...' has one")
    if len(sizes) > 1 and not request.resumable:
        notes.append(
            "its size is chosen when it starts and stays; --elastic auto lets a PyTorch script "
            "change it while it runs, --resumable a job that continues from its checkpoint"
        )
    limit_s = request.time_limit_s
    if limit_s is not None and known.shown and known.learned.length.survival(limit_s) > PROBABLY:
        left = remaining(known.learned, 0.0)
        takes = from_to(left.span.low_s, left.span.high_s)
        notes.append(
            f"its time limit of {short_span(limit_s)} will probably end it: it is expected to take "
            f"{takes} ({left.because})"
        )
    return tuple(notes)
