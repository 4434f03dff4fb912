"""Alibaba's openb pods (clusterdata gpu-v2023, Apache-2.0): part of a GPU becomes a whole one."""

from treadle.traces.table import Row, Table
from treadle.traces.workload import Ran, Workload

_WHOLE_GPU_MILLI = 1000


def read_openb(table: Table) -> Workload:
    """Seconds; a pod runs from when it was scheduled, or created, until it was deleted."""
    identity, size = table.text("name", required=True), table.count("num_gpu", least=0)
    milli, submit = table.count("gpu_milli", least=0), table.moment("creation_time")
    quality, phase = table.text("qos"), table.text("pod_phase")
    scheduled, deleted = table.text("scheduled_time"), table.text("deletion_time")
    scheduled_at, deleted_at = table.moment("scheduled_time"), table.moment("deletion_time")

    def duration_s(row: Row) -> float:
        return deleted_at(row) - (scheduled_at(row) if scheduled(row) else submit(row))

    parts = 0
    for row in table.rows():
        if size(row) == 0:
            table.skip("pods without GPUs")
        elif not deleted(row):
            table.skip("pods without an end")
        elif duration_s(row) <= 0:
            table.skip("pods that ended when they began")
        else:
            parts += milli(row) < _WHOLE_GPU_MILLI
            table.rigid(
                identity(row),
                size(row),
                duration_s(row),
                submit(row),
                status=phase(row).lower(),
                runs=(Ran(scheduled_at(row), deleted_at(row)),) if scheduled(row) else (),
                guaranteed=quality(row) != "BE",
            )
    return table.workload(
        "openb",
        "one iteration is one second at the asked size",
        f"{parts:,} pods asked for part of a GPU and are given a whole one",
        "gpu_spec is not used; quality of service BE is a job without a guarantee",
    )
