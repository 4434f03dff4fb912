"""Restores jobs, the scheduler and gates from the store, as the last controller left them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import msgspec

from treadle.control.jobs.gates import DEPENDENCY, Fact, Gates
from treadle.control.jobs.job_table import JobTable, stored_states, worst_ends
from treadle.control.jobs.records import kept_of, record_of
from treadle.control.learning import STARTS, JobLearner
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.events import DeviceClosed
from treadle.core.job import JobId
from treadle.core.lifecycle import Phase
from treadle.core.scheduler import Scheduler
from treadle.core.state import Counters, Kept
from treadle.policies.live.decide import Decision
from treadle.policies.live.fair import Used
from treadle.policies.live.patience import Count, Patience
from treadle.store.store import Store

FIRST_NODES = "first_nodes"
NODES = "nodes"
ENGINE, ADDRESS = "engine", "engine_address"  # that ran the jobs of the store last
_SPANS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # half-lives
OVERTAKEN = "overtaken"  # how often jobs of several devices were: a restart costs them no turn
_nodes = msgspec.json.Decoder(tuple[Node, ...])
_overtaken = msgspec.json.Decoder(dict[JobId, Count])


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restart leaves to do."""

    facts: Sequence[Fact]  # jobs that are not blocked any more
    closed: Mapping[Device, DeviceClosed]  # devices that were closed, and why


def restore(
    store: Store,
    jobs: JobTable,
    scheduler: Scheduler,
    learner: JobLearner,
    gates: Gates,
    now: float,
    wall_at: float,
) -> Restored:
    """Fill an empty table and an empty scheduler."""
    kept = store.settings()
    saved = []
    for row in store.active():
        record = record_of(row)
        jobs.add(record)
        if record.secrets and (sealed := store.secret(record.id)) is not None:
            jobs.sealed[record.id] = sealed
        saved.append(kept_of(row))
    # The scheduler wants jobs in their order of arrival.
    saved.sort(key=lambda each: each.job.sequence)
    closed = _closed(kept.get("closed", "[]"), scheduler.cluster)
    counters = _counters(kept.get("counters", "0 0"))
    reasons = {device: fact.reason for device, fact in closed.items()}
    scheduler.restore(saved, reasons, counters, now)
    overtaken = _overtaken.decode(kept.get(OVERTAKEN, "{}"))
    used = _used(store, scheduler.policy.half_life_s, now, wall_at)
    if overtaken or used.device_s:
        scheduler.remember(Decision(patience=Patience(overtaken), used=used))
    for attempt in store.open_attempts():
        jobs.put_open(attempt)
    begun = (Phase.RUNNING, Phase.PAUSED)
    runs = [job for job in scheduler.jobs.values() if job.phase in begun]
    for job in runs:
        share = job.iterations_done / job.spec.iterations
        # When its attempt began to make steps, this controller did not see.
        learner.meter.begin(job.id, job.action, job.attempt_size, share, now)
    learner.starts.restore(kept.get(STARTS))
    learner.listens_from = now
    for array, (member, state) in worst_ends(store, jobs.arrays).items():
        jobs.note_end(array, member, state)
    waiting = [jobs.records[i] for i, why in scheduler.blocked.items() if DEPENDENCY in why]
    names = {name for record in waiting for name in (*record.after, *record.after_any)}
    over = stored_states(store, [name for name in names if jobs.state_of(name) is None])
    return Restored(gates.restore(jobs.records, scheduler.blocked, over), closed)


def _used(store: Store, half_life_s: float, now: float, wall_at: float) -> Used:
    """What users have used: of each span before now, as much as is left of its middle."""
    if half_life_s == inf:
        return Used(now)
    sums = defaultdict[str, float](float)
    for near, far in pairwise(_SPANS):
        since_at, until_at = wall_at - far * half_life_s, wall_at - near * half_life_s
        for row in store.usage(since_at, until_at, wall_at):
            sums[row.owner] += row.allocated_s * 0.5 ** ((near + far) / 2.0)
    return Used(now, sums)


def refuse_other_engine(store: Store, engine: str) -> None:
    """Refuse to start where jobs hold devices of another engine: they may run on there.

    engine: the one that is to run the jobs.
    """
    last = store.setting(ENGINE)
    if last is None or last == engine:
        return
    if held := sorted(_held(kept_of(row) for row in store.active())):
        raise InvalidInputError(
            f"jobs of this store hold devices of the engine {last}, such as {held[0]}, and may run "
            f"there; start with {_words(store)} and let them end, or cancel them"
        )


def holding(store: Store) -> int:
    """How many jobs hold devices: they may run on where the last controller was."""
    return sum(bool(_held([kept_of(row)])) for row in store.active())


def _words(store: Store) -> str:
    """The options of `treadle up` for the engine that the store had last."""
    address = store.setting(ADDRESS)
    words = f"--engine {store.setting(ENGINE)}"
    return f"{words} --address {address}" if address else words


def nodes_at_start(store: Store, nodes: Sequence[Node], *, moved: bool = False) -> tuple[Node, ...]:
    """The nodes that the restored state needs: those of now, and lost ones that jobs hold.

    Refuses to start where jobs would lose their devices by a mistake: the machine has another name
    or other devices than before. That no node is there says nothing: agents may be slow to come.
    moved: the cluster of before is gone for good, and none of its nodes need be there.
    """
    text = store.setting(NODES)
    held = _held(kept_of(row) for row in store.active())
    if text is None or not held:
        return tuple(nodes)
    before = {node.name: node for node in nodes_of(text)}
    now = {node.name: node for node in nodes}
    for device in sorted(held):
        was, there = before.get(device.node), now.get(device.node)
        if was is not None and there is not None and not _has(there, was, device):
            raise _unlike(store, was, f"{there.device_count} x {there.device_type}")
    # A node that was lost before the last controller ended is not among those that it left.
    first = {node.name: node for node in nodes_of(store.setting(FIRST_NODES) or "[]")}
    known = {**first, **before}
    missing = {device.node for device in held} - now.keys()
    lost = [known[name] for name in sorted(missing) if name in known]
    if lost and now and not moved and not known.keys() & now.keys():
        raise _unlike(store, lost[0], "not there")
    return (*nodes, *lost)


def _has(there: Node, was: Node, device: Device) -> bool:
    # The model of GPUs is not known while their driver does not answer.
    return there.has_slots == was.has_slots and device.number < there.device_count


def _unlike(store: Store, was: Node, found: str) -> TreadleError:
    elsewhere = store.setting(ENGINE) not in (None, "local")
    before = f" (it had {_words(store)})" if elsewhere else ""
    return TreadleError(
        f"jobs of this store hold devices of node {was.name} ({was.device_count} x "
        f"{was.device_type}), which is now {found}; start with the same devices{before} and cancel "
        "these jobs first"
    )


def text_of(nodes: Sequence[Node]) -> str:
    """Nodes as the store keeps them."""
    return msgspec.json.encode(nodes).decode()


def first_cluster(store: Store, now: Cluster) -> Cluster:
    """What the journal began with; later changes are facts in it."""
    text = store.setting(FIRST_NODES)
    return now if text is None else Cluster(nodes_of(text))


def nodes_of(text: str) -> tuple[Node, ...]:
    """Nodes from the text of `text_of`."""
    try:
        return _nodes.decode(text)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"the store's nodes cannot be read: {error}") from None


def _closed(text: str, cluster: Cluster) -> dict[Device, DeviceClosed]:
    sizes = {node.name: node.device_count for node in cluster.nodes}
    found = {}
    for name, number, reason, cause in json.loads(text):
        if number < sizes.get(name, 0):
            device = Device(name, number)
            found[device] = DeviceClosed(device, reason, cause)
    return found


def _counters(text: str) -> Counters:
    return Counters(*map(int, text.split()))


def _held(jobs: Iterable[Kept]) -> set[Device]:
    return {
        device
        for job, leaving, _ in jobs
        for allocation in (job.allocation, *(leaving.allocations if leaving else ()))
        if allocation is not None
        for device in allocation.devices
    }
