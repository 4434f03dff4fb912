"""What is asked of Ray: connect, list nodes, reserve them, start their agents.

All functions block and raise RayError or what Ray raises; the driver calls them in threads.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray._private import state
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError, RayError
from ray.experimental import internal_kv
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.ray.address import TOKEN_HELP, is_loopback
from treadle.engines.clusters.ray.agent_actor import NAMESPACE, POSTS, AgentActor

NAMED = "treadle.io/name"  # a label: the node's name in Treadle
RACKS = ("treadle.io/rack", "rack")
TYPED = "treadle.io/device-type"  # a label: what its devices are called
OTHERS_WITHIN_S = 10.0  # for an agent to say whose jobs it has
SLOTS = "treadle.io/slots"  # a label: so many CPU slots; 0: the node is not used
ID = "ray.io/node-id"
RESERVED = "treadle-"  # before the id of a node: the name of its placement group
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
NOT_NAMES = (".", "..")  # The files of a node are in a folder of its name.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A member of the cluster, as the GCS lists it."""

    id: str
    name: str  # in Treadle
    address: str
    rack: str
    gpus: int
    cpus: int
    slots: int | None = None  # CPU slots, as its label says
    device_type: str = ""  # likewise
    # What is wrong with its labels or its name; the node is used without what they say.
    problem: str = ""


def check_lets_in(address: str) -> None:
    """Raise InvalidInputError if it is no cluster of this version, or refuses the token."""
    try:
        GcsClient(address=address).internal_kv_keys(b"", namespace=b"treadle", timeout=5)
    except AuthenticationError:
        raise InvalidInputError(
            f"the Ray cluster at {address} refused the token; {TOKEN_HELP}"
        ) from None
    except RayError as error:
        raise InvalidInputError(
            f"what answers at {address} is no Ray cluster of version {ray.__version__}: "
            f"{first_line(error)}"
        ) from None


def connect(address: str) -> None:
    """Become a driver of the cluster. Raises InvalidInputError if it does not let us in."""
    check_lets_in(address)
    own = {"_node_ip_address": "127.0.0.1"} if is_loopback(address) else {}
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="WARNING",
            **own,
        )
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise InvalidInputError(
            f"this machine cannot join the Ray cluster at {address} ({first_line(error)}); "
            "Treadle runs on one of its nodes"
        ) from None


class GcsValues:
    """The key-value store of the GCS, in a namespace of Treadle's own."""

    def create(self, key: str, value: bytes) -> bool:
        there = internal_kv._internal_kv_put(
            key.encode(), value, overwrite=False, namespace=NAMESPACE.encode()
        )
        return not there

    def put(self, key: str, value: bytes) -> None:
        internal_kv._internal_kv_put(key.encode(), value, namespace=NAMESPACE.encode())

    def get(self, key: str) -> bytes | None:
        found: bytes | None = internal_kv._internal_kv_get(
            key.encode(), namespace=NAMESPACE.encode()
        )
        return found

    def keys(self, prefix: str) -> list[str]:
        found = internal_kv._internal_kv_list(prefix.encode(), namespace=NAMESPACE.encode())
        return [key.decode() for key in found]

    def delete(self, key: str) -> None:
        internal_kv._internal_kv_del(key.encode(), namespace=NAMESPACE.encode())


def nodes() -> list[RayNode]:
    """The nodes that are alive and have something to run jobs on."""
    return [node for row in ray.nodes() if row["Alive"] and (node := node_of(row)) is not None]


def node_of(row: Mapping[str, Any]) -> RayNode | None:
    """A node as Treadle sees it; None if it was started to run nothing.

    That is with no CPUs and no GPUs, or with the label `treadle.io/slots=0`.

    Its name must stay the same when its Ray is started again. It is the label `treadle.io/name`,
    else the name that Ray was given (`--node-name`), else the host's.
    """
    resources, labels = row["Resources"], row.get("Labels") or {}
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
    slots, problem = _slots(labels.get(SLOTS, ""))
    if slots == 0 or (not gpus and not cpus):
        return None
    own = str(row.get("NodeName") or "")
    if own == row["NodeManagerAddress"]:  # Ray's default.
        own = ""
    names = (labels.get(NAMED), own, row["NodeManagerHostname"], row["NodeID"][:12])
    named = [NOT_IN_NAMES.sub("-", name)[:63] for name in names if name]
    usable = [name for name in named if name not in NOT_NAMES]
    if named[0] in NOT_NAMES:
        problem = f"it is called {named[0]}, which leads out of the folder of nodes"
    return RayNode(
        id=row["NodeID"],
        name=usable[0],
        address=row["NodeManagerAddress"],
        rack=next((labels[each] for each in RACKS if labels.get(each)), ""),
        gpus=gpus,
        cpus=cpus,
        slots=slots,
        device_type=labels.get(TYPED, "").strip()[:63],
        problem=problem,
    )


def _slots(text: str) -> tuple[int | None, str]:
    """The value of the label, and what is wrong with it; None if there is none, or no number."""
    if not text:
        return None, ""
    if text.isascii() and text.isdigit() and len(text) < 5:
        return int(text), ""
    return None, f"its label {SLOTS} is {text[:40]!r} and not a number from 0 to 9999"


def attended() -> set[str]:
    """The ids of nodes whose agents were told what to be."""
    return {key.removeprefix(POSTS) for key in GcsValues().keys(POSTS)}


def death_of(node_id: str) -> str:
    """Why Ray says that a node is dead, in a few words."""
    for row in ray.nodes():
        if row["NodeID"] == node_id and row.get("DeathReasonMessage"):
            return str(row["DeathReasonMessage"]).split(".")[0].strip()
    return "the node is no member of the Ray cluster any more"


# -- reservation ----------------------------------------------------------------------------------


def bundle(node: RayNode, devices: int | None) -> dict[str, float]:
    """What Treadle manages of a node: its GPUs, or CPU slots where there are none.

    devices: CPU slots in place of GPUs on all nodes whose labels do not say how many they have. No
    node has more of them than Ray has CPUs there.
    """
    slots = devices if node.slots is None else node.slots
    if node.gpus and slots is None:
        return {"GPU": float(node.gpus)}
    return {"CPU": float(min(node.cpus, slots or node.cpus))}


def reserve(node: RayNode, devices: int | None) -> PlacementGroup:
    """A placement group that holds what Treadle manages there, until `release`.

    It outlives the controller, as the jobs do. It is made once for each node; one of another size
    is replaced.
    """
    name, wanted = f"{RESERVED}{node.id}", bundle(node, devices)
    try:
        found = get_placement_group(name)
    except ValueError:
        found = None
    if found is not None:
        if found.bundle_specs == [wanted]:
            return found
        remove_placement_group(found)
    return placement_group(
        [wanted],
        strategy="STRICT_PACK",
        name=name,
        lifetime="detached",
        bundle_label_selector=[{ID: node.id}],
    )


def is_reserved(group: PlacementGroup, *, within_s: float) -> bool:
    return bool(group.wait(timeout_seconds=within_s))


# -- agents ---------------------------------------------------------------------------------------


def agent_of(node: RayNode) -> Any:  # noqa: ANN401  # Ray's handles have no types of their own.
    """The agent actor of a node; it is started if there is none."""
    return AgentActor.options(  # type: ignore[attr-defined]
        name=f"agent-{node.id}",
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=256,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
    ).remote()


def others_on(node: RayNode, post: bytes) -> str:
    """The state folder of another Treadle whose jobs run there, by its agent; empty: none is known.

    It blocks, and starts nothing.
    """
    try:
        agent = ray.get_actor(f"agent-{node.id}", namespace=NAMESPACE)
        found: str = ray.get(agent.others.remote(post), timeout=OTHERS_WITHIN_S)
    except (RayError, ValueError, AttributeError):  # There is none, or of another version.
        return ""
    return found


def running_on(node_id: str) -> dict[str, int]:
    """Ranks that run there, by job, as far as an agent says so."""
    try:
        agent = ray.get_actor(f"agent-{node_id}", namespace=NAMESPACE)
        found: dict[str, int] = ray.get(agent.running.remote(), timeout=OTHERS_WITHIN_S)
    except (RayError, ValueError, AttributeError):  # There is none, or of another version.
        return {}
    return found


def end_on(node_id: str) -> None:
    """Have what runs there killed, as far as an agent can."""
    with suppress(RayError, ValueError, AttributeError):
        agent = ray.get_actor(f"agent-{node_id}", namespace=NAMESPACE)
        ray.get(agent.revoke.remote(), timeout=OTHERS_WITHIN_S)


def restart_actor(node: RayNode) -> None:
    """Have Ray kill the process of the actor, if one runs, and start another.

    If it does not end by itself, its raylet kills it after five seconds, also one that is stopped.
    """
    actor = ray.get_actor(f"agent-{node.id}", namespace=NAMESPACE)
    if state.actors(actor._actor_id.hex()).get("State") == "ALIVE":
        ray.kill(actor, no_restart=False)


def replace_agent(node: RayNode) -> Any:  # noqa: ANN401
    """Another agent actor, of this version of Treadle."""
    ray.kill(agent_of(node))
    return agent_of(node)


def forget(node_id: str) -> None:
    """Remove what is kept of a node: its agent, its reservation, and what its agent was told."""
    with suppress(ValueError):
        ray.kill(ray.get_actor(f"agent-{node_id}", namespace=NAMESPACE))
    with suppress(ValueError):
        remove_placement_group(get_placement_group(f"{RESERVED}{node_id}"))
    GcsValues().delete(f"{POSTS}{node_id}")


def kept() -> set[str]:
    """The ids of nodes of which something is kept: a reservation, or what an agent was told."""
    groups = [row["name"] for row in placement_group_table().values() if row["state"] != "REMOVED"]
    found = {name.removeprefix(RESERVED) for name in groups if name.startswith(RESERVED)}
    return found | attended()


def forget_the_dead() -> None:
    """Nodes that were lost while there was no controller, or while they were being reserved."""
    found = kept()
    # Asked last: a node that joins meanwhile is alive.
    for node_id in found - {row["NodeID"] for row in ray.nodes() if row["Alive"]}:
        forget(node_id)


def first_line(error: Exception) -> str:
    """What Ray says, without its colours and its traceback."""
    text = COLOURS.sub("", str(error)).strip() or type(error).__name__
    return text.splitlines()[0][:200]
