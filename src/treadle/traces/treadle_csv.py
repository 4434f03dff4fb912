"""Treadle's own trace format: a CSV with every field of a JobSpec; a round trip is lossless.

Lines that begin with # before the header are notes. Sizes are separated by spaces, and so are the
size:seconds pairs of a measured scaling curve. Plans and command are JSON, empty for the default;
every job offers the default plan, so that policies without plans can run it. A deadline may be
empty. Numbers are written as the shortest text that reads back to the same value.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import pairwise
from math import inf
from operator import itemgetter

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.traces.table import Row, Table
from treadle.traces.workload import Workload

_PROFILE = (
    "load_s",
    "prepare_s",
    "compute_s",
    "sync_s",
    "alone_s",
    "measured_size",
    "serial",
    "restart_s",
    "memory_gib",
    "model",
    "curve",
)
COLUMNS = (
    "id",
    "submit_s",
    "sizes",
    "asked",
    "iterations",
    *_PROFILE,
    "owner",
    "tenant",
    "guaranteed",
    "priority",
    "deadline_s",
    "retries",
    "estimate_s",
    "plans",
    "command",
    "status",
)
_DEFAULT_PLANS = (DATA_PARALLEL,)
PRIORITY_MAX = 10**9


def text_lines(workload: Workload) -> Iterator[str]:
    """The file's lines, notes first."""
    for note in workload.notes:
        yield f"# {' '.join(note.split())}\n"
    yield ",".join(COLUMNS) + "\n"
    shapes: dict[int, str] = {}  # by identity: jobs share profiles, and hashing one is slow
    for spec in workload.jobs:
        shape = shapes.get(id(spec.profile))
        if shape is None:
            shape = shapes[id(spec.profile)] = _joined(_profile_cells(spec.profile))
        rest = _joined(_rest_cells(spec, workload.statuses.get(spec.id, "")))
        yield f"{_joined(_first_cells(spec))},{shape},{rest}\n"


def _joined(cells: tuple[str | float, ...]) -> str:
    return ",".join(map(_cell, cells))


def _first_cells(spec: JobSpec) -> tuple[str | float, ...]:
    sizes = " ".join(map(str, spec.sizes))
    return (spec.id, spec.submit_at, sizes, spec.asked, spec.iterations)


def _profile_cells(profile: Profile) -> tuple[str | float, ...]:
    return (
        profile.load_s,
        profile.prepare_s,
        profile.compute_s,
        profile.sync_s,
        profile.alone_s,
        profile.size,
        profile.serial,
        profile.restart_s,
        profile.memory_gib,
        profile.model,
        " ".join(f"{size}:{seconds!r}" for size, seconds in profile.curve),
    )


def _rest_cells(spec: JobSpec, status: str) -> tuple[str | float, ...]:
    plans = "" if spec.plans == _DEFAULT_PLANS else json.dumps([asdict(p) for p in spec.plans])
    return (
        spec.owner,
        spec.tenant,
        int(spec.guaranteed),
        spec.priority,
        "" if spec.deadline_at is None else spec.deadline_at,
        spec.retries,
        spec.estimate_s,
        plans,
        json.dumps(spec.command) if spec.command else "",
        status,
    )


def _cell(value: str | float) -> str:
    """Whole numbers without a decimal point; text quoted where CSV needs it."""
    if isinstance(value, str):
        quote = any(mark in value for mark in ',"\r\n#')
        return '"' + value.replace('"', '""') + '"' if quote else value
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def read_treadle_csv(table: Table) -> Workload:
    """The workload of such a file; missing columns get the defaults of a JobSpec."""
    identity, status = table.text("id", required=True, exact=True), table.text("status", exact=True)
    submit, iterations = table.moment("submit_s"), table.amount("iterations", "iterations")
    sizes, asked = _sizes(table), table.count("asked", least=0, default=0)
    profile, retries = _profiles(table), table.count("retries", least=0, default=0)
    owner, tenant = table.text("owner", exact=True), table.text("tenant", exact=True)
    guaranteed = table.count("guaranteed", least=0, default=1)
    priority = table.count("priority", least=-PRIORITY_MAX, default=0)
    deadline, deadline_at = table.text("deadline_s"), table.moment("deadline_s", default=0.0)
    plans, command = _plans(table), _command(table)
    estimate_s = table.moment("estimate_s", default=0.0)
    for row in table.rows():
        if asked(row) and asked(row) not in sizes(row):
            raise table.error(f"asked is {asked(row)}; expected one of the sizes {sizes(row)}")
        table.add(
            JobSpec(
                identity(row),
                iterations(row),
                sizes=sizes(row),
                asked=asked(row),
                profile=profile(row),
                plans=plans(row),
                submit_at=submit(row),
                owner=owner(row),
                tenant=tenant(row),
                guaranteed=guaranteed(row) > 0,
                priority=priority(row),
                deadline_at=deadline_at(row) if deadline(row) else None,
                retries=retries(row),
                estimate_s=estimate_s(row),
                command=command(row),
            ),
            status(row),
        )
    return table.workload("treadle")


def _sizes(table: Table) -> Callable[[Row], tuple[int, ...]]:
    """Ascending whole numbers from 1, separated by spaces; equal ones are shared."""
    text = table.text("sizes", required=True)
    known: dict[str, tuple[int, ...]] = {}

    def read(row: Row) -> tuple[int, ...]:
        written = text(row)
        if written not in known:
            words = written.split()
            sizes = tuple(int(word) for word in words if word.isdecimal() and len(word) < 13)
            if len(sizes) != len(words) or sizes[0] < 1 or list(sizes) != sorted(set(sizes)):
                raise table.error(
                    f"sizes is {written!r}; expected ascending whole numbers from 1, such as 1 2 4"
                )
            known[written] = sizes
        return known[written]

    return read


def _profiles(table: Table) -> Callable[[Row], Profile]:
    """Profiles; equal ones are shared."""
    load_s, prepare_s = table.moment("load_s", default=0.0), table.moment("prepare_s", default=0.0)
    compute_s, sync_s = table.moment("compute_s", default=1.0), table.moment("sync_s", default=0.0)
    size, serial = table.count("measured_size", default=0), table.moment("serial", default=0.0)
    restart_s, alone_s = (
        table.moment("restart_s", default=0.0),
        table.moment("alone_s", default=0.0),
    )
    memory_gib = table.moment("memory_gib", unit="GiB", default=0.0)
    model, sizes = table.text("model", exact=True), _sizes(table)
    curve = _curve(table)
    cells = itemgetter(*(table.header.index(c) for c in ("sizes", *_PROFILE) if c in table.header))
    known: dict[object, Profile] = {}

    def profile(row: Row) -> Profile:
        try:
            return Profile(
                load_s=load_s(row),
                prepare_s=prepare_s(row),
                compute_s=compute_s(row),
                sync_s=sync_s(row),
                alone_s=alone_s(row),
                size=size(row) or sizes(row)[-1],
                serial=serial(row),
                restart_s=restart_s(row),
                memory_gib=memory_gib(row),
                model=model(row),
                curve=curve(row),
            )
        except InvalidInputError as error:
            raise table.error(str(error)) from None

    def read(row: Row) -> Profile:
        written = cells(row)
        if written not in known:
            known[written] = profile(row)
        return known[written]

    return read


def _curve(table: Table) -> Callable[[Row], tuple[tuple[int, float], ...]]:
    """Measured `size:seconds` of one iteration, separated by spaces, or nothing."""
    text = table.text("curve")

    def read(row: Row) -> tuple[tuple[int, float], ...]:
        pairs = [pair.partition(":") for pair in text(row).split()]
        try:
            points = tuple((int(size), float(seconds)) for size, _, seconds in pairs)
        except ValueError:
            points = ((0, 0.0),)
        ascending = all(a[0] < b[0] for a, b in pairwise(points))
        if not ascending or not all(size > 0 and 0 < s < inf for size, s in points):
            raise table.error(
                f"curve is {text(row)!r}; expected ascending size:seconds such as 1:2.5 2:1.3"
            )
        return points

    return read


def _plans(table: Table) -> Callable[[Row], tuple[Plan, ...]]:
    """A JSON list of plans, or nothing for the default."""
    text = table.text("plans", exact=True)

    def read(row: Row) -> tuple[Plan, ...]:
        written = text(row)
        if not written:
            return _DEFAULT_PLANS
        try:
            plans = tuple(Plan(**fields) for fields in json.loads(written))
        except (TypeError, ValueError, InvalidInputError) as error:
            raise table.error(
                f"plans is {written!r}; expected a JSON list of plans ({error})"
            ) from None
        return plans if DATA_PARALLEL in plans else (*plans, DATA_PARALLEL)

    return read


def _command(table: Table) -> Callable[[Row], tuple[str, ...]]:
    """A JSON list of words, or empty for no command."""
    text = table.text("command", exact=True)

    def read(row: Row) -> tuple[str, ...]:
        written = text(row)
        try:
            words = json.loads(written) if written else []
        except ValueError:
            words = None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise table.error(f'command is {written!r}; expected a JSON list such as ["python"]')
        return tuple(words)

    return read
