"""Which nodes are used, and what the pods of their agents have: from objects alone."""

import copy
from typing import Any

import pytest

from tests.on_kubernetes.agents import documents
from treadle.engines.clusters.kubernetes import agent_pods
from treadle.engines.clusters.kubernetes.agent_pods import Offer, manifest, offer
from treadle.engines.context import EngineOptions

OPTIONS = EngineOptions()
ROOT = "/var/lib/jobs"


def template(**spec: object) -> dict[str, Any]:
    (found,) = [each for each in documents() if each["kind"] == "PodTemplate"]
    found["metadata"]["uid"] = "the-uid"
    found["template"]["spec"] |= spec
    return found


def node(*, ready: str = "True", labels: object = None, taints: object = (), **allocatable: str):
    return {
        "metadata": {"name": "a", "labels": labels or {}},
        "spec": {"taints": taints},
        "status": {
            "allocatable": {"cpu": "8", **allocatable},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def offered(found: dict[str, Any], options: EngineOptions = OPTIONS, spec: Any = None):
    return offer(found, template(**(spec or {})), options)


def test_gpus_come_before_slots_and_a_label_before_both():
    gpus = {"nvidia.com/gpu": "4"}
    assert offered(node(**gpus)) == Offer(gpus=4)
    assert offered(node(labels={"treadle.dev/slots": "3"}, **gpus)) == Offer(slots=3)
    assert offered(node(labels={"treadle.dev/slots": "0"}, **gpus)) is None


@pytest.mark.parametrize(("cpu", "slots"), [("8", 7), ("1", 1), ("3920m", 2), ("900m", 1)])
def test_slots_leave_a_core_to_the_node(cpu: str, slots: int):
    assert offered(node(cpu=cpu)) == Offer(slots=slots)
    assert offered(node(cpu=cpu), EngineOptions(devices=5)) == Offer(slots=5)


def test_what_its_owner_can_end_is_said():
    cordoned = node()
    cordoned["spec"]["unschedulable"] = True
    for found in (node(ready="Unknown"), cordoned, node(labels={"treadle.dev/slots": "two"})):
        wanted = offered(found)
        assert wanted is not None
        assert wanted.objection


@pytest.mark.parametrize(
    ("taints", "tolerations", "used"),
    [
        ([taint("a")], [], False),
        ([taint("a", effect="PreferNoSchedule")], [], True),
        ([taint("node.kubernetes.io/unreachable", effect="NoExecute")], [], True),
        ([taint("a")], [{"operator": "Exists"}], True),
        ([taint("a", "x")], [{"key": "a", "value": "x"}], True),
        ([taint("a", "x")], [{"key": "a", "value": "y"}], False),
        ([taint("a", "x")], [{"key": "a", "value": "x", "effect": "NoExecute"}], False),
        ([taint("a"), taint("b")], [{"key": "a", "operator": "Exists"}], False),
    ],
)
def test_taints_that_the_template_does_not_tolerate_keep_agents_off(taints, tolerations, used):
    assert (offered(node(taints=taints), spec={"tolerations": tolerations}) is not None) == used


def test_only_nodes_that_the_template_selects_are_used():
    wanted = {"nodeSelector": {"pool": "train"}}
    assert offered(node(), spec=wanted) is None
    assert offered(node(labels={"pool": "train", "other": "1"}), spec=wanted) is not None


def agent_of(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    return dict(found)


def test_a_pod_claims_all_gpus_and_is_owned_by_the_template():
    made = template()
    before = copy.deepcopy(made)
    pod = manifest(made, "a", Offer(gpus=4), ROOT)
    assert made == before
    assert pod["spec"]["nodeName"] == "a"
    assert agent_of(pod)["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert agent_pods.slots_of(pod) is None
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("PodTemplate", "the-uid")


def test_a_pod_with_slots_claims_no_gpu():
    pod = manifest(template(), "a", Offer(slots=3), ROOT)
    assert "limits" not in agent_of(pod).get("resources", {})
    assert agent_pods.slots_of(pod) == 3


def test_the_state_folder_is_mounted_unless_the_template_mounts_what_has_it():
    assert agent_pods.has_folder(manifest(template(), "a", Offer(slots=1), ROOT), ROOT)
    made = template(volumes=[{"name": "nfs", "nfs": {"server": "s", "path": "/"}}])
    (container,) = made["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "nfs", "mountPath": "/var/lib"}]
    pod = manifest(made, "a", Offer(slots=1), ROOT)
    assert not any("hostPath" in each for each in pod["spec"]["volumes"])
    assert agent_pods.has_folder(pod, ROOT)
    assert not agent_pods.has_folder(pod, "/home/me")


def test_a_pod_says_why_it_does_not_run():
    def pod(**status: object) -> dict[str, Any]:
        return {"metadata": {}, "status": status}

    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    found = pod(phase="Pending", containerStatuses=[{"state": {"waiting": waiting}}])
    assert agent_pods.trouble(found) == "ErrImagePull: no such image"
    creating = {"reason": "ContainerCreating"}
    assert not agent_pods.trouble(pod(containerStatuses=[{"state": {"waiting": creating}}]))
    refused = pod(phase="Failed", reason="OutOfnvidia.com/gpu", message="4 asked, 2 free")
    assert agent_pods.is_over(refused)
    assert agent_pods.trouble(refused) == "4 asked, 2 free"
    assert agent_pods.is_ending({"metadata": {"deletionTimestamp": "now"}, "status": {}})
    assert not agent_pods.is_over(pod(phase="Running"))
