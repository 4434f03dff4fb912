"""One run as a JSON object: what `weft simulate --json` prints, and everything that follows it."""

from weft.reports.metrics import Summary
from weft.sim.experiment import Experiment
from weft.traces.workload import Workload


def facts(
    workload: Workload, experiment: Experiment, summary: Summary, cpu_s: float
) -> dict[str, object]:
    settings = experiment.settings
    return {
        **summary.as_dict(),
        "placement": settings.placement,
        "time": settings.time,
        "seed": settings.seed,
        "trace": workload.name,
        "notes": [*workload.notes, *experiment.notes()],
        "cpu_s": round(cpu_s, 3),
    }
