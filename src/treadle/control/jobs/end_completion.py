"""Completes the end of an attempt before it is journaled: why it failed, and how far it was.

An engine reports what it saw. What only the controller knows is added here: the verdict of the
classifier on the end of the output, the last progress, and what the next attempt can build on.

Output is read first (`read`), of all attempts that have ended at the same time: a node that answers
late delays the others once, and not each in turn. Then the ends are completed one after another,
because what is known of one may follow from those before it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from treadle.control.jobs.company_faults import (
    COMPANY,
    HANG,
    blamed,
    server_to_blame,
    spec_after,
    to_blame,
)
from treadle.control.jobs.job_table import AttemptKey, JobTable, id_of
from treadle.control.jobs.pauses import away_s, ran_until
from treadle.control.jobs.records import JobRecord
from treadle.control.learning import JobLearner, company_of, output_tail, progress_lines
from treadle.core.attempt import How, LastProgress, Verdict
from treadle.core.events import AttemptEnded, Event, JobStarted
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.ports import Clock, Engine
from treadle.core.scheduler import Scheduler
from treadle.core.sighting import Sighting
from treadle.failures.classifier import classify_ranks
from treadle.failures.log_lines import clean
from treadle.failures.retry import LAUNCHING, UNKNOWN
from treadle.failures.rules import RuleTable
from treadle.failures.tail import LIMIT_BYTES
from treadle.failures.verdict import Exit
from treadle.failures.verdict import Verdict as RuleVerdict
from treadle.journal.facts import RecordFact
from treadle.store.rows import AttemptRow

RANKS_MAX = 64  # whose output is read for a verdict
READ_BYTES_MAX = 4 << 20  # of all of them together
READS_MAX = 32  # attempts whose output is read at a time
# Ends from outside, in the words of the classifier.
_KNOWN_REASONS = {How.TIME_LIMIT: "time-limit", How.OOM_KILLED: "oom-killed", How.LOST: "node-lost"}


class LastWords(NamedTuple):
    """What the output of an attempt said in the end, as far as its end does not say it already."""

    verdict: RuleVerdict | None = None
    tail: bytes = b""  # of its first rank, if its progress is in there


class EndCompletion:
    """Adds to ends what the controller knows."""

    def __init__(
        self,
        jobs: JobTable,
        learner: JobLearner,
        scheduler: Scheduler,
        *,
        engine: Engine,
        rules: RuleTable,
        clock: Clock,
        wall: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._learner = learner
        self._scheduler = scheduler
        self._engine = engine
        self._rules = rules
        self._clock = clock
        self._wall = wall
        self._reads = asyncio.Semaphore(READS_MAX)

    async def read(self, ended: AttemptEnded) -> LastWords:
        """Look at the output of an attempt that has ended."""
        row = self._jobs.open.get(AttemptKey(ended.job, ended.attempt))
        wanted = _reason_is_in_output(ended)
        said = self._learner.progress(ended.job) if ended.attempt and row is not None else None
        if not wanted and (said is None or said.source != "log"):
            return LastWords()
        # Both read its output, and facts wait for them: a slow disk delays them once.
        async with self._reads:
            verdict, tail = await asyncio.gather(self._judged(ended, row), self._tail(said, row))
        return LastWords(verdict, tail)

    def complete(
        self, ended: AttemptEnded, words: LastWords, earlier: Sequence[Event | RecordFact] = ()
    ) -> AttemptEnded:
        """The whole fact; as it is if nothing is known of the attempt any more.

        earlier: facts that the scheduler will take before this one.
        """
        record = self._jobs.records.get(ended.job)
        if record is None:
            return ended
        attempt = AttemptKey(ended.job, ended.attempt)
        if ended.attempt > record.attempts:
            # No such attempt was ordered: a mistake of the engine, which ends nothing.
            return replace(ended, how=How.REPLACED)
        row = self._jobs.open.get(attempt)
        newest = not ended.attempt or not self._jobs.overtaken(attempt)
        own = [fact for fact in earlier if isinstance(fact, AttemptEnded | JobStarted)]
        own = [fact for fact in own if fact.job == ended.job]
        fresh = any(isinstance(fact, JobStarted) for fact in own)
        verdict = _verdict(ended, words)
        progress = self._progress(ended, row, words) if newest and not fresh else None
        safe = self._safe_share(record, ended) if newest else record.safe
        if fresh:  # Nothing was heard of this attempt; what it had is what the one before left.
            safe = next((f.safe for f in own[::-1] if isinstance(f, AttemptEnded)), record.safe)
        ended = self._until_lost(record, ended) if newest else ended
        ran_s = self._ran_s(record, row, ended, newest=newest)
        whole = replace(
            ended,
            started_at=ended.started_at or (row.started_at if row else None),
            ran_s=ran_s,
            ended_at=self._wall() if ended.ended_at is None else ended.ended_at,
            iterations_done=safe * self._iterations(ended.job, earlier),
            safe=safe,
            verdict=None if verdict is None else _plain(verdict),
            progress=progress,
            busy=None if row is None else self._learner.seen.busy(id_of(row)),
            seen=None
            if row is None
            else self._seen(ended, row, ran_s if newest and not fresh else None),
        )
        others = self._others(ended, row)
        if whole.verdict is not None and to_blame(whole, whole.verdict, others):
            return blamed(whole, whole.verdict.rule, others)
        if server_to_blame(whole, whole.verdict, self._scheduler.jobs.get(ended.job)):
            return replace(whole, mps_failed=True)
        if COMPANY in self._scheduler.blocked.get(ended.job, ()) and others and newest:
            return blamed(whole, HANG, others)
        return whole

    def _seen(self, ended: AttemptEnded, row: AttemptRow, ran_s: float | None) -> Sighting | None:
        """What was measured of it; its group may know a higher peak than the looks at it."""
        found = self._learner.seen.sighting(id_of(row))
        gauge = self._learner.gauge(ended.job)
        if found is not None and gauge is not None and ran_s is not None:
            found = replace(found, tail_s=gauge.tail_s(ran_s))
        if found is None or ended.memory_peak_gib is None:
            return found
        peak_gib = max(ended.memory_peak_gib, found.memory_peak_gib or 0.0)
        return replace(found, memory_peak_gib=peak_gib)

    def _others(self, ended: AttemptEnded, row: AttemptRow | None) -> tuple[JobId, ...]:
        """The jobs on its devices now or a moment ago; they are told that it was there."""
        if row is None:
            return ()
        now, seen = self._clock.now(), self._learner.seen
        others = company_of(self._scheduler.jobs.values()).get(ended.job, ())
        seen.meet(ended.job, others, now)
        for other in others:
            seen.meet(other, (ended.job,), now)
        return seen.lately(ended.job, now)

    def expected(self, ended: AttemptEnded) -> tuple[float, float]:
        """Seconds that an attempt ran, and the share of the work that the next can build on.

        For an end that was reported and is not a record yet: the next attempt may be launched
        before that.
        """
        record = self._jobs.records[ended.job]
        row = self._jobs.open.get(AttemptKey(ended.job, ended.attempt))
        if row is None:
            return 0.0, record.safe
        return self._ran_s(record, row, ended, newest=True), self._safe_share(record, ended)

    async def _tail(self, said: LastProgress | None, row: AttemptRow | None) -> bytes:
        """What it printed after the last look at it."""
        if row is None or said is None or said.source != "log":
            return b""
        data, _ = await output_tail(self._engine, id_of(row), 0, progress_lines.TAIL_BYTES)
        return data

    def _progress(
        self, ended: AttemptEnded, row: AttemptRow | None, words: LastWords
    ) -> LastProgress | None:
        """Its last progress."""
        said = self._heard(ended)
        if row is None or said is None or said.source != "log":
            return said
        seen = progress_lines.read(words.tail.decode("utf-8", errors="replace"))
        if seen is None or seen.total != said.total or seen.step < said.step:
            return said  # Other lines than those that were followed.
        return replace(said, step=seen.step, loss=said.loss if seen.loss is None else seen.loss)

    def _heard(self, ended: AttemptEnded) -> LastProgress | None:
        """Its last progress. What was read only after the end was so at the end."""
        said = self._learner.progress(ended.job) if ended.attempt else None
        gauge = self._learner.gauge(ended.job)
        if said is None or gauge is None or gauge.total is None or ended.ended_at is None:
            return said
        end_s = self._clock.now() - max(0.0, self._wall() - ended.ended_at)
        if gauge.seen_at <= end_s:
            return said
        true = gauge.seen_by(end_s)
        share_per_s = true.share_per_s()
        per_s = None if share_per_s is None else share_per_s * gauge.total
        return replace(said, per_s=per_s, share_per_s=share_per_s, measured_s=true.measured_s)

    def _iterations(self, job: JobId, earlier: Sequence[Event | RecordFact]) -> float:
        """The work of a job, as the scheduler will count it when it takes the end."""
        row = self._scheduler.jobs.get(job)
        return 0.0 if row is None else spec_after(row.spec, earlier).iterations

    def _safe_share(self, record: JobRecord, ended: AttemptEnded) -> float:
        """The share of the work that the next attempt can build on."""
        job = self._scheduler.jobs.get(record.id)
        if job is None or not job.spec.resumable or job.starts_over:
            return 0.0
        if ended.attempt == 0:
            return record.safe
        if ended.how not in (How.STOPPED, How.REPLACED):
            said = self._learner.progress(record.id)
            checkpoint = record.checkpoint if said is None else said.checkpoint
            return checkpoint or record.checkpoint or record.safe
        gauge = self._learner.gauge(record.id)
        if gauge is not None and gauge.total is not None:
            return gauge.seen_share
        return min(0.99, job.iterations_at(self._clock.now()) / job.spec.iterations)

    def _until_lost(self, record: JobRecord, ended: AttemptEnded) -> AttemptEnded:
        """The same of an attempt that lost a node: it counts as having run until that was known.

        What is left of it may have ended a little before, but it was said to run.
        """
        if record.lost_s is None or record.began_s is None:
            return ended
        known_at = self._wall() - (self._clock.now() - record.lost_s)
        return replace(
            ended,
            ran_s=max(ended.ran_s or 0.0, ran_until(record, record.lost_s)),
            ended_at=max(ended.ended_at or 0.0, known_at),
        )

    def _ran_s(
        self, record: JobRecord, row: AttemptRow | None, ended: AttemptEnded, *, newest: bool
    ) -> float:
        """How long the attempt ran.

        Where its supervisor was killed and could not say, the wall clock is asked, which may have
        been set meanwhile; the run's own clock bounds the answer. Pauses are no part of it.
        """
        if ended.ran_s is not None:
            return ended.ran_s
        started_at = ended.started_at or (row.started_at if row else None)
        if started_at is None or record.began_s is None or not newest:
            return 0.0
        now = self._clock.now()
        ended_at = self._wall() if ended.ended_at is None else ended.ended_at
        there_s = ended_at - started_at - away_s(record, now)
        return min(ran_until(record, now), max(0.0, there_s))

    async def _judged(self, ended: AttemptEnded, row: AttemptRow | None) -> RuleVerdict | None:
        """Why it failed, by its output; None if that is not asked."""
        if not _reason_is_in_output(ended):
            return None
        # Of an attempt that was closed before, nothing is read: its verdict is on record.
        ranks = [] if row is None else _telling_ranks(ended.codes)
        attempt = AttemptId(ended.job, ended.attempt) if row is None else id_of(row)
        limit = min(LIMIT_BYTES, READ_BYTES_MAX // max(1, len(ranks)))
        tails = await asyncio.gather(
            *(output_tail(self._engine, attempt, rank, limit) for rank in ranks)
        )
        exits = {"": Exit.of(ended.code or 0, _KNOWN_REASONS.get(ended.how, ""))}
        # In a thread: a megabyte of tracebacks takes a second, and others wait for the loop.
        verdict = await asyncio.to_thread(
            _classified, dict(zip(ranks, tails, strict=True)), exits, self._rules
        )
        return verdict if verdict.rule != "finished" else UNKNOWN


def _reason_is_in_output(ended: AttemptEnded) -> bool:
    """Whether it failed, and the end itself does not say why."""
    if ended.how is How.EXITED:
        return ended.code != 0
    if ended.how is How.OOM_KILLED:
        return not ended.error  # Otherwise it was its own limit, not the machine's.
    return ended.how is How.TIME_LIMIT or (ended.how is How.LOST and not ended.error)


def _verdict(ended: AttemptEnded, words: LastWords) -> RuleVerdict | None:
    """Why it failed; None if it did not."""
    if ended.how in (How.ENGINE_ERROR, How.NOT_LAUNCHED):
        return LAUNCHING[ended.how.value]
    if ended.how is How.OOM_KILLED and ended.error:
        return LAUNCHING["memory-limit"]
    if ended.node_lost and ended.error:
        return LAUNCHING["agent-away"]
    said = words.verdict
    if ended.how is not How.LOST or ended.node_lost or said is None:
        return said
    in_output = said.evidence is not None and said.evidence.line_from_end > 0
    return said if in_output else LAUNCHING["supervisor-lost"]  # No node was lost.


def _telling_ranks(codes: Sequence[int | None]) -> list[int]:
    """The ranks to read: those that failed first, if there are too many."""
    order = sorted(range(len(codes)), key=lambda rank: (not codes[rank], rank))
    return sorted(order[:RANKS_MAX])


def _classified(
    tails: Mapping[int, tuple[bytes, bool]], exits: Mapping[str, Exit], rules: RuleTable
) -> RuleVerdict:
    texts = {}
    for rank, (data, cut) in tails.items():
        # A first line that is not whole is left out.
        whole = data[data.index(b"\n") + 1 :] if cut and b"\n" in data[:-1] else data
        if lines := clean(whole.decode("utf-8", errors="replace")):
            texts[str(rank)] = lines
    return classify_ranks(texts, exits, rules)


def _plain(verdict: RuleVerdict) -> Verdict:
    evidence = "" if verdict.evidence is None else verdict.evidence.text
    return Verdict(
        kind=str(verdict.kind),
        rule=verdict.rule,
        sentence=verdict.sentence,
        advice=str(verdict.advice),
        evidence=evidence,
        more=verdict.advice.more,
    )
