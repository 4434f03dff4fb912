"""The policy in charge: made from its name, with the wrappers that every live policy gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from treadle.control.loop.clock import wall
from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.events import Event, NodeJoined
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.ranking import Rank, check_rank
from treadle.core.reasons import Reason
from treadle.core.scheduler import Observer, Scheduler
from treadle.core.snapshot import KEEP, Schedule, Snapshot, Standing
from treadle.core.why import reason_of
from treadle.models.company.belief import CompanyBelief
from treadle.models.company.record import CompanyRecord
from treadle.models.learning.spread import DOUBT
from treadle.models.plans.live_plans import LivePlans
from treadle.models.plans.space import Planner
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import allows, with_defaults, wrapped
from treadle.policies.registry import policy
from treadle.policies.wrappers.wrapper import Wrapper


@dataclass(slots=True)
class PolicyInCharge:
    """The policy as its user named it, and how it does."""

    policy: str = ""
    placement: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # that hold under every policy
    wrapped: str = ""  # its name with the wrappers around it
    since_at: float = 0.0
    error: str = ""  # of its last decision, if that failed
    trouble: str = ""  # of anything else it was asked; stays until another policy is set
    last_s: float = 0.0  # how long its last decision took
    longest_s: float = 0.0
    cpu_s: float = 0.0  # of all decisions since the daemon began, under every policy

    @property
    def failing(self) -> str:
        """What is wrong with it; empty if nothing is."""
        return self.error or self.trouble

    def decided(self, spent_s: float, worked_s: float) -> None:
        self.last_s, self.error = spent_s, ""
        self.longest_s = max(self.longest_s, spent_s)
        self.cpu_s += worked_s

    def make(self, text: str, place: str, belief: InterleavingModel) -> Policy:
        """Put a policy in charge; raises InvalidInputError for unknown names."""
        made = self.prepare(text, place, belief)
        self.take_over(text, place)
        return made

    def prepare(
        self,
        text: str,
        place: str,
        belief: InterleavingModel,
        settings: Mapping[str, str] | None = None,
    ) -> Policy:
        """The policy of that name, not yet in charge. settings: instead of those in force."""
        whole = with_defaults(text, self.settings if settings is None else settings)
        if not allows(whole, "share") and isinstance(belief, CompanyBelief):
            belief = belief.apart()
        return Guarded(policy(wrapped(whole), placement(place), belief), self)

    def whole(self, text: str = "") -> str:
        """A policy, or the one in charge, with the settings that it does not name itself."""
        return with_defaults(text or self.policy, self.settings)

    def take_over(self, text: str, place: str) -> None:
        """The policy of that name is in charge from now on."""
        self.policy, self.placement, self.wrapped = text, place, wrapped(self.whole(text))
        self.since_at = wall()
        self.error = self.trouble = ""
        self.last_s = self.longest_s = 0.0


class LiveBelief(CompanyBelief):
    """The live belief, with an idea of execution plans for policies that choose them."""

    plans: LivePlans
    scaling: ScalingModel

    @property
    def planner(self) -> Planner:
        return self.plans.planner

    @property
    def version(self) -> int:
        return self.plans.version

    def apart(self) -> "LiveBelief":
        twin = LiveBelief(self._base, self._cluster, record=self.record, allowed=False)
        twin.mps, twin.plans, twin.scaling = self.mps, self.plans, self.scaling
        return twin


def belief_on(cluster: Cluster, record: CompanyRecord | None = None) -> LiveBelief:
    """How fast jobs would run alone and together, by what was measured of them."""
    scaling = ScalingModel.on(cluster, DOUBT)
    belief = LiveBelief(scaling, cluster, record=record)
    belief.scaling = scaling
    belief.plans = LivePlans(cluster)
    return belief


def following_nodes(belief: LiveBelief) -> Observer:
    """Let a belief know the racks of nodes that join, and what plans have room for."""

    def observe(
        now: float,  # noqa: ARG001
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG001
        scheduler: Scheduler,
    ) -> None:
        for event in events:
            if isinstance(event, NodeJoined):
                belief.scaling.joined(event.node)
        belief.plans.on(scheduler.cluster)

    return observe


class Guarded(Wrapper):
    """A policy whose mistakes outside decisions do not stop the controller.

    Jobs are ranked and judged when they arrive, and after a restart. If a policy fails at that,
    jobs are ranked in order of arrival until an admin sets another policy.
    """

    def __init__(self, inner: Policy, charge: PolicyInCharge) -> None:
        super().__init__(inner)
        self._charge = charge

    def rank(self, job: Job, now: float) -> Rank:
        try:
            return check_rank(self.inner.rank(job, now), job)
        except Exception as error:  # a third party's policy may raise anything
            self._note(f"it cannot rank job {job.id}", error)
            return Rank(float(job.sequence))

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        try:
            return self.inner.never_fits(spec, cluster)
        except Exception as error:  # likewise
            self._note(f"it cannot say whether job {spec.id} fits", error)
            return None

    def take_over(self, memory: object) -> object:
        try:
            return self.inner.take_over(memory)
        except Exception:  # likewise; it begins anew, as after a restart
            return None

    def standings(self, snapshot: Snapshot) -> Mapping[str, Standing] | None:
        try:
            return self.inner.standings(snapshot)
        except Exception:  # likewise
            return None

    def quotas(self, snapshot: Snapshot) -> Mapping[str, float] | None:
        try:
            return self.inner.quotas(snapshot)
        except Exception:  # likewise; nothing is said of them then
            return None

    def reason(self, snapshot: Snapshot, job: JobId) -> Reason:
        try:
            return self.inner.reason(snapshot, job)
        except Exception:  # likewise
            return reason_of(snapshot, job)

    def _note(self, what: str, error: Exception) -> None:
        self._charge.trouble = f"{what}: {error or repr(error)}"


class Resting(Wrapper):
    """A policy that starts and changes nothing: what runs, runs on."""

    def decide(self, snapshot: Snapshot) -> Schedule:  # noqa: ARG002
        return KEEP
