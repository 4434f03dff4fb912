"""Tiresias' CSV, and its two descendants: Muri's (milliseconds) and Chronus' (minutes)."""

from weft.core.job import JobSpec
from weft.traces.table import Table
from weft.traces.workload import Workload


def read_tiresias(table: Table) -> Workload:
    """Seconds. The file's own iterations say nothing that its durations do not say better."""
    identity, model = table.text("job_id", required=True), table.text("model_name")
    size, submit = table.count("num_gpu"), table.moment("submit_time")
    duration = table.length("duration")
    for row in table.rows():
        sizes, profile = table.shape(size(row), model(row))
        table.add(
            JobSpec(
                identity(row), duration(row), sizes=sizes, profile=profile, submit_at=submit(row)
            )
        )
    return table.workload("tiresias", "one iteration is one second at the asked size")


def read_muri(table: Table) -> Workload:
    """Milliseconds; the work is in iterations, priority 1 means opportunistic."""
    identity, model = table.text("job_id", required=True), table.text("model_name")
    size = table.count("num_gpu")
    submit = table.moment("submit_time", unit="milliseconds", over=1000)
    work = table.count("iterations")
    iteration_s = table.length("iteration_time", unit="milliseconds", over=1000)
    priority = table.count("priority", least=0)
    for row in table.rows():
        sizes, profile = table.shape(size(row), model(row), iteration_s(row))
        table.add(
            JobSpec(
                identity(row),
                float(work(row)),
                sizes=sizes,
                profile=profile,
                submit_at=submit(row),
                guaranteed=priority(row) == 0,
            )
        )
    return table.workload(
        "muri",
        "times were milliseconds",
        "an iteration takes iteration_time; the stage times do not add up to it and are not used",
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
        sizes, profile = table.shape(size(row), model(row))
        submit_at, strict = submit(row), best_effort(row) == 0
        table.add(
            JobSpec(
                identity(row),
                duration(row),
                sizes=sizes,
                profile=profile,
                submit_at=submit_at,
                tenant=tenant(row),
                guaranteed=strict,
                deadline_at=submit_at + allowed(row) if strict else None,
            )
        )
    return table.workload(
        "chronus", "times were minutes", "one iteration is one second at the asked size"
    )
