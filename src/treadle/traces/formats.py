"""The table of trace formats: the columns that identify each one, and its reader."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from treadle.traces.table import Table
from treadle.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Format:
    """One trace format. A file has the first format in the table whose columns it all has.

    The reader ("module:function") is imported on use: all of them take 15 ms, one takes 1.
    """

    name: str
    columns: tuple[str, ...]
    reader: str

    def read(self, table: Table) -> Workload:
        module, _, function = self.reader.partition(":")
        read: Callable[[Table], Workload] = getattr(
            import_module(f"treadle.traces.{module}"), function
        )
        return read(table)


def _of(name: str, columns: str, reader: str) -> Format:
    return Format(name, tuple(columns.split()), reader)


# The more specific formats come first: every Muri and Chronus file has Tiresias' columns too.
FORMATS = (
    _of("treadle", "id submit_s sizes iterations", "treadle_csv:read_treadle_csv"),
    _of("muri", "job_id num_gpu submit_time iterations iteration_time", "tiresias:read_muri"),
    _of(
        "chronus",
        "job_id user num_gpu submit_time duration expect_time_list best_effort",
        "tiresias:read_chronus",
    ),
    _of("tiresias", "job_id num_gpu submit_time duration", "tiresias:read_tiresias"),
    _of("philly", "job_id submit_s num_gpus duration_s", "philly:read_philly"),
    _of(
        "elasticflow",
        "job_id submission_time deadline num_gpu duration",
        "tiresias:read_elasticflow",
    ),
    _of("itp", "job_id submission_time num_gpu duration", "tiresias:read_itp"),
    _of("pollux", "name time application num_replicas batch_size", "pollux:read_pollux"),
    _of(
        "rubick", "name submission_time duration application num_gpus is_sla", "rubick:read_rubick"
    ),
    _of(
        "openb",
        "name num_gpu gpu_milli creation_time deletion_time scheduled_time",
        "openb:read_openb",
    ),
    _of("afs", "app_id submit_time service num_jobs model_name", "afs:read_afs"),
)
# Without a header: tab-separated, identified by the number of columns.
BARE_FORMATS = (
    _of(
        "gavel",
        "job_type command working_directory num_steps_arg needs_data_dir total_steps scale_factor "
        "priority_weight SLO arrival_time",
        "gavel:read_gavel",
    ),
    _of(
        "shockwave",
        "job_type command working_directory num_steps_arg needs_data_dir total_steps scale_factor "
        "mode priority_weight SLO duration arrival_time",
        "gavel:read_shockwave",
    ),
)
# Files that are often next to a trace and are not one, with what they are.
NOT_JOBS = (
    (("machineId", "number of GPUs"), "Philly's list of machines, to be given as the cluster"),
    (("sn", "cpu_milli", "gpu", "model"), "openb's list of nodes, to be given as the cluster"),
)
