"""The profile of a job, from what was learned of its kind."""

from collections.abc import Sequence

from treadle.core.job import Profile
from treadle.models.learning.curves import SERIAL, FittedCurve
from treadle.models.learning.kind_history import Needs
from treadle.models.learning.spread import Apart


def learned_profile(
    needs: Needs,
    apart: Apart,
    curve: FittedCurve | None,
    *,
    asked: int,
    sizes: Sequence[int],
    model: str,
) -> Profile:
    """curve: seconds of a step by size; None: no speed was measured."""
    load, prepare, compute, sync = needs.stages or (0.0, 0.0, 1.0, 0.0)
    return Profile(
        load_s=load,
        prepare_s=prepare,
        compute_s=compute,
        sync_s=sync,
        alone_s=0.0 if needs.stages is None else 1.0,
        size=asked,
        serial=SERIAL,
        model=model,
        curve=() if curve is None else curve.carried((asked, *sizes)),
        measured=() if curve is None else curve.measured,
        busy=needs.busy,
        memory_busy=needs.memory_busy,
        cores=needs.cores,
        memory_gib=needs.memory_gib or 0.0,
        restart_s=needs.restart_s or 0.0,
        resize_s=needs.resize_s or 0.0,
        across_nodes=apart.nodes,
        across_racks=apart.racks,
    )
