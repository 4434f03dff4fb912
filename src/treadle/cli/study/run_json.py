"""One simulated run as a JSON object, as `treadle simulate --json` prints it."""

from treadle.reports.metrics import Summary
from treadle.sim.experiment import Experiment
from treadle.traces.workload import Workload


def facts(
    workload: Workload, experiment: Experiment, summary: Summary, cpu_s: float
) -> dict[str, object]:
    settings = experiment.settings
    return {
        **summary.as_dict(),
        "live": settings.live,
        "placement": settings.placement,
        "time": settings.time,
        "seed": settings.seed,
        "trace": workload.name,
        "notes": [*workload.notes, *experiment.notes()],
        "cpu_s": round(cpu_s, 3),
    }
