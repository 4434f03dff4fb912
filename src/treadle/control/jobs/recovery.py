"""Where the last controller stopped: its books, written again from the store."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle.control.jobs.desk import Desk
from treadle.control.jobs.records import kept_of, record_of
from treadle.control.learning.profiles import PROFILES_MAX, Profiles
from treadle.control.loop.clock import MonotonicClock, Stamp
from treadle.control.loop.live_policy import DEFAULT, PLACEMENT, belief_on, make
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.state import Counters, Kept
from treadle.failures.retry import Classified
from treadle.store.rows import JobRow
from treadle.store.seal import Seal
from treadle.store.store import Store

_NODE = "node"
FIRST_NODE = "first_node"


class Wanted(NamedTuple):
    """What whoever starts the controller asks for; empty means as it was."""

    policy: str = ""
    placement: str = ""


def open_desk(store: Store, root: Path, node: Node, wanted: Wanted, retry: Classified) -> Desk:
    """The desk as it was left, or a fresh one."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = store.settings()
    clock = MonotonicClock(_now(kept.get("clock")))
    cluster = Cluster((node,))
    belief = belief_on(cluster)
    name = wanted.policy or kept.get("policy") or DEFAULT
    place = wanted.placement or kept.get("placement") or PLACEMENT
    policy, decider = make(name, place, belief)
    scheduler = Scheduler(policy, cluster, retry=retry)
    desk = Desk(
        scheduler=scheduler,
        belief=belief,
        store=store,
        seal=Seal.open(root / "secrets.key"),
        clock=clock,
        node=node,
        decider=decider,
        root=root,
        profiles=Profiles(reversed(store.profiles(PROFILES_MAX))),
        failures=retry.memory,
        next_number=store.next_number(),
        last_event=store.last_line(),
    )
    if "failures" in kept:
        retry.memory.restore(json.loads(kept["failures"]))
    rows = store.active()
    _check_node(node, kept.get(_NODE), [kept_of(row) for row in rows])
    _restore(desk, kept, rows)
    return desk


def whole_node(node: Node) -> str:
    """Everything about a node, for `first_cluster`."""
    return msgspec.json.encode(node).decode()


def first_cluster(store: Store, now: Cluster) -> Cluster:
    """What the journal began with; later changes are facts of its own."""
    text = store.setting(FIRST_NODE)
    return now if text is None else Cluster((msgspec.json.decode(text, type=Node),))


def node_text(node: Node) -> str:
    return json.dumps([node.name, node.device_count, node.device_type])


def _restore(desk: Desk, kept: dict[str, str], rows: Sequence[JobRow]) -> None:
    saved = []
    for row in rows:
        record = record_of(row)
        desk.add(record)
        if record.secrets and (sealed := desk.store.secret(record.id)) is not None:
            desk.sealed[record.id] = sealed
        saved.append(kept_of(row))
    # The orders of arrival and of the queue are the books' own.
    saved.sort(key=lambda each: each.job.sequence)
    closed = {
        Device(name, number): why
        for name, number, why in json.loads(kept.get("closed", "[]"))
        if name == desk.node.name and number < desk.node.device_count
    }
    counters = Counters(*map(int, kept.get("counters", "0 0").split()))
    desk.scheduler.restore(saved, closed, counters, desk.clock.now())
    desk.open = {(row.job, row.number): row for row in desk.store.open_attempts()}
    desk.tell(*desk.gates.restore(desk.records, desk.scheduler.blocked))
    for job in desk.scheduler.jobs.values():
        if job.phase is Phase.RUNNING:
            share = job.iterations_done / job.spec.iterations
            desk.meter.begin(job.id, job.action, job.size, share, desk.clock.now())


def _now(text: str | None) -> float:
    """What the run's clock shows now: what it showed then, and the time since."""
    if not text:
        return 0.0
    try:
        run_s, boot_s, boot_id, wall_s = text.split(" ")
        stamp = Stamp(float(run_s), float(boot_s), boot_id, float(wall_s))
    except ValueError:
        raise InvalidInputError(f"the store's clock is {text[:80]!r}; it was damaged") from None
    return stamp.run_s + stamp.passed_s()


def _check_node(node: Node, text: str | None, jobs: Iterable[Kept]) -> None:
    """Jobs that hold devices need the machine that they hold them on."""
    held = {
        device
        for job, leaving, _ in jobs
        for allocation in (job.allocation, *(leaving.allocations if leaving else ()))
        if allocation is not None
        for device in allocation.devices
    }
    if text is None or not held:
        return
    name, count, kind = json.loads(text)
    gone = [device for device in held if device.number >= node.device_count]
    if (name, kind) != (node.name, node.device_type) or gone:
        raise TreadleError(
            f"jobs of this store hold devices of {name} ({count} x {kind}), and this is "
            f"{node.name} ({node.device_count} x {node.device_type}); start with the same devices, "
            "or cancel them first"
        )
