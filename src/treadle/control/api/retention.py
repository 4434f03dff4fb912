"""What is kept of ended jobs: output up to an age or a sum of sizes, records for ever.

A task beside the loop measures what each job leaves when it ends, and applies the setting about
every hour. Everything goes in small slices: a few jobs or one segment of the journal at a time, in
threads, so that no request waits for it. `treadle prune` does the same at once.
"""

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from typing import Any, TypeVar

from treadle.control.api.accounts import may_touch
from treadle.control.api.context import Context
from treadle.control.api.journal_thinning import thinned
from treadle.control.jobs import JobRecord, record_of
from treadle.control.loop import DaemonThreads, on_disk, wall
from treadle.core.machine import Leftovers
from treadle.core.wording import several
from treadle.journal.codec import Noted
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, OutputRow
from treadle.store.store import Store
from treadle.wire.machine import Role, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    RequestError,
    UnavailableError,
)
from treadle.wire.retention import (
    SHOWN_MAX,
    Keep,
    Keeping,
    Pruned,
    PrunedJob,
    PruneRequest,
    size_text,
)

logger = logging.getLogger("treadle")

LOOK_EVERY_S = 5.0
SWEEP_AFTER_S, SWEEP_EVERY_S = 60.0, 3600.0
EVENTS_PRUNED = "events_pruned"  # the setting: the first line from which on none was thinned
KEEP_LOGS, KEEP_RECORDS = "keep_logs", "keep_records"
SLICE = 50  # jobs that are removed before anything else gets its turn
SEGMENT_LINES, LIVE_LINES = 5000, 20_000  # of the journal: in one segment, and not in any


Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Sum:
    """What was removed so far, or would be."""

    jobs: dict[str, PrunedJob] = field(default_factory=dict)
    bytes: int = 0
    logs: int = 0
    checkpoint_folders: int = 0
    records: int = 0
    journal_lines: int = 0

    def add(self, job: PrunedJob) -> None:
        self.jobs[job.id] = job

    @property
    def anything(self) -> bool:  # that users may miss
        return bool(self.logs or self.records)


class Retention:
    """Measures, prunes, and compacts the journal."""

    def __init__(
        self, context: Context, keeping: Keeping, thinned_upto: Callable[[int], None]
    ) -> None:
        """thinned_upto: called with the first line from which on the journal is whole."""
        self._context = context
        self.options = keeping
        self._thinned_upto = thinned_upto
        self._at_work = asyncio.Lock()
        self._thread = DaemonThreads(1, "retention")
        self._whole_from = int(context.store.setting(EVENTS_PRUNED) or 0)

    @property
    def keeping(self) -> Keeping:
        """The options of `treadle up`, and above them what the configuration says."""
        return self._context.rules.lab.keeping(self.options)

    async def run(self) -> None:
        """Look after ended jobs until cancelled."""
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + SWEEP_AFTER_S
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + SWEEP_EVERY_S
                    await self.sweep()
            except StoreError as error:
                logger.warning("retention waits for the store: %s", error)
            except Exception:  # whatever is on the disk, the next look may be better
                logger.exception("retention failed")

    async def look(self) -> int:
        """Remove empty checkpoint folders of jobs that just ended, and measure what they left."""
        async with self._at_work:
            return await self._look()

    async def _look(self) -> int:
        ended = self._context.jobs.take_just_ended()
        rows = [
            OutputRow(record.id, record.owner, record.ended_at, 0)
            for record in ended
            if record.ended_at is not None
        ]
        never_ran = {record.id for record in ended if not record.attempts}
        return await self._measure(rows, never_ran)

    async def sweep(self) -> Pruned:
        """Apply the setting."""
        async with self._at_work:
            found = _Sum()
            await self._measure_all(found)
            await self._prune_logs(self.keeping.logs, "", found, dry_run=False)
            if self.keeping.records.age_s is not None:
                await self._prune_records(self.keeping.records.age_s, "", found, dry_run=False)
            found.journal_lines += await self._compact()
            await self._note("the daemon", found)
            jobs = self._context.jobs.records.values()
            await self._context.engine.keep_archives({record.archive for record in jobs})
        return await self._answer(found, "", dry_run=False)

    async def prune(self, who: Who, request: PruneRequest) -> Pruned:
        """What a user asks for: of their own jobs, or for an admin of all."""
        owner = who.user if request.mine or who.role is not Role.ADMIN else ""
        keep = Keep(request.older_than_s, request.logs_over)
        if keep == Keep():
            keep = self.keeping.logs
        age_s = request.older_than_s or self.keeping.records.age_s
        if request.records and age_s is None:
            raise InvalidRequestError(
                "records are kept for ever unless an age is given; say older_than_s",
                hint="treadle prune --records --older-than 365d",
            )

        async def work() -> Pruned:
            async with self._at_work:
                found = _Sum()
                await self._measure_all(found)
                await self._prune_logs(keep, owner, found, who=who, dry_run=request.dry_run)
                if request.records and age_s is not None:
                    await self._prune_records(age_s, owner, found, who=who, dry_run=request.dry_run)
                if not owner and not request.dry_run:
                    found.journal_lines += await self._compact()
                if not request.dry_run:
                    await self._note(who.user, found)
            return await self._answer(found, owner, dry_run=request.dry_run)

        return await self._for_a_user(work())

    async def _for_a_user(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """It may take long, but a request does not wait for a store that does not answer."""
        try:
            return await on_disk(work, self._context.condition, within_s=inf)
        except StoreError as error:
            raise UnavailableError(f"the store cannot be used now: {error}") from None

    @property
    def settings(self) -> dict[str, str]:
        """As the store keeps them."""
        return {KEEP_LOGS: str(self.options.logs), KEEP_RECORDS: str(self.options.records)}

    # -- measuring ------------------------------------------------------------------------------

    async def _measure_all(self, found: _Sum) -> None:
        """Also of jobs that ended while no daemon ran."""
        await self._look()
        after: tuple[int, int] | None = None
        while True:
            ask = partial(Store.unmeasured, limit=SLICE, after=after)
            rows, after = await self._context.reads.ask(ask)
            found.checkpoint_folders += await self._measure(rows)
            if after is None:
                return

    async def _measure(self, rows: Sequence[OutputRow], never_ran: Collection[str] = ()) -> int:
        emptied = 0
        for start in range(0, len(rows), SLICE):
            part = rows[start : start + SLICE]
            ran = [row.job for row in part if row.job not in never_ran]
            left = dict(zip(ran, await self._context.engine.tidy(ran), strict=True))
            emptied += sum(each.checkpoint_folders for each in left.values())
            await self._put(
                [row._replace(bytes=left.get(row.job, Leftovers()).bytes) for row in part]
            )
        return emptied

    async def _put(self, rows: Sequence[OutputRow]) -> None:
        await self._context.commit.aside(lambda: self._context.store.put_outputs(rows))

    # -- output ---------------------------------------------------------------------------------

    async def _prune_logs(
        self, keep: Keep, owner: str, found: _Sum, *, who: Who | None = None, dry_run: bool
    ) -> None:
        async for chosen in self._too_much(keep, owner):
            rows = await self._touchable(chosen, who)
            if dry_run:
                for row in rows:
                    found.add(_pruned(row))
                    found.logs, found.bytes = found.logs + 1, found.bytes + row.bytes
            else:
                await self._discard(rows, found)

    async def _touchable(self, rows: list[OutputRow], who: Who | None) -> list[OutputRow]:
        """Those that belong to the user's id, and not only to their name."""
        if who is None or who.role is Role.ADMIN:
            return rows
        jobs = [row.job for row in rows]
        found = await self._context.reads.ask(lambda store: store.jobs_by_id(jobs))
        theirs = {row.id for row in found if _may_touch(who, record_of(row))}
        return [row for row in rows if row.job in theirs]

    async def _too_much(self, keep: Keep, owner: str) -> AsyncIterator[list[OutputRow]]:
        """Output beyond an age or a sum, the oldest first, in slices."""
        ask, before_at = self._context.reads.ask, None
        if keep.age_s is not None:
            before_at = wall() - keep.age_s
        total = await ask(lambda store: store.output_bytes(owner))
        after: tuple[float, str] | None = None
        while True:
            rows = await ask(partial(Store.outputs, owner=owner, after=after, limit=SLICE))
            if not rows:
                return
            chosen, needed = [], self._needed()
            for row in rows:
                old = before_at is not None and row.ended_at < before_at
                if not old and (keep.bytes is None or total <= keep.bytes):
                    break
                if not needed(row.job):
                    chosen.append(row)
                    total -= row.bytes
            if chosen:
                yield chosen
            if len(chosen) < len(rows) and not any(needed(row.job) for row in rows):
                return
            after = (rows[-1].ended_at, rows[-1].job)

    async def _discard(self, rows: Sequence[OutputRow], found: _Sum) -> None:
        now_at = wall()
        for row in rows:
            removed = await self._context.engine.discard(row.job)
            if removed.bytes or removed.attempts:
                found.add(_pruned(row._replace(bytes=removed.bytes)))
                found.logs, found.bytes = found.logs + 1, found.bytes + removed.bytes
            found.checkpoint_folders += removed.checkpoint_folders
        left = await self._context.engine.tidy([row.job for row in rows])
        await self._put(
            [
                row._replace(bytes=each.bytes, pruned_at=None if each.bytes else now_at)
                for row, each in zip(rows, left, strict=True)
            ]
        )

    def _needed(self) -> Callable[[str], bool]:
        """Whether a job has not ended here, or an active one waits for it or for its array."""
        records = self._context.jobs.records
        awaited = {n for r in records.values() for n in (*r.after, *r.after_any)}

        def needed(job: str) -> bool:
            return job in records or job in awaited or job.partition("_")[0] in awaited

        return needed

    # -- records --------------------------------------------------------------------------------

    async def _prune_records(
        self, age_s: float, owner: str, found: _Sum, *, who: Who | None = None, dry_run: bool
    ) -> None:
        before_at = wall() - age_s
        passed: set[str] = set()
        while True:
            limit = SLICE + len(passed)
            rows = await self._context.reads.ask(
                partial(Store.ended_before, at=before_at, owner=owner, limit=limit)
            )
            fresh = [row for row in rows if row.id not in passed]
            if not fresh:
                return
            needed = self._needed()
            chosen = [
                row
                for row in fresh
                if not needed(row.id) and (who is None or _may_touch(who, record_of(row)))
            ]
            going = frozenset(() if dry_run else (row.id for row in chosen))
            passed.update(row.id for row in fresh if row.id not in going)
            for row in chosen:
                freed = 0 if dry_run else (await self._context.engine.discard(row.id)).bytes
                known = found.jobs.get(row.id)
                size = known.bytes if known else freed
                found.bytes += freed
                found.records += 1
                found.add(
                    PrunedJob(
                        id=row.id,
                        user=row.owner,
                        ended_at=row.ended_at or 0.0,
                        bytes=size,
                        record=True,
                    )
                )
            if chosen and not dry_run:
                found.journal_lines += await self._forget([record_of(row) for row in chosen])

    async def _forget(self, records: Sequence[JobRecord]) -> int:
        jobs = [record.id for record in records]
        self._context.jobs.forget(jobs)  # Before: nothing is written about them after that.
        lines = await self._context.commit.aside(lambda: self._context.store.forget_jobs(jobs))
        await self._mark_pruned(self._context.commit.last_line + 1)
        await self._drop_diffs({record.diff for record in records if record.diff})
        return lines

    async def _drop_diffs(self, digests: Iterable[str]) -> None:
        """Remove the code of deleted jobs that no other job was submitted with."""
        context, loop = self._context, asyncio.get_running_loop()
        for digest in digests:
            context.diffs.doom(digest)
            if await context.reads.ask(partial(Store.names_diff, digest=digest)):
                continue
            # Jobs that are not in the store yet.
            if not any(record.diff == digest for record in context.jobs.records.values()):
                await loop.run_in_executor(self._thread, context.diffs.remove, digest)

    async def delete(self, who: Who, records: Sequence[JobRecord]) -> dict[str, RequestError]:
        """Delete ended jobs as a user asks; those that are refused, with why."""
        return await self._for_a_user(self._delete(who, records))

    async def _delete(self, who: Who, records: Sequence[JobRecord]) -> dict[str, RequestError]:
        refused: dict[str, RequestError] = {}
        async with self._at_work:
            needed = self._needed()
            for record in records:
                try:
                    may_touch(who, record)
                    if needed(record.id):
                        raise ConflictError(
                            f"job {record.id} is {record.state.value} or a job waits for it; only "
                            "ended jobs that no other needs can be deleted",
                            hint=f"treadle cancel {record.id} ends it",
                        )
                except RequestError as error:
                    refused[record.id] = error
            chosen = [record for record in records if record.id not in refused]
            for record in chosen:
                await self._context.engine.discard(record.id)
            for start in range(0, len(chosen), SLICE):
                await self._forget(chosen[start : start + SLICE])
        return refused

    # -- the journal ----------------------------------------------------------------------------

    async def _compact(self) -> int:
        """Close old lines into segments and thin those beyond the age of logs; lines removed."""
        store, commit = self._context.store, self._context.commit
        ready = partial(Store.ready_segment, lines=SEGMENT_LINES, keep=LIVE_LINES)
        while (segment := await self._context.reads.ask(ready)) is not None:
            await commit.aside(partial(store.close_segment, segment))
        age_s = self.keeping.logs.age_s
        return 0 if age_s is None else await self._thin(wall() - age_s)

    async def _thin(self, before_at: float) -> int:
        store, ask, removed = self._context.store, self._context.reads.ask, 0
        loop = asyncio.get_running_loop()
        for segment in await ask(lambda store: store.segments(thinned=False)):
            if segment.last_at >= before_at:
                continue
            rows = await ask(partial(Store.segment_lines, segment=segment))
            active = frozenset(self._context.jobs.records)
            thin = partial(thinned, rows, lambda job: job not in active)  # noqa: B023
            kept = await loop.run_in_executor(self._thread, thin)
            removed += len(rows) - len(kept)
            rewrite = partial(store.rewrite_segment, segment, kept, thinned=True)
            await self._context.commit.aside(rewrite)
        if removed:
            await self._mark_pruned(await ask(_first_whole))
        return removed

    async def _mark_pruned(self, first: int) -> None:
        """From that line on the journal is whole."""
        self._whole_from = max(first, self._whole_from)
        setting = {EVENTS_PRUNED: str(self._whole_from)}
        await self._context.commit.write(Batch(settings=setting))
        self._thinned_upto(self._whole_from)

    # -- answers --------------------------------------------------------------------------------

    async def _note(self, who: str, found: _Sum) -> None:
        if found.anything:
            text = (
                f"{who} pruned the output of {several(found.logs, 'job')} "
                f"({size_text(found.bytes)}) and {several(found.records, 'record')}"
            )
            await self._context.commit.note(Batch(), Noted("pruned", text))

    async def _answer(self, found: _Sum, owner: str, *, dry_run: bool) -> Pruned:
        kept = await self._context.reads.ask(lambda store: store.output_bytes(owner))
        return Pruned(
            dry_run=dry_run,
            jobs=tuple(islice(found.jobs.values(), SHOWN_MAX)),
            logs=found.logs,
            bytes=found.bytes,
            checkpoint_folders=found.checkpoint_folders,
            records=found.records,
            journal_lines=found.journal_lines,
            kept_bytes=kept - found.bytes if dry_run else kept,
            keep_logs=str(self.keeping.logs),
            keep_records=str(self.keeping.records),
        )


def keeping_of(kept: Mapping[str, str], *, logs: str, records: str) -> Keeping:
    """What `treadle up` asks for; where that is empty what the store's settings say."""
    blank = Keeping()
    logs, records = logs or kept.get(KEEP_LOGS, ""), records or kept.get(KEEP_RECORDS, "")
    return Keeping(
        logs=Keep.of(logs, "keep-logs") if logs else blank.logs,
        records=Keep.of(records, "keep-records") if records else blank.records,
    )


def _may_touch(who: Who, record: JobRecord) -> bool:
    try:
        may_touch(who, record)
    except NotAllowedError:
        return False
    return True


def _first_whole(store: Store) -> int:
    """The first line from which on nothing was thinned."""
    segments = store.segments(thinned=True)
    return max((segment.last for segment in segments), default=0) + 1


def _pruned(row: OutputRow) -> PrunedJob:
    return PrunedJob(id=row.job, user=row.owner, ended_at=row.ended_at, bytes=row.bytes)
