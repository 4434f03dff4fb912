"""The OpenAPI document: FastAPI's, with our problems, roles and examples.

FastAPI documents a refusal as its own validation error; here every refusal is a problem, and which
refusals a route has follows from its method and its row in the access table.
"""

from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from treadle.server.access import JOB, OPEN, TABLE
from treadle.server.problems import MEDIA_TYPE, Problem
from treadle.server.routes import PREFIX

REFUSALS = (400, 403, 422, 429, 500)  # of every route
BODY_REFUSALS = (408, 413, 415)


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
    return {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
