"""The pod that is the agent of a node: from the PodTemplate of the namespace and the node.

The template is the cluster's own: image, volumes, tolerations, users. Added are what an agent needs
to be called and to renew its lease, and the devices: all GPUs of the node, so that neither
kube-scheduler nor Kueue gives them to others. A pod names its node itself; the kubelet refuses it
if others hold a part of what it asks for.
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from treadle.engines.clusters.kubernetes.api import Object
from treadle.engines.clusters.kubernetes.names import (
    AGENT,
    GPU,
    LABELS,
    PORT,
    SLOTS,
    pod_of,
)
from treadle.engines.context import EngineOptions

KEYS, API = "/treadle/keys", "/treadle/api"  # folders in the pod
COMMAND = ("python3", "-m", "treadle.engines.clusters.kubernetes.agent_pod")
# A node without contact keeps its jobs until --failover is over, and Treadle decides then.
STAYS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    for key in ("not-ready", "unreachable")
)
PASSING = ("node.kubernetes.io/",)  # taints that say how a node is doing


class Offer(NamedTuple):
    """What a node has for Treadle."""

    gpus: int = 0
    slots: int | None = None  # CPU slots in place of GPUs
    objection: str = ""  # why no agent is started there, for people


def offer(node: Object, template: Object, options: EngineOptions) -> Offer | None:
    """None: the node is not meant for Treadle."""
    labels = node["metadata"].get("labels", {})
    spec = template["template"]["spec"]
    if labels.get(SLOTS) == "0" or not _is_selected(labels, spec) or not _is_tolerated(node, spec):
        return None
    if not _is_ready(node):
        return Offer(objection="Kubernetes says that it is not ready")
    if is_cordoned(node):
        return Offer(objection=cordoned(node["metadata"]["name"]))
    allocatable = node["status"].get("allocatable", {})
    gpus = int(allocatable.get(GPU, "0"))
    if SLOTS in labels:
        return _slots(labels[SLOTS])
    if gpus:
        return Offer(gpus=gpus)
    return Offer(slots=options.devices or max(1, _cores(allocatable) - 1))


def cordoned(node: str) -> str:
    return f"it is cordoned; kubectl uncordon {node} ends that"


def _slots(label: str) -> Offer:
    if not (label.isascii() and label.isdigit()):
        return Offer(objection=f"its label {SLOTS} is {label!r}; expected a number")
    return Offer(slots=int(label))


def _cores(allocatable: Mapping[str, str]) -> int:
    found = allocatable.get("cpu", "1")
    return int(found[:-1]) // 1000 if found.endswith("m") else int(found)


def _is_selected(labels: Mapping[str, str], spec: Object) -> bool:
    return bool((spec.get("nodeSelector") or {}).items() <= labels.items())


def _is_tolerated(node: Object, spec: Object) -> bool:
    taints = [
        each for each in node["spec"].get("taints", ()) if each["effect"] != "PreferNoSchedule"
    ]
    kept = [each for each in taints if not each["key"].startswith(PASSING)]
    return all(
        any(_tolerates(each, taint) for each in spec.get("tolerations", ())) for taint in kept
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    wanted = (toleration.get("key"), toleration.get("value", ""))
    return wanted == (taint["key"], taint.get("value", ""))


def _is_ready(node: Object) -> bool:
    found = node["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def manifest(template: Object, node: str, found: Offer, root: str) -> Object:
    """The pod. root: the state folder, whose path is the same on all nodes."""
    inner = copy.deepcopy(template["template"])
    spec, metadata = inner["spec"], inner.get("metadata") or {}
    containers = spec["containers"]
    agent = next((each for each in containers if each["name"] == AGENT), containers[0])
    slots = {} if found.slots is None else {SLOTS: str(found.slots)}
    _complete(agent, found)
    _mount(spec, agent, root)
    spec |= {"nodeName": node, "restartPolicy": "Always", "automountServiceAccountToken": False}
    spec.setdefault("serviceAccountName", AGENT)
    spec["tolerations"] = [*spec.get("tolerations", ()), *STAYS]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_of(node),
            "labels": {**(metadata.get("labels") or {}), **LABELS},
            "annotations": {**(metadata.get("annotations") or {}), **slots},
            "ownerReferences": [owner_of(template)],
        },
        "spec": spec,
    }


def owner_of(template: Object) -> Object:
    """What it owns is removed with it."""
    metadata = template["metadata"]
    owner: Object = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": "v1", "kind": "PodTemplate", **owner}


def _complete(agent: Object, found: Offer) -> None:
    """How it is started and asked."""
    if not agent.get("command"):
        agent["command"] = list(COMMAND)
    fields = {
        "TREADLE_POD_ADDRESS": "status.podIP",
        "TREADLE_NAMESPACE": "metadata.namespace",
    }
    agent["env"] = [
        *(agent.get("env") or ()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]
    agent["ports"] = [{"name": "agent", "containerPort": PORT}]
    probe = {"path": "/alive", "port": PORT, "scheme": "HTTPS"}
    agent["readinessProbe"] = {"httpGet": probe, "periodSeconds": 10, "timeoutSeconds": 5}
    if found.gpus:
        resources = agent.setdefault("resources", {})
        resources["limits"] = {**(resources.get("limits") or {}), GPU: str(found.gpus)}


def _mount(spec: Object, agent: Object, root: str) -> None:
    """Keys, a token that Kubernetes renews, shared memory, and the state folder."""
    token: Object = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    authority = {
        "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    }
    wanted: list[tuple[str, Object, bool]] = [
        (KEYS, {"secret": {"secretName": AGENT, "defaultMode": 0o400}}, True),
        (API, {"projected": {"sources": [token, authority]}}, True),
        ("/dev/shm", {"emptyDir": {"medium": "Memory"}}, False),
        (root, {"hostPath": {"path": root, "type": "DirectoryOrCreate"}}, False),
    ]
    mounts = agent.setdefault("volumeMounts", [])
    volumes = spec.setdefault("volumes", [])
    for number, (path, source, only_read) in enumerate(wanted):
        if any(_covers(each["mountPath"], path) for each in mounts):
            continue
        name = f"treadle-{number}"
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": path, "readOnly": only_read})


def _covers(mount: str, path: str) -> bool:
    return path == mount or path.startswith(f"{mount.rstrip('/')}/")


def has_folder(pod: Object, root: str) -> bool:
    """Whether its agent keeps what it writes there."""
    mounts = [each for one in pod["spec"]["containers"] for each in one.get("volumeMounts", ())]
    return any(_covers(each["mountPath"], root) for each in mounts)


def slots_of(pod: Object) -> int | None:
    """CPU slots that a pod was made with; None: it has GPUs."""
    found = pod["metadata"].get("annotations", {}).get(SLOTS)
    return None if found is None else int(found)


def trouble(pod: Object) -> str:
    """Why a pod does not run yet, or any more, as Kubernetes says it; empty: it does not say."""
    status = pod.get("status", {})
    for each in status.get("containerStatuses", ()):
        waiting = each.get("state", {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return str(status.get("message") or status.get("reason") or "")


def is_over(pod: Object) -> bool:
    """It will never run again; its processes have ended."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def is_ending(pod: Object) -> bool:
    """It was deleted or evicted; its agent stops what runs there."""
    return "deletionTimestamp" in pod["metadata"]


def is_cordoned(node: Object) -> bool:
    return bool(node["spec"].get("unschedulable"))


def address_of(pod: Object) -> str:
    """Where it listens; empty as long as it does not run."""
    status = pod.get("status", {})
    return str(status.get("podIP", "")) if status.get("phase") == "Running" else ""
