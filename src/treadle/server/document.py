"""The OpenAPI document, tidied: what comes back is what it says, and nothing else.

FastAPI takes every answer for JSON. Here refusals are problems, streams and texts are what they
are, and the two ways of being known are named.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from treadle.server.access import JOB, OPEN, TABLE
from treadle.server.problems import MEDIA_TYPE, Problem
from treadle.server.routes import Route

EXAMPLES: Mapping[str, Mapping[str, object]] = {
    "JobRequest": {
        "command": ["python", "train.py", "--epochs", "3"],
        "name": "resnet",
        "devices": "1..4",
        "resumable": True,
        "workdir": "/home/ada/resnet",
    },
    "JobChange": {"priority": 10},
    "Report": {"step": 1200, "total": 5000, "loss": 0.31, "checkpoint": 1000},
    "PolicyChange": {"policy": "afs"},
    "TokenRequest": {"name": "laptop", "role": "user", "days": 30},
    "DeviceOrder": {"order": "avoid"},
    "Shutdown": {"mode": "drain"},
}


def tidied(document: dict[str, Any], routes: Sequence[Route], prefix: str) -> dict[str, Any]:
    """The document as it is published; changes and returns the one given."""
    by_path = {(prefix + route.path, route.method.lower()): route for route in routes}
    for path, method, operation in _operations(document):
        route = by_path[path, method]
        for status, response in operation["responses"].items():
            _set_content(response, int(status), route)
        needed = TABLE[route.method, route.path]
        operation["security"] = [] if needed == OPEN else [{"token": []}]
        role = {OPEN: "anybody", JOB: "the job itself, or a user"}.get(str(needed), str(needed))
        operation["x-needs"] = role
    components = document["components"]
    # Given to FastAPI as a model, it would be compiled anew for each of 250 answers.
    components["schemas"]["Problem"] = TypeAdapter(Problem).json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for name, schema in components["schemas"].items():
        _untitle(schema)
        if name in EXAMPLES:
            schema["examples"] = [EXAMPLES[name]]
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Not needed on the Unix socket, where the kernel says who asks.",
        }
    }
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _set_content(response: dict[str, Any], status: int, route: Route) -> None:
    if status >= 400:
        schema = {"$ref": "#/components/schemas/Problem"}
        response["description"] = HTTPStatus(status).phrase
        response["content"] = {MEDIA_TYPE: {"schema": schema}}
    elif route.media_type:
        response["content"] = {route.media_type: {"schema": {"type": "string"}}}
    elif route.also:
        response["content"][route.also] = {"schema": {"type": "string"}}


def _untitle(schema: dict[str, Any]) -> None:
    """Titles that only repeat the name of a field in capitals say nothing."""
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
