"""AFS' traces of one Philly virtual cluster: service is the duration times the model's speed-up.

The speed-up at the asked GPUs gives the duration back. Counts between the measured ones are
interpolated in the iteration time, as in the repository that the traces come from.
"""

from functools import cache

from treadle.core.job import JobSpec, Profile
from treadle.models.afs_models import ITERATION_S, measured
from treadle.models.scaling import interpolate
from treadle.traces.philly import CITE
from treadle.traces.table import Table
from treadle.traces.workload import Workload


def read_afs(table: Table) -> Workload:
    """Seconds; durations are rounded to the whole seconds that Philly's log has."""
    identity, model = table.text("app_id", required=True), table.text("model_name", required=True)
    asked, submit = table.count("num_jobs"), table.moment("submit_time")
    service = table.amount("service", "GPU-seconds")
    for row in table.rows():
        profile = _profile(table, model(row), asked(row))
        # The curve's own ratio is the speed-up that the service was multiplied by.
        speedup = profile.curve[0][1] / interpolate(profile.curve, profile.size)
        table.add(
            JobSpec(
                identity(row),
                float(max(1, round(service(row) / speedup))),
                sizes=_sizes(profile.curve[-1][0]),
                asked=profile.size,
                profile=profile,
                submit_at=submit(row),
            )
        )
    return table.workload(
        "afs",
        CITE,
        "one iteration is one second at the asked size, recovered from the service",
        "jobs may run on 1 to as many GPUs as their model was measured on; rigid policies run them "
        "at the size asked for",
    )


@cache
def _sizes(largest: int) -> tuple[int, ...]:
    return tuple(range(1, largest + 1))


def _profile(table: Table, model: str, asked: int) -> Profile:
    if model not in ITERATION_S:
        raise table.error(
            f"model {model!r} has no measured speed-up; expected one of {', '.join(ITERATION_S)}"
        )
    profile = _measured(model, asked)
    largest = profile.curve[-1][0]
    if asked > largest:
        raise table.error(
            f"model {model!r} has no measured speed-up on {asked} GPUs; expected 1 to {largest}"
        )
    return profile


@cache
def _measured(model: str, asked: int) -> Profile:
    """One profile for all jobs alike."""
    return Profile(size=asked, model=model, curve=measured(model))
