"""The command line as a person meets it: output read literally, mistakes in one sentence."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from treadle.cli.main import cli, run
from treadle.cli.numbers import Number
from treadle.core.errors import InvalidInputError
from treadle.journal.journal import read, replay
from treadle.testing.builders import policy

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
ROWS = "0,2,0,10,a,10,0\n1,4,1,10,a,10,0\n2,1,2,3,a,3,0\n3,2,2,6,a,6,0\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.csv"
    path.write_text(HEADER + ROWS)
    return str(path)


def treadle(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), prog_name="treadle")


def refused(*words: str) -> str:
    """The one sentence of a mistake."""
    result = treadle(*words)
    assert isinstance(result.exception, InvalidInputError), result.output
    return str(result.exception)


def test_simulate_prints_one_json_object_with_the_promised_keys(trace: str) -> None:
    facts = json.loads(treadle("simulate", trace, "--cluster", "1x4", "--json").output)
    promised = [
        "policy",
        "jobs",
        "finished",
        "jct_mean_s",
        "jct_p50_s",
        "jct_p99_s",
        "queue_mean_s",
        "makespan_s",
        "end_s",
        "utilization",
        "preemptions",
        "decisions",
        "cpu_s",
    ]
    assert set(promised) <= set(facts)
    assert (facts["policy"], facts["jobs"], facts["finished"]) == ("fifo", 4, 4)
    # 2 at 0-10; 4 must wait until 10-20; both others wait behind it until 20.
    assert facts["jct_mean_s"] == (10 + 19 + 21 + 24) / 4
    assert facts["makespan_s"] == facts["end_s"] == 26


def test_compare_prints_a_table_and_writes_what_it_was_asked_for(
    trace: str, tmp_path: Path
) -> None:
    report, tables = tmp_path / "out.html", tmp_path / "tables"
    words = ("--cluster", "1x4", "--policies", "fifo,backfill,srtf")
    result = treadle("compare", trace, *words, "--report", str(report), "--out", str(tables))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "note: policies know the speeds and lengths of all jobs (--belief known)"
    assert lines[3].startswith("fifo")
    page = report.read_text()
    assert "--policies fifo,backfill,srtf" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert {path.name for path in tables.iterdir()} == {
        "summary.csv",
        "summary.json",
        "jobs.csv",
        "series.csv",
    }


def test_sweep_runs_every_combination(trace: str, tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    words = ("--policies", "fifo,srtf", "--placements", "count,spread", "--workers", "1")
    result = treadle("sweep", trace, "--cluster", "1x4", *words, "--out", str(out), "--json")
    rows = json.loads(result.output)
    combinations = [(row["policy"], row["placement"]) for row in rows]
    assert combinations == [
        ("fifo", "count"),
        ("fifo", "spread"),
        ("srtf", "count"),
        ("srtf", "spread"),
    ]
    assert len(out.read_text().splitlines()) == 5


def test_sweep_over_processes_gives_what_one_process_gives() -> None:
    words = ("sweep", "generate:poisson?jobs=40", "--policies", "fifo,las", "--seeds", "0..1")
    one, two = (
        json.loads(treadle(*words, "--workers", workers, "--json").output) for workers in ("1", "2")
    )
    assert [row["jct_mean_s"] for row in one] == [row["jct_mean_s"] for row in two]
    assert one[0]["trace"] == "generate:poisson?jobs=40&seed=0"
    assert one[0]["jct_mean_s"] != one[1]["jct_mean_s"]


@pytest.mark.parametrize(
    ("job", "at", "state", "code"),
    [
        ("1", "5", "waiting", "devices"),
        ("2", "5", "waiting", "order"),
        ("0", "5", "running", "running"),
        ("3", "1", "not submitted", "not submitted"),
        ("0", "15", "finished", "finished"),
    ],
)
def test_explain_says_why(trace: str, job: str, at: str, state: str, code: str) -> None:
    asked = ("explain", trace, "--cluster", "1x4", "--at", at, "--job", job)
    answer = json.loads(treadle(*asked, "--json").output)
    assert (answer["state"], answer["code"]) == (state, code)
    lines = treadle(*asked).output.splitlines()
    assert lines[0] == f"job {job} is {state} at {at} s under fifo"
    assert lines[1].strip() == answer["because"]


def test_a_journal_replays_to_the_state_at_its_end(trace: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert treadle("simulate", trace, "--cluster", "1x4", "--journal", str(path)).exit_code == 0
    journal = read(path)
    scheduler = replay(journal, policy("fifo"))
    assert (len(scheduler.jobs), scheduler.tenancy.free.total, journal.cut_off) == (0, 4, False)
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--policy", "fiffo", "did you mean fifo?"),
        ("--policy", "fifo?limits=3", "'limits'"),
        ("--policy", "tiresias?limit=3", "did you mean limits?"),
        ("--policy", "tiresias?limits=a", "limits"),
        ("--placement", "spred", "did you mean spread?"),
        ("--time", "rounds:0", "rounds:300"),
        ("--time", "ticks", "'ticks'"),
        ("--restart-cost", "cheap", "'cheap'"),
        ("--restart-cost", "nan", "nan"),
        ("--effects", "wind=2", "'wind'"),
    ],
)
def test_a_mistake_gets_one_clear_sentence(trace: str, option: str, value: str, named: str) -> None:
    said = refused("simulate", trace, option, value)
    assert named in said
    assert len(said.splitlines()) == 1


def test_a_job_larger_than_the_cluster_is_named_with_its_line(trace: str) -> None:
    assert refused("simulate", trace, "--cluster", "1x2") == (
        f"{trace} line 3: job 1 asks for 4 devices and the cluster has 2 (jobs like it: 1); "
        "give a larger --cluster, or --oversize skip or cut"
    )


@pytest.mark.parametrize(("oversize", "jobs"), [("skip", 3), ("cut", 4)])
def test_jobs_larger_than_the_cluster_can_be_skipped_or_cut(
    trace: str, oversize: str, jobs: int
) -> None:
    words = ("--cluster", "1x2", "--oversize", oversize, "--json")
    facts = json.loads(treadle("simulate", trace, *words).output)
    assert facts["finished"] == facts["jobs"] == jobs


def test_a_job_that_never_fits_is_reported_and_does_not_hang(trace: str) -> None:
    """The quota of its tenant is less than it asks for."""
    words = ("--cluster", "1x2+2x1", "--policy", "antman?quotas=:2")
    result = treadle("simulate", trace, *words, "--json")
    facts = json.loads(result.stdout)
    assert (facts["finished"], facts["never_fit"], facts["unfinished"]) == (3, 1, 0)
    assert result.stderr.startswith("treadle: job 1 never fits: it asks for 4 guaranteed devices")


def test_a_real_process_exits_with_2_and_no_traceback(trace: str) -> None:
    command = [sys.executable, "-m", "treadle", "simulate", trace, "--policy", "fiffo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "treadle: there is no policy 'fiffo'; did you mean fifo? (`treadle policies` lists "
        "them all)\n"
    )


def test_version_and_completion() -> None:
    assert treadle("--version").output.startswith("treadle 0.")
    assert "_TREADLE_COMPLETE=bash_complete" in treadle("completion", "bash").output


@pytest.mark.parametrize(
    ("option", "value"),
    [("--node-mtbf", "nan"), ("--belief-error", "inf"), ("--elastic", "2"), ("--seed", "x")],
)
def test_a_number_out_of_range_is_a_usage_error(trace: str, option: str, value: str) -> None:
    result = treadle("simulate", trace, option, value)
    assert result.exit_code == 2
    assert option in result.stderr.splitlines()[-1]


def _float_options(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, object]]:
    for parameter in command.params:
        if isinstance(parameter.type, click.types.FloatParamType):
            yield " ".join((*path, parameter.opts[0])), parameter.type
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from _float_options(inner, (*path, name))


def test_no_number_of_any_command_may_be_nan_or_infinite() -> None:
    options = dict(_float_options(cli))
    assert "demo --scale" in options
    assert [name for name, kind in options.items() if not isinstance(kind, Number)] == []


@pytest.mark.parametrize(
    ("word", "hint"),
    [("cnacel", "; did you mean cancel?"), ("submitt", "; did you mean submit?"), ("zzz", "")],
)
def test_a_misspelled_command_names_the_one_that_is_meant(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word]) == 2
    assert capsys.readouterr().err == (
        f"treadle: there is no command '{word}'{hint} (see treadle --help)\n"
    )
