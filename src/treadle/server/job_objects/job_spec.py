"""What an object asks for, as a request; its fields are those of job files, in camelCase.

Name and tenant are the object's name and namespace. `after` names objects of its namespace.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.wire.job_fields import FIELDS, Field
from treadle.wire.jobs import JobRequest

SHELL = ("/bin/bash", "-c")
WORKDIR = "/tmp"  # which every image has
AFTER = ("after", "afterAny")
SUSPEND = "suspend"  # as in a Job of Kubernetes
MUTABLE = ("priority", "timeLimit", "devices", SUSPEND)  # while the job is there
_APART = {"name", "tenant", "array", "held", "after", "after_any"}

Object = dict[str, Any]


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


PLAIN: Mapping[str, Field] = {camel(each.name): each for each in FIELDS if each.name not in _APART}
FROM = {"secretKeyRef": "secrets", "configMapKeyRef": "configmaps"}


class Reference(NamedTuple):
    """A value of another object in the namespace."""

    variable: str
    resource: str  # secrets or configmaps
    name: str
    key: str


def references(spec: Object) -> list[Reference]:
    """Those that the environment names."""
    return [
        Reference(each["name"], resource, source[field]["name"], source[field]["key"])
        for each in spec.get("env", ())
        if (source := each.get("valueFrom"))
        for field, resource in FROM.items()
        if field in source
    ]


def request_of(
    found: Object, values: Mapping[Reference, str], ids: Mapping[str, str]
) -> JobRequest:
    """Raises InvalidInputError. values: of its references; ids: of the jobs that it comes after."""
    spec, metadata = found.get("spec") or {}, found["metadata"]
    fields: dict[str, Any] = {
        field.of_request: field.value(_text(spec[name]), f"spec.{name}")
        for name, field in PLAIN.items()
        if name in spec
    }
    fields.setdefault("workdir", WORKDIR)
    env = {each["name"]: str(each.get("value", "")) for each in spec.get("env", ())}
    secret = {each.variable: values[each] for each in values if each.resource == "secrets"}
    env |= {each.variable: values[each] for each in values if each.resource != "secrets"}
    after, after_any = (tuple(ids[name] for name in spec.get(field, ())) for field in AFTER)
    return JobRequest(
        command=_command(spec),
        name=metadata["name"],
        tenant=metadata["namespace"],
        env={name: value for name, value in env.items() if name not in secret},
        secrets=secret,
        after=after,
        after_any=after_any,
        held=bool(spec.get(SUSPEND)),
        **fields,
    )


def fixed(spec: Object) -> str:
    """Another text once something of it changed that no running job can change."""
    kept = {name: value for name, value in sorted(spec.items()) if name not in MUTABLE}
    return hashlib.sha256(msgspec.json.encode(kept, order="deterministic")).hexdigest()[:16]


def _command(spec: Object) -> tuple[str, ...]:
    if bool(spec.get("run")) == bool(spec.get("command")):
        raise InvalidInputError("spec has to have a command or a run line, and not both")
    return (*SHELL, spec["run"]) if spec.get("run") else tuple(map(str, spec["command"]))


def _text(value: object) -> str:
    """As a job file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
