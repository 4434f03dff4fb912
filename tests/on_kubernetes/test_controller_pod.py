"""The controller in the cluster: the pod that the Deployment of deploy/ makes."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.on_kubernetes.agents import DEPLOY, at_home
from tests.on_kubernetes.reach import TESTS, Cluster

pytestmark = pytest.mark.engine
NAME, NAMESPACE = "treadle-controller", "team-b"
WITHIN = "--timeout=120s"
TREADLE = [sys.executable, "-m", "treadle"]


def controller(shared: Path) -> dict[str, Any]:
    """Its pod. The state is on the node, and what runs is Treadle as it is here."""
    documents = yaml.safe_load_all((DEPLOY / "controller.yaml").read_text())
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    spec, state = template["spec"], shared / "controller"
    (container,) = spec["containers"]
    at_home(spec, container, shared)
    container["command"] = [*TREADLE, *container["command"][1:]]
    kept = [each for each in container["args"] if not each.startswith("--state")]
    container["args"] = [*kept, f"--state={state}"]
    (address,) = [each for each in container["env"] if each["name"] == "TREADLE_SOCKET"]
    address["value"] = str(state / "treadle.sock")
    for probe in ("startupProbe", "livenessProbe"):
        container[probe]["exec"]["command"] = [*TREADLE, "status"]
    claim = next(each for each in spec["volumes"] if each["name"] == "state")
    del claim["persistentVolumeClaim"]
    claim["emptyDir"] = {}
    _mount_account(spec, container)
    spec |= {"nodeName": "n0", "automountServiceAccountToken": False}
    metadata = {"name": NAME, "namespace": "treadle", "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _mount_account(spec: dict[str, Any], container: dict[str, Any]) -> None:
    """As an API server since 1.21 does, and a controller manager before."""
    field = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": authority},
        {"downwardAPI": {"items": [field]}},
    ]
    spec["volumes"].append({"name": "api", "projected": {"sources": sources}})
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    container["volumeMounts"].append({"name": "api", "mountPath": path, "readOnly": True})


def test_the_controller_runs_in_a_pod_and_gives_the_lease_back(shared: Path, kubernetes: Cluster):
    kubectl = kubernetes.kubectl
    kubectl("create", "namespace", NAMESPACE)
    kubectl("annotate", "namespace", NAMESPACE, "treadle.dev/user=nobody")
    job = {
        "apiVersion": "treadle.dev/v1alpha1",
        "kind": "TreadleJob",
        "metadata": {"name": "who", "namespace": NAMESPACE},
        "spec": {"run": "test $(id -un) = nobody"},
    }
    kubectl("apply", "-f", "-", given=controller(shared))
    try:
        kubectl("wait", "-n", "treadle", f"pod/{NAME}", "--for=condition=ready", WITHIN)
        kubectl("apply", "-f", "-", given=job)
        kubectl("wait", "-n", NAMESPACE, "tj/who", "--for=condition=complete", WITHIN)
        assert "n0" in kubectl("exec", "-n", "treadle", NAME, "--", *TREADLE, "nodes")
    finally:
        kubectl("delete", "pod", "-n", "treadle", NAME)
    holder = "jsonpath={.spec.holderIdentity}"
    assert not kubectl("get", "lease", "-n", "treadle", "treadle", "-o", holder)


def test_what_deploy_makes_is_what_kustomize_says():
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {each.name for each in DEPLOY.glob("*.yaml")}
    assert DEPLOY.parent == TESTS
