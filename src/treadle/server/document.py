"""The OpenAPI document: FastAPI's, with our problems, roles and examples.

FastAPI documents a refusal as its own validation error; here every refusal is a problem, and which
refusals a route has follows from its method and its row in the access table.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ConfigDict, TypeAdapter, with_config

from treadle.core.job_report import Report
from treadle.server.access import JOB, OPEN, TABLE
from treadle.server.machine_routes import DeviceOrder, NodeOrder, Shutdown
from treadle.server.problems import MEDIA_TYPE, Problem
from treadle.server.routes import PREFIX
from treadle.wire.job_orders import JobSelection, JobsOrder
from treadle.wire.jobs import Code, JobChange, JobRequest
from treadle.wire.machine import PolicyChange, TokenRequest
from treadle.wire.retention import PruneRequest
from treadle.wire.sessions import SessionRequest
from treadle.wire.what_if import WhatIfRequest

REFUSALS = (400, 403, 422, 429, 500)  # of every route
BODY_REFUSALS = (408, 413, 415)
BODIES: Mapping[type, Mapping[str, object]] = {  # with an example of each
    JobRequest: {
        "command": ["python", "train.py", "--epochs", "3"],
        "name": "resnet",
        "devices": "1..4",
        "resumable": True,
        "workdir": "/home/ada/resnet",
    },
    Code: {},
    JobChange: {"priority": 10},
    JobsOrder: {"verb": "cancel", "ids": ["12", "13_4", "sweep"]},
    PruneRequest: {"older_than_s": 2592000, "dry_run": True},
    JobSelection: {"user": "ada", "states": ["PENDING"]},
    Report: {"step": 1200, "total": 5000, "loss": 0.31, "checkpoint": 1000},
    PolicyChange: {"policy": "afs"},
    TokenRequest: {"name": "laptop", "role": "user", "days": 30},
    NodeOrder: {"order": "drain"},
    DeviceOrder: {"order": "avoid"},
    Shutdown: {"mode": "drain"},
    SessionRequest: {"token": "treadle_..."},
    WhatIfRequest: {"policy": "fifo", "cluster": "2x8"},
}
# A field that the server does not know is refused: leaving it out silently would run another job
# than the one that was submitted.
for _body, _example in BODIES.items():
    _extra: dict[str, Any] = {"examples": [_example]} if _example else {}
    with_config(ConfigDict(extra="forbid", allow_inf_nan=False, json_schema_extra=_extra))(_body)


def tidied(document: dict[str, Any]) -> dict[str, Any]:
    """The document as it is published; changes and returns the one given."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _tidy(operation, method.upper(), path.removeprefix(PREFIX))
    components = document["components"]
    # Given to FastAPI as a model, it would be compiled anew for each of 250 answers.
    components["schemas"]["Problem"] = TypeAdapter(Problem).json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for schema in components["schemas"].values():
        # Titles that only repeat the name of a field in capitals say nothing.
        for each in schema.get("properties", {}).values():
            each.pop("title", None)
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Not needed on the Unix socket, where the kernel names the user.",
        }
    }
    return document


def _tidy(operation: dict[str, Any], method: str, path: str) -> None:
    needed = TABLE[method, path].needed
    operation["summary"] = operation["description"].split("\n")[0].rstrip(".")
    operation["security"] = [] if needed == OPEN else [{"token": []}]
    role = {OPEN: "anyone", JOB: "the job itself, or a user"}.get(str(needed), str(needed))
    operation["x-needs"] = role
    responses = operation["responses"]
    statuses = {*responses, *map(str, REFUSALS)}
    statuses |= set() if needed == OPEN else {"401"}
    statuses |= set(map(str, BODY_REFUSALS)) if method in {"POST", "PUT", "PATCH"} else set()
    operation["responses"] = {
        status: responses[status] if status < "400" else _problem(int(status))
        for status in sorted(statuses)
    }


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
