"""Tiresias' CSV and its descendants: Muri's (milliseconds), Chronus' (minutes), ITP's.

Those of ITP (elasticflow-traces, MIT) are raw, or ElasticFlow's, with deadlines.
"""

from collections.abc import Callable

from treadle.core.job import JobSpec, Profile
from treadle.traces.table import Row, Table
from treadle.traces.workload import Workload


def read_tiresias(table: Table) -> Workload:
    """Seconds. The file's iterations are ignored: its durations are more precise."""
    _read_seconds(table, "submit_time")
    return table.workload("tiresias", "one iteration is one second at the asked size")


def read_itp(table: Table) -> Workload:
    """Seconds."""
    _read_seconds(table, "submission_time")
    return table.workload("itp", "one iteration is one second at the asked size")


def read_elasticflow(table: Table) -> Workload:
    """Seconds; the deadline is a moment on the trace's clock."""
    _read_seconds(table, "submission_time", table.moment("deadline"))
    return table.workload(
        "elasticflow",
        "one iteration is one second at the asked size; num_iteration and batch_size are not used",
        "some deadlines come before the duration at the asked size: they need a larger size",
    )


def _read_seconds(
    table: Table, submitted: str, deadline: Callable[[Row], float] | None = None
) -> None:
    identity, model = table.text("job_id", required=True), table.text("model_name")
    size, submit = table.count("num_gpu"), table.moment(submitted)
    duration = table.length("duration")
    for row in table.rows():
        table.rigid(
            identity(row),
            size(row),
            duration(row),
            submit(row),
            model=model(row),
            deadline_at=None if deadline is None else deadline(row),
        )


def read_muri(table: Table) -> Workload:
    """Milliseconds; the work is in iterations, priority 1 means opportunistic."""
    identity, model = table.text("job_id", required=True), table.text("model_name")
    size, work = table.count("num_gpu"), table.count("iterations")
    submit = table.moment("submit_time", unit="milliseconds", over=1000)
    alone_s = table.length("iteration_time", unit="milliseconds", over=1000)
    duration_s = table.length("duration", unit="milliseconds", over=1000)
    data, compute, network = (
        table.moment(f"resource_time_{stage}", unit="milliseconds", over=1000) for stage in range(3)
    )
    priority = table.count("priority", least=0, default=0)
    profiles: dict[tuple[float, ...], Profile] = {}
    for row in table.rows():
        times = (data(row), compute(row), network(row), alone_s(row))
        key = (*times, size(row))
        if key not in profiles:
            profiles[key] = Profile(
                load_s=times[0] / 2,
                prepare_s=times[0] / 2,
                compute_s=times[1],
                sync_s=times[2],
                alone_s=times[3],
                size=size(row),
                model=model(row),
            )
        table.add(
            JobSpec(
                identity(row),
                float(work(row)),
                sizes=(size(row),),
                profile=profiles[key],
                submit_at=submit(row),
                guaranteed=priority(row) == 0,
                estimate_s=duration_s(row),
            )
        )
    return table.workload(
        "muri",
        "times were milliseconds",
        "alone, an iteration takes iteration_time; the stages, which do not add up to it, are for "
        "jobs that interleave",
        "reading from storage and preparing on the CPU were measured as one stage, and are counted "
        "half as reading, half as preparing",
        "priority 1 is a job without a guarantee",
    )


def read_chronus(table: Table) -> Workload:
    """Minutes; strict jobs have a deadline counted from their submission, others none."""
    identity, model = table.text("job_id", required=True), table.text("model_name")
    tenant, size = table.text("user"), table.count("num_gpu", least=0)
    submit = table.moment("submit_time", unit="minutes", times=60)
    duration = table.length("duration", unit="minutes", times=60)
    allowed = table.length("expect_time_list", unit="minutes", times=60)
    best_effort = table.count("best_effort", least=0)
    for row in table.rows():
        if size(row) == 0:
            table.skip("jobs without GPUs")
            continue
        submit_at, strict = submit(row), best_effort(row) == 0
        table.rigid(
            identity(row),
            size(row),
            duration(row),
            submit_at,
            model=model(row),
            tenant=tenant(row),
            guaranteed=strict,
            deadline_at=submit_at + allowed(row) if strict else None,
        )
    return table.workload(
        "chronus", "times were minutes", "one iteration is one second at the asked size"
    )
