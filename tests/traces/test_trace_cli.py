"""`treadle trace`, as a user types it."""

import json

import pytest
from click.testing import CliRunner

from treadle.cli.study.trace import trace
from treadle.core.errors import InvalidInputError
from treadle.traces.load import load


def run(*words):
    return CliRunner().invoke(trace, words)


@pytest.fixture
def small(written):
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    return written(header + "a,1,0,1,m,60,0\nb,2,60,1,m,60,0\n")


def test_describe_prints_text_and_the_load_on_a_cluster(small):
    result = run("describe", small, "--cluster", "1x4")
    assert result.exit_code == 0
    assert result.output.startswith("trace.csv: 2 jobs (tiresias)\n")
    assert "  load       0.750 of 4 devices\n" in result.output


def test_describe_prints_json(small):
    shown = json.loads(run("describe", small, "--json").output)
    assert (shown["jobs"], shown["format"], shown["load"]) == (2, "tiresias", None)


def test_convert_says_what_it_wrote_and_what_to_do_next(small, tmp_path):
    out = str(tmp_path / "out.csv.gz")
    result = run("convert", small, out)
    assert result.output == (
        f"wrote 2 jobs to {out}\n"
        "  note: one iteration is one second at the asked size\n"
        f"next: treadle trace describe {out}\n"
    )
    assert load(out).jobs == load(small).jobs


def test_convert_does_not_overwrite_without_force(small):
    refused = run("convert", small, small).exception
    assert isinstance(refused, InvalidInputError)
    assert str(refused) == f"{small} already exists; use --force to replace it"
    assert run("convert", small, small, "--force").exit_code == 0


def test_convert_to_a_dash_is_the_standard_output(small):
    lines = run("convert", small, "-").output.splitlines()
    assert lines[0] == "# one iteration is one second at the asked size"
    assert lines[1].startswith("id,submit_s,sizes,iterations,")
    assert lines[2].startswith("a,0,1,60,")
    assert len(lines) == 4


def test_generate_writes_the_jobs_that_the_address_draws(tmp_path):
    out = str(tmp_path / "out.csv")
    options = ("--jobs", "50", "--seed", "3", "--load", "0.5", "--cluster", "2x8")
    result = run("generate", "poisson", out, *options)
    assert result.output.splitlines()[0] == f"wrote 50 jobs to {out}"
    assert result.output.splitlines()[-1] == f"next: treadle simulate {out} --cluster 2x8"
    shown = json.loads(run("describe", out, "--cluster", "2x8", "--json").output)
    assert shown["load"] == pytest.approx(0.5, rel=0.01)
