"""History: events as people read them, a stream of them, usage, and the journal as a file."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import get_args

import msgspec

from treadle.control.api.retention import EVENTS_PRUNED
from treadle.control.jobs import (
    ARRAY,
    COMPANY,
    DEPENDENCY,
    MACHINE,
    USER,
    first_cluster,
    replaced_text,
)
from treadle.control.loop import PolicyInCharge, StoreReads, wall
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded
from treadle.core.plan import Plan
from treadle.core.wording import devices, named_jobs, several, sizes
from treadle.journal.codec import FORMAT, Opened, decode, encode
from treadle.journal.facts import RecordFact
from treadle.store.rows import JournalRow
from treadle.store.store import Store
from treadle.version import __version__
from treadle.wire.machine import EventPage, EventView, UsageRow

PAGE_MAX = 1000
RECENT_MAX = 1000  # lines in memory; a follower that lags further reads the store


class History:
    """Reads the store, and hears of what is new."""

    reads: StoreReads  # set before the first request

    def __init__(self, store: Store) -> None:
        self._newest = store.last_line()
        self._whole_from = int(store.setting(EVENTS_PRUNED) or 0)  # nothing later was thinned
        self._recent: deque[JournalRow] = deque(maxlen=RECENT_MAX)
        self._followers: set[asyncio.Event] = set()

    def published(self, rows: Sequence[JournalRow]) -> None:
        """New lines are on disk. Followers are only woken: nothing piles up for a slow one."""
        self._recent.extend(rows)
        self._newest = rows[-1].id
        for news in self._followers:
            news.set()

    def thinned_upto(self, first: int) -> None:
        """Lines before this one were thinned."""
        self._whole_from = first

    async def events(self, *, after: int = 0, job: str = "", limit: int = 100) -> EventPage:
        most, after = _bounded(limit), self._known(after)
        return await self.reads.ask(
            lambda store: self._page(store.lines(after, job=job, limit=most), after)
        )

    async def events_last(self, *, job: str = "", limit: int = 100) -> EventPage:
        most, newest = _bounded(limit), self._newest
        return await self.reads.ask(
            lambda store: self._page(store.lines_last(job=job, limit=most), newest)
        )

    def _page(self, rows: Sequence[JournalRow], after: int) -> EventPage:
        first = rows[0].id if rows else after + 1
        return EventPage(
            events=tuple(event_view(row) for row in rows),
            next=rows[-1].id if rows else after,
            pruned_before=self._whole_from if first < self._whole_from else 0,
        )

    async def follow(self, *, after: int, job: str = "") -> AsyncIterator[EventView]:
        """Everything after that id: from the store, and as it happens from what is at hand."""
        news = asyncio.Event()
        after = self._known(after)
        self._followers.add(news)
        try:
            while True:
                news.clear()
                rows, upto = await self._after(after, job)
                for row in rows:
                    yield event_view(row)
                if upto > after:
                    after = upto
                    await asyncio.sleep(0)
                else:
                    await news.wait()
        finally:
            self._followers.discard(news)

    def _known(self, after: int) -> int:
        """An id that was given beyond the newest is of a store that was replaced since.

        The client would otherwise hear nothing until there are as many lines again.
        """
        return min(after, self._newest)

    async def _after(self, after: int, job: str) -> tuple[Sequence[JournalRow], int]:
        """The next lines after an id, and the id up to which there are no others."""
        newest = self._newest
        if self._recent and self._recent[0].id <= after + 1:
            new = [row for row in self._recent if row.id > after]
            return [row for row in new if not job or row.job == job], newest
        rows = await self.reads.ask(lambda store: store.lines(after, job=job, limit=PAGE_MAX))
        if len(rows) == PAGE_MAX:
            return rows, rows[-1].id
        # While the store was asked, lines may have been added that it has and we did not know of.
        return rows, max(after, newest, rows[-1].id if rows else 0)

    async def usage(
        self, *, since_at: float = 0.0, until_at: float | None = None
    ) -> tuple[float, tuple[UsageRow, ...]]:
        """What attempts had used at a moment, which comes first."""
        now_at = wall()
        sums = await self.reads.ask(lambda store: store.usage(since_at, until_at, now_at))
        return now_at, tuple(
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

    async def journal(self, charge: PolicyInCharge, cluster: Cluster) -> AsyncIterator[bytes]:
        """The journal as a file that `treadle analyze` reads: what the scheduler saw and ordered.

        What users said about their jobs, and output that a verdict quotes, stay here.
        """
        settings: dict[str, object] = {
            "policy": charge.wrapped,
            "placement": charge.placement,
            "retry": "rules",
            "live": True,
        }
        first = await self.reads.ask(lambda store: store.lines(0, kinds=("PolicySet",), limit=1))
        if first:
            settings["first_policy"] = json.loads(first[0].body)["policy"]
        began = await self.reads.ask(lambda store: first_cluster(store, cluster))
        opened = Opened(__version__, began, settings, FORMAT)
        yield encode(0.0, opened, number=1) + b"\n"
        after: int | None = 0
        number = 1
        while after is not None:
            page = partial(_exported, after=after, number=number)
            after, number, lines = await self.reads.ask(page)
            yield lines


def _exported(store: Store, *, after: int, number: int) -> tuple[int | None, int, bytes]:
    """A page of the journal: the last id of it, None at the end; the last number; the lines."""
    rows = store.lines(after, limit=PAGE_MAX)
    lines = []
    for row in rows:
        body = _for_export(row)
        if body is not None:
            number += 1
            lines.append(_numbered(body, number))
    return rows[-1].id if rows else None, number, b"".join(lines)


def event_view(row: JournalRow) -> EventView:
    body: dict[str, object] = msgspec.json.decode(row.body)
    shown = {name: value for name, value in body.items() if name not in _PRIVATE}
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
    if kind == "AttemptEnded":
        return _end_sentence(job, body)
    if kind == "JobStarted":
        return _start_sentence(job, body)
    words = _SENTENCES.get(_reads_as(kind, body))
    if words is None:
        return kind
    facts, allocation = dict(body), body.get("allocation")
    if isinstance(allocation, dict):
        names = [f"{node}:{number}" for node, number in allocation["devices"]]
        facts["devices"] = ", ".join(names) + _under(allocation.get("plan"))
        facts["count"] = devices(len(names))
        match None if allocation.get("paused") else body.get("beside"):
            case [*others] if others:
                facts["devices"] = (
                    f"{facts['devices']}, beside {named_jobs([*map(str, others)], len(others))}"
                )
    facts["holder"] = _HOLDERS.get(str(body.get("reason")), f"({body.get('reason')})")
    facts["whom"] = f" for job {body['for_job']}" if body.get("for_job") else ""
    facts["by"] = f" by {body['by']}" if body.get("by") else ""
    facts["who"] = body.get("by")
    why = body.get("why") or body.get("refused")
    facts["because"] = f": {why}" if why else ""
    facts |= _named(body)
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


def _reads_as(kind: str, body: Mapping[str, object]) -> str:
    """The kind by what it means to people."""
    allocation = body.get("allocation")
    if kind == "Change" and isinstance(allocation, dict) and allocation.get("paused"):
        return "Pause"
    if kind == "JobHeld" and body.get("by"):
        return "PauseAsked" if body.get("how") else "HoldAsked"
    special = _SPECIAL.get(kind)
    return special[1] if special and body.get(special[0]) else kind


def _under(plan: object) -> str:
    """The execution plan of an order, if it names one."""
    try:
        text = Plan(**plan).text if isinstance(plan, dict) else ""
    except (TypeError, InvalidInputError):
        return ""
    return f", under the plan {text}" if text else ""


def _named(body: Mapping[str, object]) -> dict[str, object]:
    """The device, the node, the jobs and the rank that a line is about."""
    facts: dict[str, object] = {}
    match body:
        case {"rank": int(rank), "code": int(code)}:
            facts["killed"] = replaced_text(rank, code)
    match body.get("device"):
        case [node, number]:
            others = body.get("also")
            count = 1 + len(others) if isinstance(others, list) else 1
            one = f"device {node}:{number} is"
            facts["device"] = one if count == 1 else f"{count} devices of node {node} are"
    match body.get("node"):
        case {"name": name}:
            facts["node"] = name
    match body.get("jobs"):
        case [first, *others]:
            number = several(1 + len(others), "waiting job")
            facts |= {"number": number, "first": f"job {first}"}
    return facts


_SENTENCES = {
    "JobSubmitted": "{owner} submitted job {job} for {sizes}",
    "JobCancelled": "job {job} was cancelled{by}",
    "JobHeld": "job {job} is held {holder}",
    "HoldAsked": "{who} holds job {job}",
    "PauseAsked": "{who} pauses job {job}",
    "JobReleased": "job {job} is no longer held {holder}",
    "ReleaseAsked": "{who} releases job {job}",
    "JobUpdated": "the scheduler's estimate or request of job {job} changed",
    "JobsLearned": "more is known of {number} like {first}",
    "ControllerBegan": "the daemon began",
    "ScriptForgotten": "{user} had what was learned of {script} forgotten",
    "JobAccepted": "job {job} was accepted",
    "JobEdited": "job {job} was edited",
    "DependencyBroken": "job {job} can never start: {reason}",
    "DependenciesDropped": "job {job} does not wait for other jobs any more",
    "JobProgressed": "job {job} reports progress",
    "TrainingEnded": "job {job} has ended its training and is about to end",
    "RankReplaced": "{killed} in job {job}",
    "JobPaused": "job {job} is paused{because}",
    "JobStopped": "job {job} released its devices",
    "NodeJoined": "node {node} joined",
    "NodeUndrained": "node {node} is used again: it takes new jobs",
    "NodeLost": "node {node} was lost{because}",
    "NodeDrained": "node {node} is drained: it takes no new jobs",
    "JobFinished": "job {job} finished",
    "JobFailed": "job {job} failed ({reason})",
    "DeviceClosed": "{device} closed: {reason}",
    "DeviceOpened": "{device} open again",
    "Start": "start job {job} on {devices}",
    "Change": "give job {job} {count} instead{whom}: {devices}",
    "Resume": "resume job {job} on {devices}",
    "Stop": "stop job {job}{whom}",
    "Preempt": "preempt job {job}{whom}",
    "Pause": "pause job {job} on {devices}{whom}",
    "Decided": "the policy decided",
    "PolicySet": "the policy is now {policy}",
    "Noted": "{what}: {text}",
}


# Kinds that read otherwise if they have this.
_SPECIAL = {
    "NodeJoined": ("undrained", "NodeUndrained"),
    "Stop": ("for_job", "Preempt"),
    "Change": ("resumes", "Resume"),
    "JobReleased": ("by", "ReleaseAsked"),
}
# Why a job is held.
_HOLDERS = {
    USER: "by its user",
    DEPENDENCY: "by the jobs that it starts after",
    ARRAY: "by the limit of its array",
    MACHINE: "because it could not be launched",
    COMPANY: "because it makes no progress while it shares its devices",
}

# What only the owner of a job may see, or what is shown in other words.
_PRIVATE = ("at", "kind", "spec", "record", "verdict", "error", "run", "workdirs")


def _start_sentence(job: str, body: Mapping[str, object]) -> str:
    if refused := body.get("refused"):
        return f"job {job} goes on as before: {refused}"
    if isinstance(stall_s := body.get("stall_s"), int | float):
        return f"job {job} was changed without a restart, stall {stall_s:.2f} s"
    if body.get("changes"):  # It says so after it has started.
        return f"job {job} runs and can be changed without a restart"
    return f"job {job} runs"


def _end_sentence(job: str, body: Mapping[str, object]) -> str:
    how, attempt = body.get("how"), body.get("attempt")
    verdict = body.get("verdict")
    rule = verdict["rule"] if isinstance(verdict, dict) else "unknown"
    if how == "stopped" and not attempt:  # It was ordered, and nothing was launched.
        return f"nothing of job {job} was launched, and its devices are free"
    if how == "stopped":
        return f"attempt {attempt} of job {job} was stopped and released its devices"
    if how == "machine-error":
        return f"job {job} could not be launched, and waits again"
    if how == "replaced":
        return f"attempt {attempt} of job {job} was replaced by the next one"
    if how == "exited" and body.get("code") == 0:
        return f"job {job} finished"
    if body.get("node_lost"):
        because = f": {body['error']}" if body.get("error") else " with its node"
        return f"attempt {attempt} of job {job} was lost{because}"
    if how == "time-limit":
        return f"job {job} reached its time limit"
    code = body.get("code")
    exit_code = "" if code is None else f" with exit code {code}"
    return f"job {job} failed{exit_code} ({rule})"


def _for_export(row: JournalRow) -> bytes | None:
    """The line as the scheduler saw it; None if it saw nothing."""
    if row.kind == AttemptEnded.__name__:
        at, ended = decode(row.body)
        assert isinstance(ended, AttemptEnded)
        return None if ended.meaning is None else encode(at, ended.meaning)
    return None if row.kind in _RECORD_FACTS else row.body


_RECORD_FACTS = {kind.__name__ for kind in get_args(RecordFact)}


def _sizes(numbers: Sequence[int]) -> str:
    return devices(numbers[0]) if len(numbers) == 1 else f"{sizes(numbers)} devices"


def _numbered(body: bytes, number: int) -> bytes:
    """A line of the journal with its number, which depends on where it stands."""
    fields = json.loads(body)
    head = {"at": fields.pop("at"), "kind": fields.pop("kind"), "line": number}
    return msgspec.json.encode({**head, **fields}) + b"\n"


def _bounded(limit: int) -> int:
    return max(1, min(limit, PAGE_MAX))
