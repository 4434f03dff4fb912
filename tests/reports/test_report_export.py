"""Files are written atomically, and an error is one sentence."""

import csv
import json
import re
from dataclasses import replace
from math import inf

import pytest

from treadle.core.errors import InvalidInputError
from treadle.reports import export
from treadle.reports.comparison import Comparison
from treadle.reports.export import check_directory, check_writable, write_tables, write_text


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_tables_hold_one_row_for_each_policy_and_job(comparison, tmp_path):
    paths = write_tables(comparison, tmp_path / "new" / "results")
    assert [path.name for path in paths] == [
        "summary.csv",
        "summary.json",
        "jobs.csv",
        "series.csv",
    ]
    summary, jobs, series = rows(paths[0]), rows(paths[2]), rows(paths[3])
    assert [row["policy"] for row in summary] == ["fifo", "sjf"]
    assert summary[0]["wait_devices"] == "1"
    assert [(row["policy"], row["id"]) for row in jobs[:3]] == [
        ("fifo", "a"),
        ("fifo", "b"),
        ("fifo", "c"),
    ]
    b = jobs[1]
    assert (b["tenant"], b["size"], b["submit_s"], b["first_start_s"]) == ("blue", "1", "2", "10")
    assert (b["end_s"], b["jct_s"], b["waited_s"], b["status"]) == ("14", "12", "8", "finished")
    assert (b["fairness"], b["restarts"]) == ("2.25", "0")
    assert [row["busy_devices"] for row in series[:5]] == ["2", "2", "2", "1", "0"]


def test_exports_hold_no_infinity(comparison, tmp_path):
    run = comparison.runs[0]
    run.recorder.histories["b"].lost_s = inf
    run.recorder.histories["c"].lost_s = 1e300
    broken = replace(comparison, runs=[replace(run, summary=replace(run.summary, jct_mean_s=inf))])
    paths = write_tables(broken, tmp_path)
    assert json.loads(paths[1].read_text())["runs"][0]["jct_mean_s"] is None
    assert [row["lost_gpu_s"] for row in rows(paths[2])] == ["0", "", "1e+300"]
    texts = [path.read_text() for path in paths]
    assert not any(re.search(r"\b(-?inf|nan|Infinity|NaN)\b", text) for text in texts)


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path):
    path = tmp_path / "jobs.csv"
    write_text(path, "old")

    def breaks_off():
        yield "half"
        raise OSError(28, "No space left on device")

    with pytest.raises(InvalidInputError, match=r"jobs\.csv: no space left on device$"):
        export._write(path, breaks_off())
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]


def test_a_file_is_no_directory(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InvalidInputError, match=r"file is not a directory$"):
        check_writable(file / "page.html")
    with pytest.raises(InvalidInputError, match=r"file is not a directory$"):
        check_directory(file / "results")


def test_a_comparison_needs_a_run_and_names_each_policy_once(comparison):
    with pytest.raises(InvalidInputError, match="needs at least one run"):
        Comparison("t", "c", [], comparison.cluster, [])
    twice = [comparison.runs[0], comparison.runs[0]]
    with pytest.raises(InvalidInputError, match="policy fifo is compared with itself"):
        Comparison("t", "c", [], comparison.cluster, twice)
