"""Which jobs Rubick treats alike: those with equal curves, all promised or none.

A queue is long and has few kinds, and where one job of a kind finds no room, none of the others
does.
"""

from collections.abc import Mapping
from typing import NamedTuple

from treadle.core.job import Job, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.core.waiting_by_kind import Line, Waiting
from treadle.models.change_costs import restart_s
from treadle.models.plans.sensitivity import Curves
from treadle.wire.quotas import Quotas

RESTART_S = 78.0  # what a change costs a job, as Rubick's authors measured it


class Rules(NamedTuple):
    """What a user may set."""

    gate: float
    restart_s: float
    moves: bool  # devices may be taken from one job for another
    promises: bool
    quotas: Quotas | None  # None: the whole cluster

    def change_s(self, job: Job) -> float:
        """What a change costs a job."""
        return restart_s(job.spec, self.restart_s)


class Kind(NamedTuple):
    """One kind of job."""

    alike: object  # the same for curves that are equal
    promised: bool
    tenant: str | None  # whose quota the promise counts against; None: the whole cluster


class Kinds:
    """The kinds of all jobs on one cluster."""

    def __init__(self, curves: Curves, rules: Rules) -> None:
        self.curves = curves
        self._rules = rules

    def waiting(self, snapshot: Snapshot) -> Mapping[Kind, Line]:
        """Waiting jobs by kind, in the order of their arrival."""
        jobs = snapshot.jobs

        def classified(waiting: Waiting) -> tuple[Kind, int]:
            job = jobs[waiting[2]]
            return self.of(job.spec), job.sequence

        basis = self.curves.basis if self.curves.lasting else object()
        return snapshot.ranking.by_kind(classified, basis)

    def of(self, spec: JobSpec) -> Kind:
        """The kind of a job."""
        promised = self.promised(spec)
        tenant = spec.tenant if promised and self._rules.quotas is not None else None
        return Kind(self.curves.of(spec).alike, promised, tenant)

    def promised(self, spec: JobSpec) -> bool:
        """Whether a job has a promise, which the empty cluster and its quota could keep."""
        if not (spec.guaranteed and self._rules.promises):
            return False
        curve, quotas = self.curves.of(spec), self._rules.quotas
        return curve.keeps and (quotas is None or curve.minimum <= quotas.get(spec.tenant, 0.0))
