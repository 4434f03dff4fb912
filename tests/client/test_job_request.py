"""`treadle.JobRequest` takes what a job file takes, and the README's example runs."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from tests.control.daemons import daemon

import treadle
from treadle.client.job_request import JobFields
from treadle.client.jobfile import KNOWN_FIELDS
from treadle.core.errors import InvalidInputError
from treadle.wire import jobs as wire
from treadle.wire.job_fields import FIELDS
from treadle.wire.jobs import State

ROOT = Path(__file__).parents[2]
COMMAND = ("python", "train.py")


def test_u6_the_example_of_the_readme_runs_where_it_is_started(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text("from pathlib import Path; Path('ran').touch()\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with daemon("--devices", "2") as here:
        env = {**os.environ, "TREADLE_URL": f"unix:{here.socket}", "PATH": path}
        done = subprocess.run(
            [sys.executable, "-c", example],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        [job] = here.client.job_page(ended=True).jobs
        assert (job.state, job.because) == (State.SUCCEEDED, "")
    assert (tmp_path / "ran").exists()


def test_every_field_of_a_request_has_a_row_and_is_taken_by_files_and_python() -> None:
    apart = {"command", "env", "secrets", "slurm", "code"}
    targets = [each.of_request for each in FIELDS]
    assert sorted([*targets, *apart]) == sorted(each.name for each in fields(wire.JobRequest))
    assert set(JobFields.__annotations__) == {*KNOWN_FIELDS, *targets, *apart}


def test_the_docs_have_every_field_with_its_option() -> None:
    table = (ROOT / "docs/jobs.md").read_text().partition("## Fields")[2].partition("\n\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    told = {name: row[2] for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    assert told.keys() == set(KNOWN_FIELDS)
    assert [each.name for each in FIELDS if f"`{each.option}`" not in told[each.name]] == []


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"devices": 2}, {"devices": "2"}),
        ({"devices": [1, 2]}, {"devices": "1,2"}),
        ({"devices": "1..4"}, {"devices": "1..4"}),
        ({"priority": "high"}, {"priority": 10}),
        ({"priority": -3}, {"priority": -3}),
        ({"time_limit": "2h"}, {"time_limit_s": 7200.0}),
        ({"time_limit": 90}, {"time_limit_s": 90.0}),
        ({"time_limit_s": 90.0}, {"time_limit_s": 90.0}),
        ({"grace": "2m", "estimate": "3h"}, {"grace_s": 120.0, "estimate_s": 10_800.0}),
        ({"after": ["12", "13"]}, {"after": ("12", "13")}),
        ({"after_any": "12"}, {"after_any": ("12",)}),
        ({"array": "0-9 % 2"}, {"array": "0-9%2"}),
        ({"stop_signal": "INT"}, {"stop_signal": "SIGINT"}),
        ({"wait_for_capacity": True}, {"wait_for_capacity": True}),
        ({"workdir": Path("/data")}, {"workdir": "/data"}),
    ],
)
def test_u6_fields_are_taken_as_a_job_file_takes_them(
    given: Mapping[str, Any], sent: Mapping[str, object]
) -> None:
    request = treadle.JobRequest(command=COMMAND, **given)
    assert {name: getattr(request, name) for name in sent} == dict(sent)


def test_u6_the_default_folder_is_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert treadle.JobRequest(command=COMMAND).workdir == str(tmp_path)
    assert treadle.JobRequest(command=COMMAND, workdir="runs").workdir == str(tmp_path / "runs")


def test_u6_variables_come_from_the_environment_where_no_value_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/opt/env/bin")
    monkeypatch.setenv("HF_HOME", "/data/hf")
    monkeypatch.setenv("HF_TOKEN", "planted")
    request = treadle.JobRequest(
        command=COMMAND, env={"HF_HOME": None, "SEED": "1"}, secrets=["HF_TOKEN"]
    )
    assert request.env["PATH"] == "/opt/env/bin"
    assert (request.env["HF_HOME"], request.env["SEED"]) == ("/data/hf", "1")
    assert request.secrets == {"HF_TOKEN": "planted"}


def test_u6_a_request_can_be_changed_with_replace() -> None:
    request = treadle.JobRequest(run="true", time_limit="2h", secrets={"KEY": "x"}, devices=2)
    changed = replace(request, name="second")
    assert (changed.name, changed.time_limit_s, changed.devices) == ("second", 7200.0, "2")
    assert (changed.command, changed.secrets) == (request.command, {"KEY": "x"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "a job needs either command="),
        ({"command": "python train.py"}, "or run= for a shell line"),
        ({"run": "x", "devicse": 2}, "did you mean devices?"),
        ({"run": "x", "time_limit": "2h", "time_limit_s": 7.0}, "both time_limit and time_limit_s"),
        ({"run": "x", "priority": "highest"}, "priority is"),
    ],
)
def test_u6_what_cannot_be_sent_is_refused(given: Mapping[str, Any], named: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        treadle.JobRequest(**given)
    assert named in str(refused.value)
