"""The profile of a job, from what was learned of its kind."""

from collections.abc import Sequence

from treadle.core.job import Profile
from treadle.models.learning.curves import SERIAL, FittedCurve
from treadle.models.learning.kind_history import Costs
from treadle.models.learning.near import Use
from treadle.models.learning.spread import Apart
from treadle.models.learning.unlike import Factors

SEEN_DOUBT = 0.5  # what a job uses is known if it is off by no more, in powers of e


def learned_profile(
    use: Use,
    costs: Costs,
    apart: Apart,
    curve: FittedCurve | None,
    *,
    asked: int,
    sizes: Sequence[int],
    model: str,
    by_type: Factors = (),
) -> Profile:
    """curve: seconds of a step by size; None: no speed was measured."""
    load, prepare, compute, sync = costs.stages or (0.0, 0.0, 1.0, 0.0)
    seen = use.doubt <= SEEN_DOUBT
    return Profile(
        load_s=load,
        prepare_s=prepare,
        compute_s=compute,
        sync_s=sync,
        alone_s=0.0 if costs.stages is None else 1.0,
        size=asked,
        serial=SERIAL,
        model=model,
        curve=() if curve is None else curve.carried((asked, *sizes)),
        measured=() if curve is None else curve.measured,
        busy=use.busy if seen else None,
        memory_busy=use.memory_busy if seen else None,
        cores=use.cores if seen else None,
        memory_gib=use.memory_gib or 0.0,
        restart_s=costs.restart_s or 0.0,
        resize_s=costs.resize_s or 0.0,
        suspend_s=costs.suspend_s or 0.0,
        resume_s=costs.resume_s or 0.0,
        across_nodes=apart.nodes,
        across_racks=apart.racks,
        by_type=by_type,
    )
