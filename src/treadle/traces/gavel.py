"""Gavel's traces (ten columns, no header) and Shockwave's (twelve); both are tab-separated."""

from treadle.core.job import JobSpec
from treadle.traces.gavel_speeds import STEPS_PER_S
from treadle.traces.table import Table
from treadle.traces.workload import Workload


def read_gavel(table: Table) -> Workload:
    """The work is in steps; the speed is that of the job type on V100s, as no duration is given."""
    kind, steps = table.text("job_type", required=True), table.amount("total_steps", "steps")
    size, arrival = table.count("scale_factor"), table.moment("arrival_time")
    for number, row in enumerate(table.rows()):
        sizes, profile = table.shape(
            size(row), kind(row), 1 / _steps_per_s(table, kind(row), size(row))
        )
        table.add(
            JobSpec(str(number), steps(row), sizes=sizes, profile=profile, submit_at=arrival(row))
        )
    return table.workload(
        "gavel",
        "the trace has no durations: steps run at Gavel's measured V100 speed, alone on one node",
        "priority weights and SLOs are not used",
    )


def read_shockwave(table: Table) -> Workload:
    """The duration column already includes batch size changes during the job."""
    kind, size = table.text("job_type", required=True), table.count("scale_factor")
    duration, arrival = table.length("duration"), table.moment("arrival_time")
    for number, row in enumerate(table.rows()):
        sizes, profile = table.shape(size(row), kind(row))
        table.add(
            JobSpec(
                str(number), duration(row), sizes=sizes, profile=profile, submit_at=arrival(row)
            )
        )
    return table.workload(
        "shockwave",
        "one iteration is one second at the asked size",
        "batch sizes that change while a job runs (mode) are part of its duration only",
    )


def _steps_per_s(table: Table, kind: str, size: int) -> float:
    if kind not in STEPS_PER_S:
        raise table.error(
            f"job type {kind!r} has no measured speed; expected one of {', '.join(STEPS_PER_S)}"
        )
    if size not in STEPS_PER_S[kind]:
        known = ", ".join(map(str, STEPS_PER_S[kind]))
        raise table.error(
            f"job type {kind!r} has no measured speed on {size} GPUs; expected one of {known}"
        )
    return STEPS_PER_S[kind][size]
