"""The policy in charge: made from its name, with what the controller puts around every policy."""

from treadle.control.jobs.desk import Decider
from treadle.control.loop.clock import wall
from treadle.core.cluster import Cluster
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import InterleavingModel, Policy
from treadle.core.ranking import Rank, check_rank
from treadle.core.snapshot import KEEP, Reason, Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import parts, policy
from treadle.policies.wrappers.wrapper import Wrapper

DEFAULT = "afs"
PLACEMENT = "consolidate"
# Around every policy, the innermost first: priorities, not again at once or where it failed, no
# thrashing. A job that backs off must see who of a lower priority would pass it, so that one comes
# after the priorities.
AROUND = ("priority", "elsewhere", "steady")


def dressed(text: str) -> str:
    """The policy's name with what it wears when it is live.

    What its user put on stays, with its parameters; but these come outside of everything else and
    in their order, whatever that was: nobody's work is lost to the order of words.
    """
    first, *wrappers = parts(text)
    named = {wrapper.partition("?")[0]: wrapper for wrapper in wrappers}
    if len(named) < len(wrappers):
        return text  # One of them is worn twice, which is refused when it is made.
    others = [wrapper for name, wrapper in named.items() if name not in AROUND]
    return "+".join([first, *others, *(named.get(name, name) for name in AROUND)])


def make(text: str, place: str, belief: InterleavingModel) -> tuple[Policy, Decider]:
    """The policy and what is said of it; raises InvalidInputError for names nobody knows."""
    whole = dressed(text)
    decider = Decider(text, place, whole, wall())
    return Guarded(policy(whole, placement(place), belief), decider), decider


def belief_on(cluster: Cluster) -> InterleavingModel:
    """How fast jobs would run: by what their own profiles say (profiles.py)."""
    return TokenModel(ScalingModel.on(cluster), StageTimes())


class Guarded(Wrapper):
    """A policy whose mistakes outside decisions do not stop the controller.

    Jobs are ranked and judged when they arrive, and when a controller takes over. A policy that
    fails at that is worked around, in the order of arrival, until somebody sets another.
    """

    def __init__(self, inner: Policy, decider: Decider) -> None:
        super().__init__(inner)
        self._decider = decider

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

    def why(self, snapshot: Snapshot, job: JobId) -> Reason:
        try:
            return self.inner.why(snapshot, job)
        except Exception as error:  # likewise
            return Reason("rank", f"it waits for its turn; the policy cannot say more ({error})")

    def _note(self, what: str, error: Exception) -> None:
        self._decider.trouble = f"{what}: {error or repr(error)}"


class Resting(Wrapper):
    """A policy that starts and changes nothing any more: what runs, runs on."""

    def decide(self, snapshot: Snapshot) -> Schedule:  # noqa: ARG002
        return KEEP
