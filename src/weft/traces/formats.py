"""The table of formats: which columns tell a file's format, and who reads it."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.traces.afs import read_afs
from weft.traces.clusters import MACHINE_LIST, NODE_LIST
from weft.traces.gavel import GAVEL_COLUMNS, SHOCKWAVE_COLUMNS, read_gavel, read_shockwave
from weft.traces.itp import read_elasticflow, read_itp
from weft.traces.openb import read_openb
from weft.traces.own import read_own
from weft.traces.philly import read_philly
from weft.traces.pollux import read_pollux
from weft.traces.rubick import read_rubick
from weft.traces.table import Table
from weft.traces.tiresias import read_chronus, read_muri, read_tiresias
from weft.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of table: a file is of the first format all of whose columns it has."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[Table], Workload]


def _of(name: str, columns: str, read: Callable[[Table], Workload]) -> Format:
    return Format(name, tuple(columns.split()), read)


# The more particular first: every Muri and Chronus file has Tiresias' columns too.
FORMATS = (
    _of("weft", "id submit_s sizes iterations", read_own),
    _of("muri", "job_id num_gpu submit_time iterations iteration_time priority", read_muri),
    _of(
        "chronus",
        "job_id user num_gpu submit_time duration expect_time_list best_effort",
        read_chronus,
    ),
    _of("tiresias", "job_id num_gpu submit_time duration", read_tiresias),
    _of("philly", "job_id submit_s num_gpus duration_s", read_philly),
    _of("elasticflow", "job_id submission_time deadline num_gpu duration", read_elasticflow),
    _of("itp", "job_id submission_time num_gpu duration", read_itp),
    _of("pollux", "name time application num_replicas batch_size", read_pollux),
    _of("rubick", "name submission_time duration application num_gpus is_sla", read_rubick),
    _of("openb", "name num_gpu gpu_milli creation_time deletion_time scheduled_time", read_openb),
    _of("afs", "app_id submit_time service num_jobs model_name", read_afs),
)
# Without a header: tab-separated, told by the number of columns.
BARE_FORMATS = (
    Format("gavel", GAVEL_COLUMNS, read_gavel),
    Format("shockwave", SHOCKWAVE_COLUMNS, read_shockwave),
)
# Files that people have beside their traces, and what they are.
NOT_JOBS = (
    (MACHINE_LIST, "Philly's list of machines; give it as the cluster"),
    (NODE_LIST, "openb's list of nodes; give it as the cluster"),
    (("vc", "node num"), "a table of nodes per virtual cluster"),
    (("ip", "DSW", "PSW", "ASW"), "a network's topology, one host a line"),
    (("id", "job_num", "gpu_job_num", "avg_run_time_gpu"), "a summary of clusters, one a line"),
)
