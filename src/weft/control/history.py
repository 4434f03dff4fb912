"""What happened: events as people read them, a stream of them, usage, and the journal as a file."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from weft.control.clock import wall
from weft.control.desk import Desk
from weft.journal.codec import FORMAT, Opened, encode
from weft.store.rows import JournalRow
from weft.version import __version__
from weft.wire.machine import EventPage, EventView, UsageRow
from weft.wire.problems import TooManyError

PAGE_MAX = 1000
BACKLOG_MAX = 10_000  # events that a slow follower may lag behind before it is cut off


class History:
    """Reads the store, and hears of what is new."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._followers: set[asyncio.Queue[JournalRow]] = set()

    def published(self, rows: Sequence[JournalRow]) -> None:
        """New lines are on disk."""
        for queue in self._followers:
            for row in rows:
                if queue.qsize() <= BACKLOG_MAX:
                    queue.put_nowait(row)

    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        rows = self._desk.store.lines(after, job=job, limit=_bounded(limit))
        return _page(rows, after)

    def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        rows = self._desk.store.lines_last(job=job, limit=_bounded(limit))
        return _page(rows, self._desk.last_event)

    async def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        """Everything after that id, first from the store and then as it happens."""
        queue: asyncio.Queue[JournalRow] = asyncio.Queue()
        self._followers.add(queue)
        try:
            while rows := self._desk.store.lines(after, job=job, limit=PAGE_MAX):
                for row in rows:
                    yield event_view(row)
                after = rows[-1].id
                await asyncio.sleep(0)
            while True:
                row = await queue.get()
                if queue.qsize() >= BACKLOG_MAX:
                    raise TooManyError("events come faster than they are read; go on from the last")
                if row.id > after and (not job or row.job == job):
                    after = row.id
                    yield event_view(row)
        finally:
            self._followers.discard(queue)

    def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[UsageRow, ...]:
        sums = self._desk.store.usage(since_at, until_at, wall())
        return tuple(
            UsageRow(
                user=row.owner,
                tenant=row.tenant,
                jobs=row.jobs,
                allocated_h=row.allocated_s / 3600.0,
                used_h=None if row.used_s is None else row.used_s / 3600.0,
                failed_h=row.failed_s / 3600.0,
            )
            for row in sums
        )

    async def journal(self) -> AsyncIterator[bytes]:
        """The journal as a file that `weft analyze` reads: numbered lines under a first one."""
        desk = self._desk
        settings: dict[str, object] = {
            "policy": desk.decider.worn,
            "placement": desk.decider.placement,
            "retry": "classified",
        }
        opened = Opened(__version__, desk.cluster, settings, FORMAT)
        yield encode(0.0, opened, number=1) + b"\n"
        after, number = 0, 1
        while rows := self._desk.store.lines(after, limit=PAGE_MAX):
            lines = []
            for row in rows:
                number += 1
                lines.append(_numbered(row.body, number))
            yield b"".join(lines)
            after = rows[-1].id
            await asyncio.sleep(0)


def event_view(row: JournalRow) -> EventView:
    body: dict[str, object] = msgspec.json.decode(row.body)
    shown = {name: value for name, value in body.items() if name not in ("at", "kind", "spec")}
    return EventView(
        id=row.id,
        at=row.wall_at,
        kind=row.kind,
        job=row.job,
        text=sentence(row.kind, row.job, body),
        body=shown,
    )


def sentence(kind: str, job: str, body: Mapping[str, object]) -> str:
    """One line of the journal in words."""
    words = _SENTENCES.get(kind)
    if words is None:
        return kind
    facts = dict(body)
    allocation = body.get("allocation")
    if isinstance(allocation, dict):
        names = [f"{node}:{number}" for node, number in allocation["devices"]]
        facts["devices"] = ", ".join(names)
        facts["count"] = len(names)
    device = body.get("device")
    if isinstance(device, list):
        facts["device"] = f"{device[0]}:{device[1]}"
    spec = body.get("spec")
    if isinstance(spec, dict):
        facts |= {
            "owner": spec["owner"],
            "sizes": _sizes(spec["sizes"]),
            "priority": spec["priority"],
        }
    try:
        return words.format(job=job, **{k: v for k, v in facts.items() if k != "job"})
    except (KeyError, IndexError):
        return f"{kind} {job}".strip()


_SENTENCES = {
    "JobSubmitted": "{owner} submitted job {job} for {sizes} devices",
    "JobCancelled": "job {job} is to be cancelled",
    "JobHeld": "job {job} is held ({reason})",
    "JobReleased": "job {job} is released ({reason})",
    "JobUpdated": "job {job} was updated",
    "JobStarted": "job {job} runs",
    "JobProgressed": "job {job} reports progress",
    "JobStopped": "job {job} let go of its devices",
    "JobFinished": "job {job} finished",
    "JobFailed": "job {job} failed ({reason})",
    "DeviceClosed": "device {device} is not used: {reason}",
    "DeviceOpened": "device {device} is used again",
    "Start": "start job {job} on {devices}",
    "Change": "give job {job} {count} devices instead: {devices}",
    "Stop": "stop job {job}",
    "Decided": "the policy decided",
    "PolicySet": "policy {policy} decides from now on",
    "Noted": "{what}: {text}",
}


def _sizes(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return str(sizes[0])
    whole = list(range(sizes[0], sizes[-1] + 1)) == list(sizes)
    return f"{sizes[0]}..{sizes[-1]}" if whole else ", ".join(map(str, sizes))


def _numbered(body: bytes, number: int) -> bytes:
    """A line of the journal with its number, which depends on where it stands."""
    fields = json.loads(body)
    head = {"at": fields.pop("at"), "kind": fields.pop("kind"), "line": number}
    return msgspec.json.encode({**head, **fields}) + b"\n"


def _page(rows: Sequence[JournalRow], after: int) -> EventPage:
    return EventPage(
        events=tuple(event_view(row) for row in rows), next=rows[-1].id if rows else after
    )


def _bounded(limit: int) -> int:
    return max(1, min(limit, PAGE_MAX))
