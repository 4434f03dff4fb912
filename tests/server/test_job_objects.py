"""Objects as requests and statuses, without a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle.core.errors import InvalidInputError
from treadle.server.job_objects.job_spec import (
    MUTABLE,
    PLAIN,
    SHELL,
    Reference,
    fixed,
    references,
    request_of,
)
from treadle.server.job_objects.job_status import conditions, difference, status_of
from treadle.wire.jobs import Estimate, JobView, Progress, State

DEFINITION = Path(__file__).parents[2] / "deploy" / "treadlejobs.yaml"
OF_OBJECTS = {"command", "run", "env", "suspend", "after", "afterAny"}


def asked(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "team"}, "spec": spec}


def schema() -> dict[str, Any]:
    (version,) = yaml.safe_load(DEFINITION.read_text())["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"]["properties"])


def test_the_definition_has_every_field_of_a_job_and_no_other():
    assert schema()["spec"]["properties"].keys() == PLAIN.keys() | OF_OBJECTS
    assert set(MUTABLE) <= PLAIN.keys() | OF_OBJECTS


def test_a_status_has_no_field_that_the_definition_lacks():
    view = JobView(id="1", name="a", user="u", tenant="t", state=State.RUNNING)
    assert status_of(view, {}).keys() <= schema()["status"]["properties"].keys()


def test_fields_are_read_as_those_of_a_job_file():
    found = request_of(
        asked(command=["python", "t.py"], devices="2..4", timeLimit="90m", memory="512M", cpus=2),
        {},
        {},
    )
    assert (found.command, found.name, found.tenant) == (("python", "t.py"), "train", "team")
    assert (found.devices, found.time_limit_s, found.memory_gib) == ("2..4", 5400.0, 0.5)
    assert (found.cpus, found.workdir, found.held) == (2.0, "/tmp", False)
    assert request_of(asked(run="a | b", devices=3, suspend=True), {}, {}).held
    assert request_of(asked(run="a | b"), {}, {}).command == (*SHELL, "a | b")


@pytest.mark.parametrize(
    "spec", [{}, {"command": ["a"], "run": "a"}, {"run": "a", "timeLimit": "soon"}]
)
def test_what_is_no_job_is_refused(spec: dict[str, Any]):
    with pytest.raises(InvalidInputError):
        request_of(asked(**spec), {}, {})


def test_values_of_secrets_are_secrets():
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    ]
    named = references(asked(run="x", env=env)["spec"])
    assert named == [Reference("B", "secrets", "s", "k"), Reference("C", "configmaps", "c", "k")]
    found = request_of(asked(run="x", env=env), dict(zip(named, ("two", "three"), strict=True)), {})
    assert (found.env, found.secrets) == ({"A": "1", "C": "three"}, {"B": "two"})


def test_jobs_that_it_comes_after_are_named_by_their_ids():
    found = request_of(asked(run="x", after=["a"], afterAny=["b"]), {}, {"a": "1", "b": "2"})
    assert (found.after, found.after_any) == (("1",), ("2",))


def test_only_what_a_job_cannot_change_counts_as_another_spec():
    before = fixed({"run": "x", "priority": 1})
    assert fixed({"run": "x", "priority": 2, "suspend": True}) == before
    assert fixed({"run": "y", "priority": 1}) != before


def test_a_status_says_what_the_job_says():
    view = JobView(
        id="7",
        name="a",
        user="u",
        tenant="t",
        state=State.RUNNING,
        cause="running",
        devices=("n0:0", "n0:1", "n1:0"),
        progress=Progress(step=30.0, total=120.0),
        end=Estimate(low_s=200.0, high_s=300.0, known=True),
        started_at=0.0,
    )
    found = status_of(view, {})
    assert (found["devices"], found["nodes"], found["progress"]) == (3, "n0,n1", "25%")
    assert (found["eta"], found["startTime"]) == ("5m", "1970-01-01T00:00:00Z")
    holds = {each["type"]: each["status"] for each in found["conditions"]}
    assert [holds[each] for each in ("Running", "Complete", "Failed")] == ["True", "False", "False"]


@pytest.mark.parametrize(
    ("state", "true"),
    [
        (State.SUCCEEDED, "Complete"),
        (State.FAILED, "Failed"),
        (State.TIMEOUT, "Failed"),
        (State.CANCELLED, "Failed"),
        (State.PAUSED, "Suspended"),
        (State.HELD, "Suspended"),
    ],
)
def test_a_condition_holds_for_each_state(state: State, true: str):
    view = JobView(id="7", name="a", user="u", tenant="t", state=state)
    found = status_of(view, {})["conditions"]
    assert {each["type"] for each in found if each["status"] == "True"} == {"Accepted", true}


def test_a_condition_keeps_when_it_last_changed_and_others_stay():
    old = {"status": "True", "reason": "A", "message": "m", "lastTransitionTime": "then"}
    before = [{"type": "Running", **old}, {"type": "Theirs", **old}]
    same = conditions({"Running": (True, "other-word", "")}, before)
    assert same[0]["lastTransitionTime"] == "then"
    assert (same[0]["reason"], same[1]) == ("OtherWord", before[1])
    changed = conditions({"Running": (False, "x", "")}, before)
    assert changed[0]["lastTransitionTime"] != "then"


def test_only_what_differs_is_written():
    before = {"state": "RUNNING", "devices": 2, "eta": "5m", "exitCode": 0}
    assert not difference(before, dict(before))
    assert difference(before, {"eta": "", "devices": 0}) == {"eta": None, "devices": 0}
    assert not difference({}, {"eta": "", "exitCode": None})
