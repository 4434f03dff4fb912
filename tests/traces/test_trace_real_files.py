"""Every public trace that holds jobs is read whole; the others say what they are."""

import csv
import re
from pathlib import Path

import pytest

from tests.shared import SHARED
from treadle.core.errors import InvalidInputError
from treadle.traces.load import load

FOLDER = SHARED / "traces"
NO_JOBS = {
    "dc_summary_acme_philly_helios_pai.csv.gz": "no known format",
    "helios_cluster_summary.csv.gz": "no known format",
    "lingjun_topo.csv.gz": "no known format",
    "openb_node_list_gpu_node.csv.gz": "is openb's list of nodes, to be given as the cluster",
    "philly_machines.csv.gz": "is Philly's list of machines, to be given as the cluster",
    "philly_vc_nodes.csv.gz": "no known format",
}


def _manifest() -> dict[str, int]:
    """File -> rows, of the traces; empty where the folder is absent."""
    path = FOLDER / "MANIFEST.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["file"].startswith("traces/")]
    return {Path(row["file"]).name: int(row["rows"]) for row in rows}


ROWS = _manifest()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ROWS) - set(NO_JOBS)))
def test_every_row_becomes_a_job_or_is_counted_as_left_out(name):
    workload = load(str(FOLDER / name))
    left_out = re.findall(r"left out ([\d,]+) ", " ".join(workload.notes))
    assert len(workload.jobs) + sum(int(count.replace(",", "")) for count in left_out) == ROWS[name]
    assert [job.submit_at for job in workload.jobs] == sorted(
        job.submit_at for job in workload.jobs
    )


@pytest.mark.parametrize("name", sorted(set(ROWS) & set(NO_JOBS)))
def test_a_file_without_jobs_says_what_it_is(name):
    with pytest.raises(InvalidInputError, match=re.escape(NO_JOBS[name])):
        load(str(FOLDER / name))


# GPU-hours as published or counted elsewhere: the units and the recovered durations must be right.
@pytest.mark.parametrize(
    ("name", "gpu_hours"),
    [
        ("afs_vc_103959.csv.gz", 50_827),
        ("afs_vc_e13805.csv.gz", 114_914),
        ("muri_trace3.csv.gz", 116_690),
        ("muri_trace4.csv.gz", 204_902),
        ("rubick_workload_base.csv.gz", 618),
    ],
)
def test_the_gpu_hours_are_the_published_ones(real, name, gpu_hours):
    jobs = load(real(name)).jobs
    total = sum(job.asked * job.iterations * job.profile.iteration_s for job in jobs) / 3600
    assert total == pytest.approx(gpu_hours, abs=1.0)
