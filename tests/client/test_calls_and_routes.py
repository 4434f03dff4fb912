"""The client's calls against the rows of the routes: same paths, parameters, bodies and answers."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from fastapi.routing import APIRoute
from tests.cli.live_session import ValueClient

from treadle.client import Client, calls
from treadle.client.calls import Call, Named, Which
from treadle.core.job_report import Report
from treadle.server.app import ROUTERS
from treadle.server.routes import PREFIX
from treadle.wire.job_orders import JobsOrder, Verb
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.learned import ForgetRequest
from treadle.wire.machine import TokenRequest
from treadle.wire.retention import PruneRequest
from treadle.wire.what_if import WhatIfRequest

GIVEN: dict[str, Any] = {  # a value for each type of argument, none of them a default
    "str": "x",
    "str | None": "x",
    "int": 7,
    "int | None": 7,
    "float | None": 7.0,
    "bool": True,
    "Unpack[Which]": dict.fromkeys(Which.__annotations__, "x"),
    "JobRequest": JobRequest(command=("true",)),
    "JobChange": JobChange(priority=7),
    "JobsOrder": JobsOrder(verb=Verb.HOLD, ids=("7",)),
    "ForgetRequest": ForgetRequest(script="x"),
    "PruneRequest": PruneRequest(dry_run=True),
    "Report": Report(step=7),
    "TokenRequest": TokenRequest(name="x"),
    "WhatIfRequest": WhatIfRequest(policy="fifo"),
}
FOR_THE_PAGE = {  # what only the web page and the document's readers ask for
    "GET /decisions",
    "GET /openapi.json",
    "GET /spells",
    "GET /stream",
    "GET /usage/days",
    "GET /session",
    "POST /session",
    "DELETE /session",
}
ROUTES = [each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)]


def described() -> Iterator[tuple[str, Call[Any]]]:
    """Every call with all its arguments, and the answer that the type checker is told."""
    for name, function in inspect.getmembers(calls, inspect.isfunction):
        signature = inspect.signature(function)
        told = str(signature.return_annotation)
        if not name.startswith("_") and told.startswith("Call["):
            given = {each.name: GIVEN[each.annotation] for each in signature.parameters.values()}
            call = function(**given.pop("which", {}), **given)
            yield told.removeprefix("Call[").removesuffix("]"), call


CALLS = list(described())


def route_of(call: Call[Any]) -> APIRoute:
    there = [
        each
        for each in ROUTES
        if call.method in (each.methods or ()) and each.path_regex.fullmatch(call.path)
    ]
    return min(there, key=lambda route: "{" in route.path)


@pytest.mark.parametrize(("told", "call"), CALLS)
def test_a_call_is_what_its_route_takes_and_answers(told: str, call: Call[Any]):
    route = route_of(call)
    assert set(call.params) <= {each.alias for each in route.dependant.query_params}
    assert set(call.headers) <= {each.alias for each in route.dependant.header_params}
    bodies = [each.field_info.annotation for each in route.dependant.body_params]
    known = {each.name for kind in bodies for each in fields(kind)}  # type: ignore[arg-type]
    assert set(call.body if isinstance(call.body, dict) else ()) <= known
    if isinstance(call.answer, Named):
        name = call.answer.name
        assert told == (f"tuple[{name}, ...]" if call.answer.many else name)
        assert route.response_model in (None, call.answer_type())
    else:
        assert told in (str(call.answer), getattr(call.answer, "__name__", "None"))


def test_every_route_has_a_call_but_those_of_the_page():
    called = {f"{call.method} {route_of(call).path.removeprefix(PREFIX)}" for _, call in CALLS}
    there = {f"{min(each.methods or ())} {each.path.removeprefix(PREFIX)}" for each in ROUTES}
    assert there - called == FOR_THE_PAGE


def test_the_commands_tests_ask_a_client_as_they_ask_the_real_one():
    there = vars(ValueClient).keys() & {name for name in dir(Client) if not name.startswith("_")}
    for name in there - {"job_page"}:  # which takes whatever selects jobs
        call = getattr(calls, name, None) or getattr(Client, name)
        real = list(inspect.signature(call).parameters)
        made = list(inspect.signature(getattr(ValueClient, name)).parameters)
        assert made == (real if "self" in real else ["self", *real]), name


def test_a_client_loads_no_types_that_it_does_not_need():
    script = (
        "import sys, treadle.client.client; "
        "print([m for m in ('treadle.core.machine', 'treadle.wire.machine') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
