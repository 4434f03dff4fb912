"""Gavel's traces (ten columns, no header) and Shockwave's (twelve); both are tab-separated.

The steps a second of Gavel's job types are those alone on V100s of one node. They were measured by
the authors of Gavel (Narayanan et al., OSDI 2020; repository stanford-futuredata/gavel at
c4fa40097339, simulation_throughputs.json), here to five digits. A step at more GPUs is a step of
the whole job, as in the traces' total_steps.
"""

from treadle.traces.table import Table
from treadle.traces.workload import Workload

# job type -> GPUs -> steps a second
STEPS_PER_S: dict[str, dict[int, float]] = {
    "ResNet-18 (batch size 16)": {1: 32.353, 2: 100.14, 4: 123.85, 8: 382.6},
    "ResNet-18 (batch size 32)": {1: 29.947, 2: 94.249, 4: 114.73, 8: 340.04},
    "ResNet-18 (batch size 64)": {1: 24.093, 2: 74.136, 4: 95.588, 8: 255.83},
    "ResNet-18 (batch size 128)": {1: 17.995, 2: 23.985, 4: 69.951, 8: 162.09},
    "ResNet-18 (batch size 256)": {1: 10.3, 2: 15.883, 4: 27.782, 8: 81.507},
    "ResNet-50 (batch size 16)": {1: 11.396, 2: 13.86, 4: 23.196, 8: 27.799},
    "ResNet-50 (batch size 32)": {1: 7.7873, 2: 10.835, 4: 13.763, 8: 24.067},
    "ResNet-50 (batch size 64)": {1: 4.3948, 2: 7.9221, 4: 9.4519, 8: 17.303},
    "ResNet-50 (batch size 128)": {1: 2.4968, 2: 4.223, 4: 7.0293, 8: 10.293},
    "Transformer (batch size 16)": {1: 11.064, 2: 14.154, 4: 20.085, 8: 71.652},
    "Transformer (batch size 32)": {1: 10.621, 2: 13.328, 4: 22.823, 8: 63.978},
    "Transformer (batch size 64)": {1: 8.6178, 2: 15.876, 4: 19.66, 8: 49.651},
    "Transformer (batch size 128)": {1: 5.4461, 2: 10.069, 4: 14.175, 8: 30.884},
    "Transformer (batch size 256)": {1: 1.5951, 2: 2.8852, 4: 4.763, 8: 9.717},
    "A3C": {1: 7.1758},
    "LM (batch size 5)": {1: 109.17, 2: 185.72, 4: 126.72, 8: 698.77},
    "LM (batch size 10)": {1: 81.652, 2: 163.13, 4: 121.48, 8: 615.09},
    "LM (batch size 20)": {1: 64.742, 2: 132.17, 4: 111.0, 8: 497.3},
    "LM (batch size 40)": {1: 45.237, 2: 91.593, 4: 96.031, 8: 359.31},
    "LM (batch size 80)": {1: 28.24, 2: 58.092, 4: 74.807, 8: 231.18},
    "Recommendation (batch size 512)": {1: 23.318},
    "Recommendation (batch size 1024)": {1: 13.283},
    "Recommendation (batch size 2048)": {1: 7.4696},
    "Recommendation (batch size 4096)": {1: 3.9061},
    "Recommendation (batch size 8192)": {1: 2.8415},
    "CycleGAN": {1: 4.4261},
}


def read_gavel(table: Table) -> Workload:
    """The work is in steps; the speed is that of the job type on V100s, as no duration is given."""
    kind, steps = table.text("job_type", required=True), table.amount("total_steps", "steps")
    size, arrival = table.count("scale_factor"), table.moment("arrival_time")
    for number, row in enumerate(table.rows()):
        model, many = kind(row), size(row)
        step_s = 1 / _steps_per_s(table, model, many)
        table.rigid(str(number), many, steps(row), arrival(row), model=model, alone_s=step_s)
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
        table.rigid(str(number), size(row), duration(row), arrival(row), model=kind(row))
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
