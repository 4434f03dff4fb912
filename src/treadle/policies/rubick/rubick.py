"""Rubick (Zhang et al., MLSys'25): devices to the jobs that make the most of them, replanned.

docs/rubick.md says what it does. Guaranteed jobs that wait come first, each with the fewest devices
that keep its promise; then all others, by what a device would bring them. Every move is made whole
or not at all, and a job that loses devices gets the plan that is best for those it keeps.

The paper stops here. Three rules keep jobs from being stopped all the time, each of which costs
`restart_s`: a running job is changed only where the share of its time that was not lost to
restarts stays above `gate`; it grows only where it then ends sooner; and no devices are taken from
it if it ends before it could go on with fewer. Promises go before the first and the last.

Cores follow once devices are settled, and host memory last: hosts.py.
"""

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.core.wording import devices
from treadle.models.plans.sensitivity import Curves
from treadle.policies.base.placement import Placement
from treadle.policies.rubick.decision import Decision
from treadle.policies.rubick.hosts import Hosts
from treadle.policies.rubick.kinds import RESTART_S, Kinds, Rules
from treadle.wire.quotas import Quotas
from treadle.wire.quotas import quotas as parse_quotas


class Rubick(Policy):
    """Devices and execution plans to the jobs that make the most of them (Rubick).

    plans: change plans; off keeps the user's, with more or fewer copies of the model.
    resources: change sizes; off gives what was asked for, and takes nothing away.
    promises: guaranteed jobs get the speed of what they asked for; off makes all best-effort.
    quotas: devices that each tenant's promises may use, as a:32/b:16; others then have none.
    gate: change a running job only if it keeps this share of its time; restart_s is what one
    change costs, or less where it was measured. gate 0 is none.
    knee: a device must bring this share of what a job's first device brings, or is left free.
    """

    def __init__(  # noqa: PLR0913  # one for each thing that a user may set
        self,
        placement: Placement,  # noqa: ARG002
        belief: PerformanceModel,
        *,
        plans: bool = True,
        resources: bool = True,
        promises: bool = True,
        quotas: str = "",
        gate: float = 0.9,
        restart_s: float = RESTART_S,
        knee: float = 0.1,
    ) -> None:
        if not 0 <= gate <= 1:
            raise InvalidInputError(f"rubick gate must be 0 to 1, not {gate:g}")
        if not 0 <= knee <= 1:
            raise InvalidInputError(f"rubick knee must be 0 to 1, not {knee:g}")
        if not restart_s >= 0:
            raise InvalidInputError(f"rubick restart_s must be 0 or more, not {restart_s:g}")
        self._curves = Curves(belief, plans=plans, resources=resources, knee=knee)
        limits = parse_quotas("rubick", quotas)
        self._rules = Rules(gate, restart_s, resources, promises, limits)
        self._kinds = Kinds(self._curves, self._rules)
        self.resizes = resources

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        if not cluster.nodes:
            return super().never_fits(spec, cluster)
        self._curves.on(cluster)
        curve = self._curves.of(spec)
        if not curve.fits:
            return (
                f"it runs on {devices(curve.sizes[0][0])} or more and finds no room for them "
                f"even on the empty cluster of {devices(cluster.device_count)}"
            )
        quotas, guaranteed = self._rules.quotas, self._rules.promises and spec.guaranteed
        if quotas is None or not (guaranteed and curve.keeps) or self._kinds.promised(spec):
            return None
        return (
            f"it was promised the speed of {devices(curve.minimum)} and the quota of tenant "
            f"{spec.tenant!r} is {quotas.get(spec.tenant, 0.0):g}"
        )

    def quotas(self, snapshot: Snapshot) -> Quotas | None:  # noqa: ARG002
        return self._rules.quotas

    def decide(self, snapshot: Snapshot) -> Schedule:
        self._curves.on(snapshot.cluster)
        decision = Decision(snapshot, self._kinds, self._rules)
        decision.run()
        changes = decision.holdings.allocations()
        if self._rules.moves:
            hosts = Hosts(snapshot, self._curves, self._rules.restart_s, decision.may_change)
            changes = hosts.settled(changes)
        return Schedule(changes, decision.next_gate_at(), memory=decision.memory(changes))


def rubick_e(placement: Placement, belief: PerformanceModel, *, promises: bool = True) -> Rubick:
    """Rubick that changes plans and leaves sizes as they were asked for."""
    return Rubick(placement, belief, resources=False, promises=promises)


def rubick_r(placement: Placement, belief: PerformanceModel, *, promises: bool = True) -> Rubick:
    """Rubick that changes sizes and keeps to the user's kind of plan."""
    return Rubick(placement, belief, plans=False, promises=promises)


def rubick_n(placement: Placement, belief: PerformanceModel, *, promises: bool = True) -> Rubick:
    """Rubick that changes neither plans nor sizes: its order and its placement."""
    return Rubick(placement, belief, plans=False, resources=False, promises=promises)
