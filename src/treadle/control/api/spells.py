"""Who held which devices, and when: from the attempts and the journal in the store.

An attempt is one spell, or several if it changed its devices or its plan without a restart: then
the orders in the journal say when. What is kept of devices that were closed and nodes that came and
went is read backwards, from how they stand now.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.jobs import JobRecord, attempt_of, record_of
from treadle.control.loop import wall
from treadle.core.actions import Change, Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceClosed, DeviceOpened, NodeJoined, NodeLost
from treadle.journal.codec import decode
from treadle.store.rows import AttemptRow, JobRow, JournalRow
from treadle.store.store import Store
from treadle.wire.spells import ClosedSpell, Spell, SpellNode, SpellPage

ATTEMPTS_MAX = 5000
ORDERS_MAX = 200  # jobs whose orders are read
LINES_MAX = 2000
KINDS = tuple(kind.__name__ for kind in (DeviceClosed, DeviceOpened, NodeJoined, NodeLost))
_LEFT = frozenset({"stopped", "resized", "cancelled"})  # what ends an attempt by an order
ORDERS = (Start.__name__, Change.__name__)


class Now(NamedTuple):
    """How machines stand now."""

    nodes: Sequence[Node]
    closed: Mapping[Device, DeviceClosed]


async def spells(context: Context, since_at: float, until_at: float | None) -> SpellPage:
    now_at = wall()
    until = now_at if until_at is None else min(until_at, now_at)
    now = Now(tuple(context.cluster.nodes), dict(context.closed))
    return await context.reads.ask(lambda store: page_of(store, now, since_at, until))


def page_of(store: Store, now: Now, since_at: float, until_at: float) -> SpellPage:
    rows = store.attempts_between(since_at, until_at, limit=ATTEMPTS_MAX + 1)
    cut = len(rows) > ATTEMPTS_MAX
    rows = rows[:ATTEMPTS_MAX]
    records = {row.id: record_of(row) for row in _jobs(store, rows)}
    found: list[Spell] = []
    more = 0
    for job, attempts in _by_job(rows).items():
        record = records.get(job)
        orders: Sequence[JournalRow] = ()
        if record is not None and (record.resizes or record.changes):
            more += 1
            if more <= ORDERS_MAX:
                orders = store.lines(0, job=job, kinds=ORDERS, limit=LINES_MAX)
            cut = cut or more > ORDERS_MAX or len(orders) == LINES_MAX
        for attempt in attempts:
            found += _of_attempt(attempt, record, orders)
    shown = [
        spell
        for spell in found
        if spell.from_at < until_at and (spell.to_at is None or spell.to_at > since_at)
    ]
    shown = _handed_over(shown, rows, records)
    shown.sort(key=lambda spell: (spell.from_at, spell.job))
    lines = store.lines_since(since_at, kinds=KINDS, limit=LINES_MAX)
    cut = cut or len(lines) == LINES_MAX
    machines = Machines(now, lines)
    first_line = store.lines(0, limit=1)
    oldest = max([since_at, *([rows[-1].started_at or 0.0] if len(rows) == ATTEMPTS_MAX else [])])
    return SpellPage(
        spells=tuple(shown),
        nodes=tuple(machines.nodes),
        closed=tuple(each for each in machines.closed if (each.from_at or 0.0) < until_at),
        since_at=oldest,
        until_at=until_at,
        begins_at=first_line[0].wall_at if first_line else None,
        cut=cut,
    )


def _handed_over(
    spells: Sequence[Spell], rows: Sequence[AttemptRow], records: Mapping[str, JobRecord]
) -> list[Spell]:
    """Without the moments in which a job that was stopped still left what another had been given.

    A stop takes no longer than the grace of its job: what overlaps for less is no sharing.
    """
    stopped = {(row.job, row.number) for row in rows if attempt_of(row.body).told in _LEFT}
    began: dict[str, list[Spell]] = {}
    for spell in spells:
        for device in spell.devices:
            began.setdefault(device, []).append(spell)
    found = []
    for spell in spells:
        end_at = spell.to_at
        record = records.get(spell.job)
        if end_at is not None and record is not None and (spell.job, spell.attempt) in stopped:
            others = (other for device in spell.devices for other in began[device])
            from_at = max(spell.from_at, end_at - record.grace_s)
            taken = [o.from_at for o in others if o.job != spell.job and o.from_at > from_at]
            end_at = min([end_at, *taken])
        found.append(spell if end_at == spell.to_at else replace(spell, to_at=end_at))
    return found


def _jobs(store: Store, rows: Sequence[AttemptRow]) -> Iterator[JobRow]:
    names = list(dict.fromkeys(row.job for row in rows))
    for first in range(0, len(names), 500):
        yield from store.jobs_by_id(names[first : first + 500])


def _by_job(rows: Sequence[AttemptRow]) -> dict[str, list[AttemptRow]]:
    found: dict[str, list[AttemptRow]] = {}
    for row in rows:
        found.setdefault(row.job, []).append(row)
    return found


def _of_attempt(
    row: AttemptRow, record: JobRecord | None, lines: Sequence[JournalRow]
) -> Iterator[Spell]:
    """An attempt, cut where it was given something else without a restart."""
    assert row.started_at is not None, "only attempts that ran are asked for"
    begin_at, end_at = row.started_at, row.ended_at
    parts: list[tuple[float, tuple[str, ...], str]] = []
    first: Allocation | None = None
    for line in lines:
        order = decode(line.body)[1]
        if not isinstance(order, Start | Change):
            continue
        if order.id <= row.action:
            first = order.allocation
        elif line.wall_at >= begin_at and (end_at is None or line.wall_at < end_at):
            parts.append((line.wall_at, *_held(order.allocation)))
    if first is None:
        parts = [(begin_at, row.devices, "")]
    else:
        parts = [(begin_at, *_held(first)), *parts]
        # An order that is not carried out any more, since the job ended, is none that it had.
        if parts[-1][1] != row.devices and end_at is not None:
            parts = [part for part in parts if part[1] == row.devices or part is not parts[-1]]
    ends = [*(part[0] for part in parts[1:]), end_at]
    for (from_at, devices, plan), to_at in zip(parts, ends, strict=True):
        yield Spell(
            job=row.job,
            name="" if record is None else record.name,
            user=row.owner,
            tenant=row.tenant,
            devices=devices,
            from_at=from_at,
            to_at=to_at,
            attempt=row.number,
            plan=plan,
            sizes=() if record is None else tuple(record.sizes),
        )


def _held(allocation: Allocation) -> tuple[tuple[str, ...], str]:
    return tuple(map(str, allocation.devices)), allocation.plan.text


class Machines:
    """Nodes and closed devices, from how they stand now back to the first of these lines."""

    def __init__(self, now: Now, lines: Sequence[JournalRow]) -> None:
        self.closed: list[ClosedSpell] = []
        self.nodes: list[SpellNode] = []
        self._open_until: dict[Device, float] = {}
        self._still = dict(now.closed)
        self._there: dict[str, tuple[Node | None, float | None]] = {
            node.name: (node, None) for node in now.nodes
        }
        for line in reversed(lines):
            self._back(decode(line.body)[1], line.wall_at)
        for device, fact in self._still.items():
            self._add(device, fact, None, None)
        for device, at in self._open_until.items():
            # That it was closed is known, and not why.
            self.closed.append(
                ClosedSpell(device=str(device), from_at=None, to_at=at, cause="", because="")
            )
        for name, (node, to_at) in self._there.items():
            if node is not None:
                self._node(node, None, to_at)
            else:
                self.nodes.append(SpellNode(name=name, device_type="", devices=0, to_at=to_at))
        self.nodes.sort(key=lambda node: (node.name, node.from_at or 0.0))
        self.closed.sort(key=lambda spell: (spell.from_at or 0.0, spell.device))

    def _back(self, fact: object, at: float) -> None:
        match fact:
            case DeviceOpened():
                self._open_until |= dict.fromkeys(fact.devices, at)
            case DeviceClosed():
                for device in fact.devices:
                    self._back_closed(device, fact, at)
            case NodeLost(name):
                # A controller that starts again may say once more what was lost before.
                if self._there.get(name, (None, None))[0] is None:
                    self._there[name] = (None, at)
            case NodeJoined(node):
                _, to_at = self._there.pop(node.name, (None, None))
                self._node(node, at, to_at)

    def _back_closed(self, device: Device, fact: DeviceClosed, at: float) -> None:
        if device in self._still and device not in self._open_until:
            self._still.pop(device)
            self._add(device, fact, at, None)
        else:
            # Closed again for another reason while it was closed: one follows the other.
            self._add(device, fact, at, self._open_until.pop(device, None))
        self._open_until.pop(device, None)

    def _add(
        self, device: Device, fact: DeviceClosed, from_at: float | None, to_at: float | None
    ) -> None:
        self.closed.append(
            ClosedSpell(
                device=str(device),
                from_at=from_at,
                to_at=to_at,
                cause=fact.cause,
                because=fact.reason,
            )
        )

    def _node(self, node: Node, from_at: float | None, to_at: float | None) -> None:
        self.nodes.append(
            SpellNode(
                name=node.name,
                device_type=node.device_type,
                devices=node.device_count,
                from_at=from_at,
                to_at=to_at,
            )
        )
