"""A submission as Python code writes it: the fields of a job file, with Python's own values.

    JobRequest(run="torchrun train.py", devices=[1, 2, 4], time_limit="12h", priority="high")

It is the request that is sent, completed as `treadle submit` completes one: the working directory
is the current one, and PATH and its like come from this process's environment.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from treadle.client.jobfile import (
    RETRIES_MAX,
    SHELL,
    Draft,
    Given,
    array_text,
    complete,
    variable_name,
)
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.wire import jobs as wire
from treadle.wire import notation as values
from treadle.wire.jobs import Code

Seconds = str | float | None  # "12h", or seconds


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
    here: bool
    slurm: bool
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
    for name, value in given.items():
        if name in _VARIABLES:
            _VARIABLES[name](draft).update(_variables(value, name))
        elif name in _FIELDS:
            target, read = _FIELDS[name]
            if target != name and target in given:
                raise InvalidInputError(f"both {name} and {target} are given; keep one")
            if value or name not in ("run", "command"):
                draft.fields[target] = read(value, name)
        elif name not in JobFields.__annotations__:
            hint = did_you_mean(name, JobFields.__annotations__)
            raise InvalidInputError(f"a job has no field {name}{hint}")
        elif name != "code":
            draft.fields[name] = value
    return draft


def _variables(value: object, what: str) -> dict[str, Given]:
    if isinstance(value, Mapping):
        return {variable_name(name, what): Given(text, what) for name, text in value.items()}
    return {variable_name(name, what): Given(None, what) for name in _items(value, what)}


def _run(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} is {value!r}; expected a line for the shell")
    return (*SHELL, value)


def _command(value: object, what: str) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidInputError(
            f"{what} is a text; expected a program and its arguments, or run= for a shell line"
        )
    return tuple(_items(value, what))


def _items(value: object, what: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{what} is {value!r}; expected several texts in a list")
    return [str(item) for item in value]


def _listed(value: object) -> str:
    """A number, a text, or several with commas between them."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(item) for item in value)
    return str(value)


def _devices(value: object, what: str) -> str:
    return values.devices(_listed(value), what)


def _jobs(value: object, what: str) -> tuple[str, ...]:
    text = _listed(value)
    return values.identities(text, what) if text else ()


def _seconds(value: object, what: str) -> float | None:
    return None if value is None else values.duration(str(value), what)


def _memory(value: object, what: str) -> float | None:
    if value is None:
        return None
    return values.memory(value if isinstance(value, str) else f"{value}G", what)


def _cpus(value: object, what: str) -> float | None:
    return None if value is None else values.cpus(str(value), what)


def _retries(value: object, what: str) -> int | None:
    return None if value is None else values.count(str(value), what, most=RETRIES_MAX)


def _device_type(value: object, what: str) -> str:
    text = _listed(value)
    return values.device_type(text, what) if text else ""


def _array(value: object, what: str) -> str:
    return array_text(str(value), what) if value else ""


# field -> (its name in the API, how its value is read); others are sent as they are
_FIELDS: dict[str, tuple[str, Callable[[object, str], object]]] = {
    "run": ("command", _run),
    "command": ("command", _command),
    "devices": ("devices", _devices),
    "device_type": ("device_type", _device_type),
    "ranks": ("ranks", lambda value, what: values.ranks(str(value), what)),
    "elastic": ("elastic", lambda value, what: values.elastic(str(value), what) if value else ""),
    "workdir": ("workdir", lambda value, _: str(value)),
    "priority": ("priority", lambda value, what: values.priority(str(value), what)),
    "time_limit": ("time_limit_s", _seconds),
    "memory": ("memory_gib", _memory),
    "cpus": ("cpus", _cpus),
    "gpu_memory": ("gpu_memory_gib", _memory),
    "grace": ("grace_s", _seconds),
    "stop_signal": ("stop_signal", lambda value, what: values.stop_signal(str(value), what)),
    "retries": ("retries", _retries),
    "after": ("after", _jobs),
    "after_any": ("after_any", _jobs),
    "array": ("array", _array),
    "estimate": ("estimate_s", _seconds),
}
_VARIABLES: dict[str, Callable[[Draft], dict[str, Given]]] = {
    "env": lambda draft: draft.env,
    "secrets": lambda draft: draft.secrets,
}
