"""Which jobs Rubick treats alike: those with equal curves, all promised or none.

A queue is long and has few kinds, and where one job of a kind finds no room, none of the others
does. So a decision asks for the kind of every job, and the answer is kept from one decision to the
next.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from treadle.core.cluster import Cluster
from treadle.core.job import JobId, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.core.waiting_by_kind import Line, Waiting
from treadle.policies.base.quotas import Quotas
from treadle.policies.rubick.curves import KEPT_MAX, Curve, Curves


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of job; there is one object for each, so that they compare by identity."""

    curve: Curve
    # Whether such a job has a promise, which the empty cluster and its quota could keep.
    promised: bool
    tenant: str | None  # whose quota the promise counts against; None: the whole cluster
    first_gain: float  # what each device of its first step brings


class Kinds:
    """The kinds of all jobs on one cluster.

    `promises`: guaranteed jobs have promises. `quotas`: what those of a tenant may use.
    """

    def __init__(self, curves: Curves, *, promises: bool, quotas: Quotas | None) -> None:
        self.curves = curves
        self._promises = promises
        self._quotas = quotas
        self._basis: object = None  # the state of the curves that all of these were made from
        self._by_curve: dict[tuple[Hashable, bool, str | None], Kind] = {}
        self._by_job: dict[JobId, tuple[JobSpec, Kind]] = {}

    def on(self, cluster: Cluster) -> None:
        """From now on this is the cluster."""
        self.curves.on(cluster)
        if self._basis is not self.curves.basis or len(self._by_curve) >= KEPT_MAX:
            self._basis = self.curves.basis
            self._by_curve.clear()
            self._by_job.clear()

    def waiting(self, snapshot: Snapshot) -> Mapping[Kind, Line]:
        """Waiting jobs by kind, in the order of their arrival."""
        jobs = snapshot.jobs

        def classified(waiting: Waiting) -> tuple[Kind, int]:
            job = jobs[waiting[2]]
            return self.of(job.spec), job.sequence

        basis = self._basis if self.curves.lasting else object()
        return snapshot.ranking.by_kind(classified, basis)

    def of(self, spec: JobSpec) -> Kind:
        """The kind of a job."""
        known = self._by_job.get(spec.id)
        if known is not None and known[0] is spec:
            return known[1]
        curve = self.curves.of(spec)
        promised = self._promised(spec, curve)
        # The curve is kept with its kind, so that its identity stays its own.
        alike: Hashable = id(curve)
        if not self.curves.planned(spec):
            # Without plans speeds depend on the size alone, and the curve has them all.
            alike = (curve.sizes, curve.steps, curve.minimum, curve.fits, curve.keeps, spec.asked)
        tenant = spec.tenant if promised and self._quotas is not None else None
        kind = self._by_curve.get((alike, promised, tenant))
        if kind is None:
            kind = Kind(curve, promised, tenant, curve.gain(0))
            self._by_curve[alike, promised, tenant] = kind
        if self.curves.lasting:
            if len(self._by_job) >= KEPT_MAX:
                self._by_job.clear()
            self._by_job[spec.id] = (spec, kind)
        return kind

    def _promised(self, spec: JobSpec, curve: Curve) -> bool:
        if not (spec.guaranteed and self._promises and curve.keeps):
            return False
        return self._quotas is None or curve.minimum <= self._quotas.get(spec.tenant, 0.0)
