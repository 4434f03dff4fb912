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

from treadle.client import Client
from treadle.client.calls import PLAIN, Call, Calls, Which
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


class Asking(Client):
    """Keeps what it would send."""

    def do(self, call: Call) -> object:
        self.sent = call
        return self.sent


def described() -> Iterator[Call]:
    """Every call with all its arguments."""
    client = Asking("unix:/nowhere")
    for name, method in vars(Calls).items():
        if not name.startswith("_") and name != "do":
            arguments = list(inspect.signature(method).parameters.values())[1:]
            given = {each.name: GIVEN[str(each.annotation)] for each in arguments}
            method(client, **given.pop("which", {}), **given)
            yield client.sent
    yield Call(method="GET", path=f"{PREFIX}/journal", answer="bytes")


CALLS = list(described())


def route_of(call: Call) -> APIRoute:
    there = [
        each
        for each in ROUTES
        if call.method in (each.methods or ()) and each.path_regex.fullmatch(call.path)
    ]
    return min(there, key=lambda route: "{" in route.path)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_a_call_is_what_its_route_takes_and_answers(call: Call):
    route = route_of(call)
    assert set(call.params) <= {each.alias for each in route.dependant.query_params}
    assert set(call.headers) <= {each.alias for each in route.dependant.header_params}
    bodies = [each.field_info.annotation for each in route.dependant.body_params]
    known = {each.name for kind in bodies for each in fields(kind)}  # type: ignore[arg-type]
    assert set(call.body if isinstance(call.body, dict) else ()) <= known
    if call.home != PLAIN:
        assert route.response_model in (None, call.answer_type())


def test_every_route_has_a_call_but_those_of_the_page():
    called = {f"{call.method} {route_of(call).path.removeprefix(PREFIX)}" for call in CALLS}
    there = {f"{min(each.methods or ())} {each.path.removeprefix(PREFIX)}" for each in ROUTES}
    assert there - called == FOR_THE_PAGE


def test_the_commands_tests_ask_a_client_as_they_ask_the_real_one():
    there = vars(ValueClient).keys() & {name for name in dir(Client) if not name.startswith("_")}
    for name in there - {"job_page"}:  # which takes whatever selects jobs
        real = list(inspect.signature(getattr(Client, name)).parameters)
        assert list(inspect.signature(getattr(ValueClient, name)).parameters) == real, name


def test_a_client_loads_no_types_that_it_does_not_need():
    script = (
        "import sys, treadle.client.client; "
        "print([m for m in ('treadle.core.machine', 'treadle.wire.machine') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
