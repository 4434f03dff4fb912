"""How agents run on the test cluster: deploy/ as it is, with an image that mounts this machine."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.on_kubernetes.image import IMAGE
from tests.on_kubernetes.reach import API_PORT, HERE, TESTS, Cluster

DEPLOY = TESTS / "deploy"
PATHS = {
    "PodTemplate": "/api/v1/namespaces/treadle/podtemplates",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/treadle/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/treadle/configmaps",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/treadle/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/treadle/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/treadle/networkpolicies",
}


def deploy(cluster: Cluster, shared: Path) -> None:
    """Everything of deploy/. shared: a folder that the nodes and this process have."""
    for document in documents():
        if document["kind"] in ("Deployment", "PersistentVolumeClaim", "Service"):
            continue  # Nobody acts upon them there; test_controller_pod.py makes the pod.
        if document["kind"] == "PodTemplate":
            _adapt(document, shared)
        cluster.create(PATHS[document["kind"]], document)
    account = f"{PATHS['ServiceAccount']}/treadle-controller/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = json.loads(cluster.create(account, request))["status"]["token"]
    write_kubeconfig(cluster.kubeconfig, cluster.controller, token)
    # As the controller manager would.
    authority = (cluster.folder / "api.crt").read_text()
    cluster.create(
        PATHS["ConfigMap"],
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt"},
            "data": {"ca.crt": authority},
        },
    )


def write_kubeconfig(given: Path, path: Path, token: str) -> None:
    """The same cluster, as the one who has that token."""
    document = yaml.safe_load(given.read_text())
    document["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(document))


def documents() -> Iterable[dict[str, Any]]:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    for name in listed:
        yield from yaml.safe_load_all((DEPLOY / name).read_text())


def _adapt(template: dict[str, Any], shared: Path) -> None:
    spec = template["template"]["spec"]
    (agent,) = spec["containers"]
    agent["command"] = [sys.executable, "-m", "treadle.engines.clusters.kubernetes.agent_pod"]
    at_home(spec, agent, shared)


def at_home(spec: dict[str, Any], container: dict[str, Any], shared: Path) -> None:
    """Python and Treadle are those of this machine, and so is the way to the API server."""
    container["image"] = IMAGE
    container["env"] = [
        *container.get("env", ()),
        {"name": "KUBERNETES_SERVICE_HOST", "value": HERE},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(API_PORT)},
        {"name": "PATH", "value": "/usr/sbin:/usr/bin"},
        {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
    ]
    wanted = {Path("/usr"): True, TESTS: True, Path(sys.base_prefix): True, shared: False}
    volumes, mounts = spec.setdefault("volumes", []), container.setdefault("volumeMounts", [])
    for number, (path, only_read) in enumerate(wanted.items()):
        volumes.append({"name": f"here-{number}", "hostPath": {"path": str(path)}})
        mounts.append({"name": f"here-{number}", "mountPath": str(path), "readOnly": only_read})
