"""What happened: events as people read them, a stream of them, usage, and the journal as a file."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from treadle.control.jobs.desk import Desk
from treadle.control.jobs.recovery import first_cluster
from treadle.control.loop.clock import wall
from treadle.journal.codec import FORMAT, Opened, encode
from treadle.store.rows import JournalRow
from treadle.version import __version__
from treadle.wire.machine import EventPage, EventView, UsageRow

PAGE_MAX = 1000
RECENT_MAX = 1000  # lines at hand; whoever lags behind further reads the store again


class History:
    """Reads the store, and hears of what is new."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._recent: deque[JournalRow] = deque(maxlen=RECENT_MAX)
        self._followers: set[asyncio.Event] = set()

    def published(self, rows: Sequence[JournalRow]) -> None:
        """New lines are on disk. Followers are only woken: nothing piles up for a slow one."""
        self._recent.extend(rows)
        for news in self._followers:
            news.set()

    def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        rows = self._desk.store.lines(after, job=job, limit=_bounded(limit))
        return _page(rows, after)

    def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        rows = self._desk.store.lines_last(job=job, limit=_bounded(limit))
        return _page(rows, self._desk.last_event)

    async def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        """Everything after that id: from the store, and as it happens from what is at hand."""
        news = asyncio.Event()
        self._followers.add(news)
        try:
            while True:
                news.clear()
                rows, upto = self._after(after, job)
                for row in rows:
                    yield event_view(row)
                if upto > after:
                    after = upto
                    await asyncio.sleep(0)
                else:
                    await news.wait()
        finally:
            self._followers.discard(news)

    def _after(self, after: int, job: str) -> tuple[Sequence[JournalRow], int]:
        """The next lines after an id, and the id up to which there are no others."""
        newest = self._desk.last_event
        if self._recent and self._recent[0].id <= after + 1:
            new = [row for row in self._recent if row.id > after]
            return [row for row in new if not job or row.job == job], newest
        rows = self._desk.store.lines(after, job=job, limit=PAGE_MAX)
        return rows, rows[-1].id if len(rows) == PAGE_MAX else max(after, newest)

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
        """The journal as a file that `treadle analyze` reads: numbered lines under a first one."""
        desk = self._desk
        settings: dict[str, object] = {
            "policy": desk.decider.worn,
            "placement": desk.decider.placement,
            "retry": "rules",
        }
        began = first_cluster(desk.store, desk.cluster)
        opened = Opened(__version__, began, settings, FORMAT)
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
