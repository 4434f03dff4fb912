"""Compares what jobs that share get done with what was predicted, every few seconds.

Shared speeds are steps a second over those alone: of the same run if it trained alone before,
else of earlier runs of its kind on as many devices. What is learned of sharing goes to the belief,
which remembers it by kinds; a group that is worse than it may be is parted at the policy's next
decision.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from treadle.control.jobs.job_kinds import likeness_of
from treadle.control.jobs.job_table import JobTable
from treadle.control.learning import JobLearner, company_of
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.machine import Measurement
from treadle.models.company.belief import CompanyBelief, kind_of
from treadle.models.company.predictor import busy_beside, predict

COMPANY_RECORD = "company"  # the store's setting that keeps what became of sharing

_Shares = Mapping[JobId, tuple[JobSpec, float | None]]  # of their speeds alone; None: not known


class Parted(NamedTuple):
    """Jobs that are to be parted, and why."""

    jobs: frozenset[JobId]
    why: str


class Judged(NamedTuple):
    """What a look has found."""

    parted: list[Parted]  # groups that share badly, each once
    newcomer: bool  # a job of unknown needs has begun to train beside others


class CompanyJudge:
    """What became of jobs that share devices."""

    def __init__(self, belief: CompanyBelief, jobs: JobTable, learner: JobLearner) -> None:
        self._belief = belief
        self._jobs = jobs
        self._learner = learner
        # Of groups that are together, the newest, and whether it was under MPS.
        self._last: dict[frozenset[JobId], tuple[_Shares, bool]] = {}
        self._faulted: set[JobId] = set()
        self._at_work: set[JobId] = set()  # of those that share
        self._revision = belief.record.revision

    def look(self, rows: Iterable[Job], measurements: Iterable[Measurement], now: float) -> Judged:
        """What is new of jobs that share."""
        everyone = list(rows)
        self._note_faults(everyone)
        holding = {row.id: row for row in everyone if row.allocation is not None}
        company, newcomers = self._at_work_together(holding)
        measured = {one.job: one for one in measurements if one.job in company}
        under = {job: one.mps for job, one in measured.items()}
        if under:  # What is predicted of groups that are yet to be formed is on the safe side.
            self._belief.mps = all(under.values())
        groups = {frozenset((job, *others)): None for job, others in company.items()}
        self._learn_from(groups)
        found = []
        for group in groups:
            shares = self._shares(group, holding, company)
            if shares is None or not group <= under.keys():
                continue
            mps = all(under[job] for job in group)
            busy = sum(measured[job].busy or 0.0 for job in group)  # each has its part of it
            shares = self._with_unknown(shares, min(1.0, busy), mps=mps)
            if all(share is None for _, share in shares.values()):
                continue
            self._last[group] = (shares, mps)
            why = self._belief.measured(shares, now, mps=mps)
            if why is not None:
                found.append(Parted(group, why))
        self._belief.present(tuple(groups), self._at_work)
        return Judged(found, newcomers)

    def _at_work_together(
        self, holding: Mapping[JobId, Job]
    ) -> tuple[dict[JobId, tuple[JobId, ...]], bool]:
        """The others beside each that slow it; whether a job of unknown needs is new there."""
        company = company_of(holding.values())
        at_work = {job for job in company if self._learner.seen.at_work(job)}
        new, self._at_work = at_work - self._at_work, at_work
        found = {job: tuple(one for one in company[job] if one in at_work) for job in at_work}
        together = {job: others for job, others in found.items() if others}
        return together, any(holding[job].spec.profile.busy is None for job in new)

    def _note_faults(self, rows: Sequence[Job]) -> None:
        """A kind whose job died or hung while sharing shares no more.

        Of jobs that run out of memory together it is not known which took too much: their kinds do
        not meet again, and may share with others.
        """
        faulted = set()
        for row in [row for row in rows if row.spec.exclusive]:
            record = self._jobs.records.get(row.id)
            # Its user did not ask for it: it was made so when it ended while sharing.
            if record is not None and not record.exclusive:
                faulted.add(row.id)
                if row.id in self._faulted or record.mps_failed:
                    continue
                if record.memory_failed:
                    for other in self._specs(row.spec.ousted_by, rows):
                        self._belief.record.keep_apart(kind_of(row.spec), kind_of(other))
                else:
                    self._belief.record.fault(kind_of(row.spec))
        self._faulted = faulted

    def _specs(self, names: Collection[JobId], rows: Sequence[Job]) -> list[JobSpec]:
        """Of those of these jobs that are there, or were when they were last together."""
        specs = {row.id: row.spec for row in rows if row.id in names}
        for shares, _ in self._last.values():  # A job may have ended since.
            specs |= {job: spec for job, (spec, _) in shares.items() if job not in specs}
        return [specs[name] for name in names if name in specs]

    def changed(self) -> dict[str, float] | None:
        """All that is remembered of sharing, if that has changed since the last call."""
        record = self._belief.record
        if record.revision == self._revision:
            return None
        self._revision = record.revision
        return record.stored()

    def _learn_from(self, groups: Mapping[frozenset[JobId], None]) -> None:
        """Sharing that is over says how good it was."""
        for group in [group for group in self._last if group not in groups]:
            shares, mps = self._last.pop(group)
            if not self._belief.to_part(group):  # Of the others it is remembered already.
                self._belief.ended(shares, mps=mps)

    def _shares(
        self,
        group: frozenset[JobId],
        holding: Mapping[JobId, Job],
        company: Mapping[JobId, tuple[JobId, ...]],
    ) -> _Shares | None:
        """What each keeps of its speed alone; None if one starts."""
        found: dict[JobId, tuple[JobSpec, float | None]] = {}
        for identity in sorted(group):
            row = holding[identity]
            if row.phase is not Phase.RUNNING:
                return None
            share = self._learner.seen.kept(identity, company[identity], self._alone_per_s(row))
            found[identity] = (row.spec, share)
        return found

    def _with_unknown(self, shares: _Shares, busy: float, *, mps: bool) -> _Shares:
        """Jobs that are tried beside others: what those keep says what they need.

        busy: of their device, as which each counts where nothing is known of any.
        """
        seen = self._learner.seen
        unknown = [job for job, (spec, _) in shares.items() if spec.profile.busy is None]
        others = [
            (spec.profile.busy, share)
            for spec, share in shares.values()
            if spec.profile.busy is not None
        ]
        beside = {job: sorted(shares.keys() - {job}) for job in unknown}
        if not unknown or not all(seen.tried(job, beside[job]) for job in unknown):
            return shares
        if any(share is not None for _, share in others):
            busy = busy_beside(others, len(unknown), mps=mps)
        loads = [*(known for known, _ in others), *(busy,) * len(unknown)]
        expected = predict([(one, None, None) for one in loads], mps)[-1]
        for job in unknown:
            seen.beside(job, beside[job], busy, expected)
        return {**shares, **{job: (shares[job][0], expected) for job in unknown}}

    def _alone_per_s(self, row: Job) -> float | None:
        """Steps a second of jobs like it that had as many devices to themselves.

        None at a size that was not measured: jobs must not be parted for a guess.
        """
        record = self._jobs.records.get(row.id)
        if record is None:
            return None
        step_s = self._learner.profiles.step_alone_s(likeness_of(record), row.size)
        return None if not step_s else 1.0 / step_s
