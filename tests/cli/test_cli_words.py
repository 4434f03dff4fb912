"""What the words of the command line mean, also to people who know sbatch."""

from pathlib import Path

import pytest
from tests.cli.live_session import ValueClient, job, treadle

from treadle.cli.main import LIVE, STUDY, run
from treadle.wire.jobs import JobRequest


def submitted(client: ValueClient) -> JobRequest:
    (request,) = [each[1] for each in client.asked if each[0] == "submit"]
    assert isinstance(request, JobRequest)
    return request


def test_c_sbatchs_long_names_are_understood(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    client = ValueClient(views=[job("3"), job("4")])
    words = ("--job-name", "a", "--gpus", "2", "--time", "1-00:00:00", "--chdir", str(tmp_path))
    after = ("--dependency", "afterok:3,afterany:4")
    assert treadle(client, "submit", *words, *after, "--", "true") == 0
    made = submitted(client)
    assert (made.name, made.devices, made.time_limit_s) == ("a", "2", 86_400)
    assert (made.workdir, made.after, made.after_any) == (str(tmp_path), ("3",), ("4",))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", "gpu"), "(there are no partitions: -p is --priority)"),
        (("-n", "4"), "(sbatch's -n, the number of tasks, is --ranks here)"),
        (("-d", "afterok:3"), "-d is --devices here, and sbatch's -d is --dependency"),
        (("--dependency", "singleton"), "expected afterok:JOB or afterany:JOB"),
        (("-p", "99999999999"), 'is "99999999999"; expected -1,000,000 to 1,000,000'),
    ],
)
def test_c_what_sbatch_means_otherwise_is_refused_and_said(
    capsys, words: tuple[str, ...], sentence: str
) -> None:
    client = ValueClient()
    assert treadle(client, "submit", *words, "--", "true") == 2
    assert sentence in capsys.readouterr().err
    assert not client.asked


def test_c_a_script_for_slurm_is_started_once(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --gpus=4\nsrun python train.py\n")
    client = ValueClient()
    assert treadle(client, "submit", str(script)) == 0
    assert (submitted(client).devices, submitted(client).ranks) == ("4", "one")
    other = ValueClient()
    assert treadle(other, "submit", "--ranks", "device", str(script)) == 0
    assert submitted(other).ranks == "device"


def test_c_study_verbs_have_a_group_of_their_own(capsys) -> None:
    assert run(["study", "--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {verb} " in listed for verb in STUDY)
    assert not any(f"\n  {verb} " in listed for verb in LIVE)
    assert run(["study", "policies", "--json"]) == 0
    grouped = capsys.readouterr().out
    assert run(["policies", "--json"]) == 0
    assert capsys.readouterr().out == grouped
    assert run(["study", "submit"]) == 2
    assert capsys.readouterr().err.startswith("treadle: there is no command 'submit'")


def test_c_a_policy_that_sizes_jobs_says_a_word_about_rigid_ones(capsys) -> None:
    words = ("generate:poisson?jobs=5&seed=1", "--cluster", "1x8")
    note = "every job of this trace has a single size"
    assert run(["compare", *words, "--policies", "fifo,afs"]) == 0
    assert f"note: afs: {note}" in capsys.readouterr().out
    assert run(["simulate", *words, "--policy", "afs"]) == 0
    assert f"note: {note}" in capsys.readouterr().out
    assert run(["compare", *words, "--policies", "fifo,afs", "--elastic", "0.1"]) == 0
    assert note not in capsys.readouterr().out
