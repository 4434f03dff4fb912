"""Rubick's workloads (reconfigurable-dl-scheduler, Apache-2.0): Philly's busiest twelve hours."""

from weft.core.job import JobSpec
from weft.traces.table import Table
from weft.traces.workload import Workload


def read_rubick(table: Table) -> Workload:
    """Seconds; is_sla 1 is a job with a guarantee."""
    identity, model = table.text("name", required=True), table.text("application")
    size, submit = table.count("num_gpus"), table.moment("submission_time")
    duration, promised = table.length("duration"), table.count("is_sla", least=0)
    rows = [(table.line, row) for row in table.rows()]
    # Only the tenants' variant of the trace tells the two kinds apart; in the others every row
    # says 0, which cannot mean that the whole cluster is best effort.
    told_apart = any(row[table.header.index("is_sla")].strip() not in {"", "0"} for _, row in rows)
    for table.line, row in rows:
        sizes, profile = table.shape(size(row), model(row))
        table.add(
            JobSpec(
                identity(row),
                duration(row),
                sizes=sizes,
                profile=profile,
                submit_at=submit(row),
                guaranteed=bool(promised(row)) or not told_apart,
            )
        )
    return table.workload(
        "rubick",
        "one iteration is one second at the asked size and plan",
        "exec_plan, num_cpus, bandwidth and steps are not used",
        "the authors' files called base and bp look swapped: bp holds the random plans",
        *(() if told_apart else ("is_sla is 0 in every row: every job is taken as guaranteed",)),
    )
