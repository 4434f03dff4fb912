"""Microsoft's ITP traces (elasticflow-traces, MIT): raw, and ElasticFlow's with deadlines."""

from treadle.core.job import JobSpec
from treadle.traces.table import Table
from treadle.traces.workload import Workload


def read_itp(table: Table) -> Workload:
    """Seconds."""
    identity, size = table.text("job_id", required=True), table.count("num_gpu")
    submit, duration = table.moment("submission_time"), table.length("duration")
    for row in table.rows():
        sizes, profile = table.shape(size(row))
        table.add(
            JobSpec(
                identity(row), duration(row), sizes=sizes, profile=profile, submit_at=submit(row)
            )
        )
    return table.workload("itp", "one iteration is one second at the asked size")


def read_elasticflow(table: Table) -> Workload:
    """Seconds; the deadline is a moment on the trace's clock."""
    identity, size = table.text("job_id", required=True), table.count("num_gpu")
    submit, duration = table.moment("submission_time"), table.length("duration")
    model, deadline = table.text("model_name"), table.moment("deadline")
    for row in table.rows():
        sizes, profile = table.shape(size(row), model(row))
        table.add(
            JobSpec(
                identity(row),
                duration(row),
                sizes=sizes,
                profile=profile,
                submit_at=submit(row),
                deadline_at=deadline(row),
            )
        )
    return table.workload(
        "elasticflow",
        "one iteration is one second at the asked size; num_iteration and batch_size are not used",
        "some deadlines come before the duration at the asked size: they need a larger size",
    )
