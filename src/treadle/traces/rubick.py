"""Rubick's workloads (reconfigurable-dl-scheduler, Apache-2.0): Philly's busiest twelve hours."""

from treadle.core.job import JobSpec
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.traces.table import Table
from treadle.traces.workload import Workload


def read_rubick(table: Table) -> Workload:
    """Seconds; is_sla 1 is a guaranteed job of tenant A, 0 a best-effort job of tenant B.

    The authors' two tenants are these: A has a quota and B has none.
    """
    identity, model = table.text("name", required=True), table.text("application")
    size, submit = table.count("num_gpus"), table.moment("submission_time")
    duration, promised = table.length("duration"), table.count("is_sla", least=0)
    steps, plan = table.count("steps", default=0), table.text("exec_plan")
    rows = [(table.line, row) for row in table.rows()]
    # Only the multi-tenant variant of the trace uses this column; in the others every row has 0,
    # which cannot mean that the whole cluster is best effort.
    has_both = any(row[table.header.index("is_sla")].strip() not in {"", "0"} for _, row in rows)
    for table.line, row in rows:
        asked, count = size(row), steps(row)
        lasts_s, own = duration(row), plan(row)
        guaranteed = bool(promised(row)) or not has_both
        sizes, profile = table.shape(asked, model(row), lasts_s / count if count else 0.0)
        table.add(
            JobSpec(
                identity(row),
                count or lasts_s,
                sizes=sizes,
                profile=profile,
                # Policies without plans use the default plan.
                plans=(*([_plan(table, own, asked)] if own else []), DATA_PARALLEL),
                submit_at=submit(row),
                tenant=("A" if guaranteed else "B") if has_both else "",
                guaranteed=guaranteed,
            )
        )
    return table.workload(
        "rubick",
        "durations are those of the authors' best plan, whatever exec_plan says; with "
        "--speeds plans, steps take as long as the plan makes them",
        "num_cpus and bandwidth are not used",
        "the authors' files called base and bp look swapped: bp holds the random plans",
        *(() if has_both else ("is_sla is 0 in every row: every job counts as guaranteed",)),
    )


def _plan(table: Table, text: str, size: int) -> Plan:
    """A plan in the authors' words: pipeline, tensor and data degree, or what saves memory."""
    if len(text) == 3 and text.isascii() and text.isdigit() and "0" not in text:
        pipeline, tensor, data = map(int, text)
        if pipeline * tensor * data != size:
            raise table.error(f"exec_plan {text} does not make num_gpus {size}")
        return Plan(tensor, pipeline, data)
    # The authors write ga for plain data parallelism: their runs accumulate over one step.
    if text == "ga":
        return Plan(data=size)
    if text == "gc":
        return Plan(data=size, recompute=True)
    if text in {"zero-dp", "zero-offload"}:
        return Plan(data=size, shard="gradients", offload=text == "zero-offload")
    raise table.error(
        f"exec_plan is {text!r}; expected ga, gc, zero-dp, zero-offload or three digits"
    )
