"""Microsoft's Philly log (Jeon et al., USENIX ATC 2019, CC-BY-4.0): one job a line, or official."""

from treadle.traces.table import Table
from treadle.traces.workload import Workload

CITE = "Philly log: Jeon et al., USENIX ATC 2019, CC-BY-4.0; cite it where a report uses it"
# The log's words for how a job ended -> ours.
ENDS = {"pass": "passed", "killed": "killed", "failed": "unsuccessful", "notpass": "not passed"}


def read_philly(table: Table) -> Workload:
    """Seconds; the virtual cluster is the tenant."""
    identity, tenant = table.text("job_id", required=True), table.text("vc")
    size, submit = table.count("num_gpus"), table.moment("submit_s")
    duration, status = table.length("duration_s"), table.text("status")
    add = table.rigid
    for row in table.rows():
        ended = ENDS.get(status(row).lower(), status(row))
        add(identity(row), size(row), duration(row), submit(row), tenant=tenant(row), status=ended)
    return table.workload("philly", CITE, "one iteration is one second at the asked size")
