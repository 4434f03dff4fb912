"""Jobs by kubectl, on a real cluster with a real daemon."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.on_kubernetes.reach import Cluster
from treadle.server.job_objects.translator import FINALIZER

pytestmark = pytest.mark.engine
NAMESPACE, USER = "team-a", "nobody"
WITHIN_S = 90


class Operator:
    """An administrator of the cluster, with kubectl; and who runs the daemon."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self._cluster, self._state = cluster, state
        self.kubectl = cluster.kubectl
        self._environment = {**os.environ, "TREADLE_SOCKET": str(cluster.folder / "treadle.sock")}

    def up(self) -> None:
        self.treadle("up", "--engine", "kubernetes", "--state", str(self._state), "--no-port")

    def treadle(self, *words: str) -> str:
        environment = {**self._environment, "KUBECONFIG": str(self._cluster.controller)}
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def apply(self, name: str, spec: Mapping[str, Any], namespace: str = NAMESPACE) -> None:
        metadata = {"name": name, "namespace": namespace}
        head = {"apiVersion": "treadle.dev/v1alpha1", "kind": "TreadleJob"}
        self.kubectl("apply", "-f", "-", given={**head, "metadata": metadata, "spec": spec})

    def until(self, name: str, what: str, namespace: str = NAMESPACE) -> None:
        within = f"--timeout={WITHIN_S}s"
        self.kubectl("wait", "-n", namespace, f"tj/{name}", f"--for={what}", within)

    def until_state(self, name: str, state: str, namespace: str = NAMESPACE) -> None:
        self.until(name, f"jsonpath={{.status.state}}={state}", namespace)

    def found(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.kubectl("get", "tj", "-n", NAMESPACE, name, "-o", "json")
        )
        return found

    def patch(self, name: str, change: Mapping[str, Any], *more: str) -> None:
        words = ("patch", "tj", "-n", NAMESPACE, name, "--type=merge", "-p", json.dumps(change))
        self.kubectl(*words, *more)

    def jobs(self, name: str) -> list[dict[str, Any]]:
        """Those of that name in Treadle, the newest first."""
        listed = json.loads(self.treadle("ps", "-A", "-a", "--json"))["jobs"]
        return [each for each in listed if each["name"] == name]


@pytest.fixture(scope="module")
def operator(shared: Path, kubernetes: Cluster) -> Iterator[Operator]:
    found = Operator(kubernetes, shared / "objects")
    found.kubectl("create", "namespace", NAMESPACE)
    found.kubectl("annotate", "namespace", NAMESPACE, f"treadle.dev/user={USER}")
    found.up()
    try:
        yield found
    finally:
        with suppress(AssertionError):
            found.kubectl("delete", "tj", "--all", "-A")
        found.treadle("down")


def test_a_workflow_of_objects_runs_in_order_on_slots(operator: Operator):
    steps: dict[str, dict[str, Any]] = {
        "preprocess": {"run": "echo data; id -un"},
        "train": {"command": ["true"], "devices": 2, "after": ["preprocess"]},
        "evaluate": {"command": ["true"], "after": ["train"]},
        "keep": {"command": ["true"], "after": ["evaluate"]},
    }
    for name in reversed(steps):  # In any order: one waits for those that are not there yet.
        operator.apply(name, steps[name])
    operator.until("keep", "condition=complete")
    found = [operator.found(name) for name in steps]
    for before, after in pairwise(found):
        assert before["status"]["completionTime"] <= after["status"]["startTime"]
    assert [each["status"]["exitCode"] for each in found] == [0, 0, 0, 0]
    assert not any(FINALIZER in each["metadata"].get("finalizers", ()) for each in found)
    said = operator.treadle("logs", found[0]["status"]["id"]).split()
    assert said == ["data", USER]
    assert "JobStarted" in operator.kubectl("describe", "tj", "-n", NAMESPACE, "train")
    head, *rows = operator.kubectl("get", "tj", "-n", NAMESPACE).splitlines()
    assert head.split() == ["NAME", "STATE", "DEVICES", "PROGRESS", "ETA", "AGE", "REASON"]
    assert [row.split()[1] for row in rows] == ["SUCCEEDED"] * 4


@pytest.mark.parametrize(
    ("name", "spec"),
    [("too-large", {"run": "x", "devices": 70}), ("no-time", {"run": "x", "timeLimit": "soon"})],
)
def test_what_cannot_be_submitted_says_why(operator: Operator, name: str, spec: dict[str, Any]):
    operator.apply(name, spec)
    operator.until_state(name, "REFUSED")
    assert operator.found(name)["status"]["reason"]
    operator.kubectl("delete", "tj", "-n", NAMESPACE, name)
    assert not operator.jobs(name)


def test_what_the_schema_refuses_is_no_object(operator: Operator):
    for spec in ({}, {"run": "x", "command": ["x"]}, {"run": "x", "workdir": "here"}):
        with pytest.raises(AssertionError, match="TreadleJob"):
            operator.apply("none", spec)


def test_a_namespace_without_a_user_runs_nothing_as_root(operator: Operator):
    operator.apply("root", {"run": "id"}, "default")
    operator.until_state("root", "REFUSED", "default")
    operator.kubectl("delete", "tj", "-n", "default", "root")
    assert not operator.jobs("root")


def test_an_object_is_suspended_and_changed_and_goes_on(operator: Operator):
    operator.apply("long", {"command": ["sleep", "1000"]})
    operator.until_state("long", "RUNNING")
    operator.patch("long", {"spec": {"suspend": True, "priority": "low"}})
    operator.until("long", "condition=suspended")
    assert operator.jobs("long")[0]["priority"] < 0
    operator.patch("long", {"spec": {"suspend": False, "command": ["true"]}})
    operator.until("long", "condition=running")
    operator.until("long", "condition=applied=false")  # The command cannot change.
    operator.kubectl("delete", "tj", "-n", NAMESPACE, "long")
    assert [each["state"] for each in operator.jobs("long")] == ["CANCELLED"]


def test_an_object_stays_one_job_whatever_is_forgotten(operator: Operator):
    operator.apply("once", {"command": ["sleep", "1000"]})
    operator.until_state("once", "RUNNING")
    operator.treadle("down")
    gone = {"id": None, "store": None, "state": None}
    operator.patch("once", {"status": gone}, "--subresource=status")
    operator.up()
    operator.until_state("once", "RUNNING")
    assert [each["state"] for each in operator.jobs("once")] == ["RUNNING"]
    operator.treadle("down")
    operator.kubectl("delete", "tj", "-n", NAMESPACE, "once", "--wait=false")
    operator.up()
    operator.until("once", "delete")
    assert [each["state"] for each in operator.jobs("once")] == ["CANCELLED"]


def test_values_of_secrets_reach_the_job_and_no_status(operator: Operator):
    env = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "words", "key": "first"}}}]
    operator.kubectl(
        "create", "secret", "generic", "words", "-n", NAMESPACE, "--from-literal=first=hidden-word"
    )
    operator.apply("reads", {"run": "echo ${#WORD}", "env": env})
    operator.until_state("reads", "REFUSED")  # Nobody allowed it.
    operator.kubectl(
        *("create", "role", "treadle-reads", "-n", NAMESPACE),
        *("--verb=get", "--resource=secrets", "--resource-name=words"),
    )
    operator.kubectl(
        *("create", "rolebinding", "treadle-reads", "-n", NAMESPACE, "--role=treadle-reads"),
        "--serviceaccount=treadle:treadle-controller",
    )
    operator.kubectl("delete", "tj", "-n", NAMESPACE, "reads")
    operator.apply("reads", {"run": "echo ${#WORD}", "env": env})
    operator.until("reads", "condition=complete")
    found = operator.found("reads")
    assert operator.treadle("logs", found["status"]["id"]).strip() == str(len("hidden-word"))
    assert "hidden-word" not in json.dumps(found)


def test_a_drained_node_stops_its_jobs_and_they_go_on_elsewhere(operator: Operator):
    until_stopped = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    operator.apply("moves", {"run": until_stopped, "resumable": True})
    operator.until_state("moves", "RUNNING")
    before = operator.found("moves")["status"]
    operator.kubectl(
        *("drain", before["nodes"], "--force", "--delete-emptydir-data", f"--timeout={WITHIN_S}s")
    )
    try:
        operator.until("moves", "jsonpath={.status.attempts}=2")
        operator.until_state("moves", "RUNNING")
        assert operator.found("moves")["status"]["nodes"] != before["nodes"]
        first, _ = json.loads(operator.treadle("describe", before["id"], "--json"))["attempts"]
        assert (first["told"], first["code"]) == ("stopped", 0)
    finally:
        operator.kubectl("uncordon", before["nodes"])
    (job,) = operator.jobs("moves")
    assert job["failures"] == 0
    operator.kubectl("delete", "tj", "-n", NAMESPACE, "moves")
