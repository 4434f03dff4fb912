"""What is true of speeds in an experiment, and what its policies believe of speeds and lengths.

With `--belief learned`, policies are given the learner that the live controller uses
(`treadle.models.learning`): speeds, how jobs go together, and lengths (hidden_lengths.py).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.core.ports import InterleavingModel, PerformanceModel
from treadle.core.scheduler import Observer
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.sim.settings import BELIEFS, LENGTHS, SPEEDS, Settings, effects, lengths_known, sharing

if TYPE_CHECKING:
    from treadle.models.loss_streams import LossForecasts
    from treadle.models.plans.belief import PlanBelief
    from treadle.models.plans.space import Planner
    from treadle.sim.hidden_lengths import LengthLearner

# Policies that ask a belief about lengths: for an index, or for what is left and how sure that is.
ASKING = ("gittins", "aiturbo", "optimus")


def base_model(
    cluster: Cluster, settings: Settings, planner: "Planner | None" = None
) -> PerformanceModel:
    """How fast jobs run that share nothing; CPU slots count where the cluster has some.

    `planner`: what is taken to be true of plans, if not what the catalogue says.
    """
    base: PerformanceModel = ScalingModel.on(cluster, effects(settings.effects))
    if any(node.has_slots for node in cluster.nodes):
        from treadle.models.workers import WorkersModel  # noqa: PLC0415  # most runs need none

        base = WorkersModel(base, cluster, seed=settings.seed)
    if settings.speeds == "scaling":
        return base
    if settings.speeds not in SPEEDS:
        raise InvalidInputError(
            f"speeds {settings.speeds!r} are not known; expected one of {', '.join(SPEEDS)}"
        )
    if any(node.has_slots for node in cluster.nodes):
        raise InvalidInputError(
            "speeds by plans are those of GPUs and the cluster has CPU slots; leave one of them out"
        )
    from treadle.models.plans.planned import PlannedModel, standard  # noqa: PLC0415  # as above

    return PlannedModel(planner or standard(), base, node=cluster.largest_node, even=False)


def forecasts(jobs: Sequence[JobSpec], settings: Settings) -> "LossForecasts":
    """When jobs will end, predicted from their losses."""
    if settings.lengths not in LENGTHS:
        raise InvalidInputError(
            f"lengths {settings.lengths!r} are not known; expected one of {', '.join(LENGTHS)}"
        )
    if settings.belief != "known" or settings.belief_error or settings.length_error:
        raise InvalidInputError(
            "lengths by losses go with speeds that are known: leave belief and errors out"
        )
    from treadle.models.loss_streams import LossForecasts  # noqa: PLC0415  # numpy loads slowly

    return LossForecasts(jobs, settings.seed)


def length_learner(belief: InterleavingModel, settings: Settings) -> "LengthLearner | None":
    """What policies are told of lengths where those must be learned; None: they are known."""
    lengths = lengths_known(settings)
    if lengths not in {"steps", "survival"}:
        return None
    if settings.length_error:
        raise InvalidInputError("lengths that are learned have no length error: leave it out")
    from treadle.sim.hidden_lengths import LengthLearner  # noqa: PLC0415  # most runs need none

    return LengthLearner(belief, reporting=lengths == "steps")


def knowing_lengths(
    belief: InterleavingModel, learner: "LengthLearner", settings: Settings
) -> InterleavingModel:
    """The belief, asked about lengths, answers what the learner knows of them."""
    from treadle.models.lengths.indexing import (  # noqa: PLC0415  # most runs need none
        LengthAware,
        WithLengths,
    )

    if isinstance(belief, LengthAware):
        belief.lengths = learner
    elif settings.policy.partition("+")[0].partition("?")[0] in ASKING:
        # Around no other policy: a wrapped model would not be seen to know plans or orders.
        return WithLengths(belief, learner)
    return belief


def forecasting(belief: InterleavingModel, lengths: "LossForecasts") -> InterleavingModel:
    from treadle.models.forecasts import Forecasting  # noqa: PLC0415  # most runs need none

    return Forecasting(belief, lengths)


def belief_of(
    truth: InterleavingModel, plans: "PlanBelief | None", settings: Settings
) -> tuple[InterleavingModel, tuple[Observer, ...]]:
    """What policies believe of speeds, and the observers that keep it up to date."""
    if settings.belief not in BELIEFS:
        raise InvalidInputError(
            f"belief {settings.belief!r} is not known; expected one of {', '.join(BELIEFS)}"
        )
    spread, seed = settings.belief_error, settings.seed
    if plans is not None:
        from treadle.models.plans.belief import watching  # noqa: PLC0415  # numpy loads slowly

        return plans, (watching(plans),)
    if settings.belief == "known":
        if not spread:
            return truth, ()
        from treadle.models.noisy import Noisy  # noqa: PLC0415  # hashing loads slowly

        return Noisy(truth, spread=spread, seed=seed), ()
    from treadle.models.learning.belief import (  # noqa: PLC0415  # most runs need none
        Learned,
        learning,
    )

    belief = Learned(truth)
    if settings.belief == "prior":
        if spread:
            raise InvalidInputError("belief prior measures nothing; it takes no belief error")
        return belief, ()
    return belief, (learning(belief, _measure(spread, seed) if spread else None),)


def plan_belief(cluster: Cluster, settings: Settings, times: StageTimes) -> "PlanBelief | None":
    """Plan models whose factors are off, and that are fitted again if beliefs are learned."""
    if settings.speeds != "plans" or (settings.belief == "known" and not settings.belief_error):
        return None
    from treadle.models.plans.belief import PlanBelief, believed  # noqa: PLC0415  # numpy loads slowly
    from treadle.models.plans.planned import standard  # noqa: PLC0415  # as above

    planner, refitting = believed(standard(), spread=settings.belief_error, seed=settings.seed)
    base = base_model(cluster, settings, planner)
    model = sharing(settings.sharing, base, times, settings.effects)
    return PlanBelief(model, planner, refitting if settings.belief == "learned" else None)


def _measure(spread: float, seed: int) -> Callable[[JobSpec, int, float], float]:
    """Speeds as they are measured, wrong by another factor for each job and size."""
    from treadle.models.noisy import log_normal  # noqa: PLC0415  # as above

    def measured(spec: JobSpec, size: int, speed: float) -> float:
        return speed * log_normal(spread, seed=seed, name=f"{spec.id}/{size}")

    return measured


def announced_as(settings: Settings) -> Callable[[JobSpec], JobSpec] | None:
    """How users describe their jobs; None: as they are."""
    if not settings.length_error:
        return None
    from treadle.models.noisy import misjudged  # noqa: PLC0415  # as above

    return partial(misjudged, spread=settings.length_error, seed=settings.seed)
