"""A submission as Python code writes it: the fields of a job file, with Python's own values.

    JobRequest(run="torchrun train.py", devices=[1, 2, 4], time_limit="12h", priority="high")

It is the request that is sent, completed as `treadle submit` completes one: the working directory
is the current one, and PATH and its like come from this process's environment.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from treadle.client.jobfile import SHELL, Draft, Given, complete, variable_name
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.wire import jobs as wire
from treadle.wire.job_fields import BY_NAME, FLAG, Field
from treadle.wire.jobs import Code

Seconds = str | float | None  # "12h", or seconds
_APART = ("run", "command", "env", "secrets", "code")


class JobFields(TypedDict, total=False):
    """The fields of docs/jobs.md, and the names under which the API has them."""

    name: str
    run: str  # a line for /bin/bash -c, instead of a command
    command: Sequence[str]
    devices: int | str | Sequence[int]
    device_type: str | Sequence[str]  # "h200", or several
    ranks: str
    workdir: str | Path
    env: Mapping[str, str | None]  # None: taken from this process's environment
    secrets: Mapping[str, str | None] | Iterable[str]  # names alone: likewise
    tenant: str
    priority: int | str
    guaranteed: bool
    resumable: bool
    preemptible: bool
    time_limit: Seconds
    memory: str | float | None  # "16G", or GiB
    cpus: float | str | None
    gpu_memory: str | float | None  # "20G", or GiB
    exclusive: bool
    warm: bool
    elastic: str
    grace: Seconds
    stop_signal: str
    retries: int | None
    after: str | Sequence[str]
    after_any: str | Sequence[str]
    array: str
    model: str
    estimate: Seconds
    held: bool
    wait_for_capacity: bool
    slurm: bool
    notify: str | Sequence[str]
    time_limit_s: float | None
    memory_gib: float | None
    gpu_memory_gib: float | None
    grace_s: float
    estimate_s: float | None
    code: Code | None


class JobRequest(wire.JobRequest):
    """A submission. All fields but the command have defaults."""

    __slots__ = ()

    def __init__(self, **fields: Unpack[JobFields]) -> None:
        made = complete(_draft(fields), os.environ, workdir=str(Path.cwd()))
        kept = {name: getattr(made, name) for name in wire.JobRequest.__dataclass_fields__}
        super().__init__(**{**kept, "code": fields.get("code")})


def _draft(fields: JobFields) -> Draft:
    """The fields as a job file would give them."""
    given: dict[str, Any] = dict(fields)
    draft = Draft()
    if bool(given.get("run")) == bool(given.get("command")):
        raise InvalidInputError(
            'a job needs either command=("python", "train.py") or run="python train.py"'
        )
    draft.fields["command"] = _run(given["run"]) if given.get("run") else _command(given["command"])
    draft.env.update(_variables(given.get("env", {}), "env"))
    draft.secrets.update(_variables(given.get("secrets", {}), "secrets"))
    for name, value in given.items():
        if name in BY_NAME:
            target = BY_NAME[name].of_request
            if target != name and target in given:
                raise InvalidInputError(f"both {name} and {target} are given; keep one")
            if value is not None:  # None stands for the default.
                draft.fields[target] = _read(BY_NAME[name], value)
        elif name not in JobFields.__annotations__:
            hint = did_you_mean(name, JobFields.__annotations__)
            raise InvalidInputError(f"a job has no field {name}{hint}")
        elif name not in _APART:
            draft.fields[name] = value
    return draft


def _read(field: Field, value: object) -> object:
    """What a value means: a text as a file has it, a number, a flag, or several in a list."""
    if field.kind is FLAG and isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return field.value(f"{value}{field.kind.unit}", field.name)
    if field.kind.listed and not isinstance(value, str) and isinstance(value, Iterable):
        value = ",".join(str(item) for item in value)
    return field.value(str(value), field.name)


def _variables(value: object, what: str) -> dict[str, Given]:
    if isinstance(value, Mapping):
        return {variable_name(name, what): Given(text, what) for name, text in value.items()}
    return {variable_name(name, what): Given(None, what) for name in _items(value, what)}


def _run(value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise InvalidInputError(f"run is {value!r}; expected a line for the shell")
    return (*SHELL, value)


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidInputError(
            "command is a text; expected a program and its arguments, or run= for a shell line"
        )
    return tuple(_items(value, "command"))


def _items(value: object, what: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{what} is {value!r}; expected several texts in a list")
    return [str(item) for item in value]
