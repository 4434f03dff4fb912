"""Tells users what became of their jobs, by mail, chat, a webhook or a program.

It reads the journal on from where it stopped, also after a restart, so that nothing is forgotten
while the daemon was away; what is on its way when it leaves may be told again. Addresses are
URLs of Apprise; one that begins with a slash is a program, which gets the notice as JSON. Of a
user's notices beyond EACH_MAX in an hour only their number is told.
"""

import asyncio
import json
import logging
import subprocess
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module

from treadle.control.api.context import Context
from treadle.control.api.history import History
from treadle.control.api.queries import Queries
from treadle.control.loop import DaemonThreads, wall
from treadle.core.wording import several, short_span
from treadle.journal.codec import Noted
from treadle.store.errors import StoreError
from treadle.store.rows import Batch
from treadle.wire.jobs import JobDetail, State
from treadle.wire.machine import EventView
from treadle.wire.notation import END, FAIL, PREEMPT, START
from treadle.wire.problems import NotFoundError

logger = logging.getLogger("treadle")

TOLD = "notified_upto"  # the setting: the newest line of the journal that was looked at
EACH_MAX, HOUR_S = 20, 3600.0  # notices of one user
TRIES, PAUSE_S = 3, 2.0
THREADS = 4
WITHIN_S = 30.0  # for a program
ENDED_MAX = 10_000  # jobs that are remembered: several lines of the journal are about one end
WRITE_EVERY = 100  # lines of which no user is told
_ENDS = ("AttemptEnded", "JobCancelled", "JobFinished", "JobFailed")
_MEANS = {State.SUCCEEDED: END, State.CANCELLED: END, State.FAILED: FAIL, State.TIMEOUT: FAIL}


@dataclass(frozen=True, slots=True)
class Notice:
    user: str
    what: str  # start, end, fail, preempt; or several
    job: str
    name: str
    title: str
    text: str


@dataclass(slots=True)
class _Hour:
    """What one user was told."""

    told: deque[float] = field(default_factory=deque)
    kept: Counter[str] = field(default_factory=Counter)  # what was not, by kind

    def has_room(self, now: float) -> bool:
        while self.told and self.told[0] <= now - HOUR_S:
            self.told.popleft()
        return len(self.told) < EACH_MAX


class Notifier:
    """Follows the journal, and sends."""

    def __init__(self, context: Context, history: History, queries: Queries) -> None:
        self._context, self._history, self._queries = context, history, queries
        self._threads = DaemonThreads(THREADS, "notices")
        self._failing = set[str]()
        self._hours: dict[str, _Hour] = {}
        self._ended: dict[str, None] = {}
        self._written = 0
        self._step = asyncio.Lock()  # held while an event is told and that is written down

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except StoreError as error:
                logger.warning("notices wait for the store: %s", error)
            await asyncio.sleep(PAUSE_S)

    async def _follow(self) -> None:
        kept = await self._context.reads.ask(lambda store: store.setting(TOLD))
        after = int(kept) if kept else (await self._history.events_last(limit=1)).next
        self._written = after
        async for event in self._history.follow(after=after):
            async with self._step:
                try:
                    told = await self._heard(event)
                except Exception:  # one event is not worth those after it
                    logger.exception("job %s: what became of it could not be told", event.job)
                    told = True
                if told or event.id - self._written >= WRITE_EVERY:
                    await self._context.commit.write(Batch(settings={TOLD: str(event.id)}))
                    self._written = event.id

    async def rest(self) -> None:
        """Done once nothing is on its way; nothing more is told from then on."""
        await self._step.acquire()

    async def _heard(self, event: EventView) -> bool:
        """Whether anybody was told."""
        if not event.job or not self._context.rules.tells:
            return False
        if not (event.kind in _ENDS or event.kind == "Start" or _makes_way(event)):
            return False
        try:
            detail = await self._queries.job(event.job)
        except NotFoundError:  # Its record was deleted meanwhile.
            return False
        what = self._meaning(event, detail)
        if not what:
            return False
        addresses = self._context.rules.addresses(detail.job.user, what, detail.notify)
        if not addresses:
            return False
        await self._tell(_notice(detail, what), addresses)
        return True

    def _meaning(self, event: EventView, detail: JobDetail) -> str:
        if event.kind == "Start":
            return START if len(detail.attempts) <= 1 else ""
        if event.kind not in _ENDS:
            return PREEMPT
        if not detail.job.state.ended or event.job in self._ended:
            return ""  # It is tried again, or an earlier line said so.
        self._ended[event.job] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        return _MEANS[detail.job.state]

    async def _tell(self, notice: Notice, addresses: Sequence[str]) -> None:
        now, hour = wall(), self._hours.setdefault(notice.user, _Hour())
        if not hour.has_room(now):
            hour.kept[notice.what] += 1
            return
        if hour.kept:
            notice = _with_others(notice, hour.kept)
            hour.kept = Counter()
        hour.told.append(now)
        for error in await asyncio.gather(*(self._sent(each, notice) for each in addresses)):
            if error:
                text = f"{notice.user} could not be told of job {notice.job} ({error})"
                logger.warning("%s", text)
                await self._context.commit.note(Batch(), Noted("notices", text))

    async def _sent(self, address: str, notice: Notice) -> str:
        """Why it could not be sent; empty if it was. An address that failed is tried once only."""
        error, whole = "", address.replace("{user}", notice.user)
        for turn in range(1 if address in self._failing else TRIES):
            if turn:
                await asyncio.sleep(PAUSE_S * turn)
            try:
                await asyncio.wrap_future(self._threads.submit(send, whole, notice))
            except OSError as found:
                error = str(found)
            except Exception as found:  # whatever a library raises; it may quote the address
                error = type(found).__name__
            else:
                self._failing.discard(address)
                return ""
        self._failing.add(address)
        return f"{address.partition(':')[0].split()[0]}: {error}"


def send(address: str, notice: Notice) -> None:
    """Send one notice; raises if that was not possible."""
    if address.startswith("/"):
        said = json.dumps(asdict(notice)).encode()
        try:
            ran = subprocess.run(
                address.split(), input=said, capture_output=True, timeout=WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"it did not end within {WITHIN_S:g} s") from None
        if ran.returncode:
            raise OSError(f"exit code {ran.returncode}")
        return
    try:
        apprise = import_module("apprise")
    except ImportError:
        raise OSError("apprise is not installed here: pip install 'treadle[notify]'") from None
    found = apprise.Apprise()
    if not found.add(address):
        raise OSError("it is no address that Apprise knows")
    if not found.notify(body=notice.text, title=notice.title):
        raise OSError("the service did not take it")


def _makes_way(event: EventView) -> bool:
    """Whether the job is stopped or paused for another one."""
    allocation = event.body.get("allocation")
    paused = isinstance(allocation, dict) and allocation.get("paused")
    return bool(event.body.get("for_job") and (event.kind == "Stop" or paused))


def _notice(detail: JobDetail, what: str) -> Notice:
    job = detail.job
    did = {START: "starts", PREEMPT: "makes way for another job", FAIL: "failed"}.get(what)
    if what == FAIL and job.state is State.TIMEOUT:
        did = "ran into its time limit"
    if what == END:
        did = "was cancelled" if job.state is State.CANCELLED else "succeeded"
    title = f"job {job.id} ({job.name}) {did}"
    ran = f"It ran for {short_span(job.running_s)}." if what in (END, FAIL) else ""
    because = f"{job.because}." if job.because and what in (FAIL, PREEMPT) else ""
    look = f"treadle logs {job.id}" if what == FAIL else f"treadle describe {job.id}"
    lines = [f"{title}.", because[:1].upper() + because[1:], ran, look]
    return Notice(job.user, what, job.id, job.name, title, "\n".join(filter(None, lines)))


def _with_others(notice: Notice, kept: Mapping[str, int]) -> Notice:
    """The same, with how many were not told before it."""
    each = ", ".join(f"{count:,} {what}" for what, count in sorted(kept.items()))
    more = several(sum(kept.values()), "notice")
    text = f"{notice.text}\n{more} before this one were left out ({EACH_MAX} an hour): {each}"
    return Notice(notice.user, notice.what, notice.job, notice.name, notice.title, text)
