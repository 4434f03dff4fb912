"""How commands end: exit codes, interrupts, broken plug-ins, and runs that cannot end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.cli.main import run

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "two.csv"
    path.write_text(HEADER + "0,1,0,10,a,10000,0\n1,1,1,10,a,10,0\n")
    return str(path)


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, str]:
    """An environment in which a package with three bad policies is installed."""
    (tmp_path / "bad_policies.py").write_text(
        "from treadle import Policy\n"
        "class Boom(Policy):\n"
        "    def decide(self, snapshot):\n"
        "        raise KeyError('boom')\n"
        "class Nothing(Policy):\n"
        "    def decide(self, snapshot):\n"
        "        return None\n"
        "def boom(placement, belief):\n"
        "    '''Raises when it is asked.'''\n"
        "    return Boom()\n"
        "def nothing(placement, belief):\n"
        "    '''Answers nothing.'''\n"
        "    return Nothing()\n"
    )
    info = tmp_path / "bad_policies-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-policies\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[treadle.policies]\nboom = bad_policies:boom\nnothing = bad_policies:nothing\n"
        "absent = no_such_module:make\n"
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def treadle(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "treadle", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_an_interrupt_ends_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    """A big enough run in a real process, interrupted as soon as it has begun to write."""
    journal = tmp_path / "run.jsonl"
    words = ["simulate", "generate:poisson?jobs=50000", "--journal", str(journal)]
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(tmp_path.glob(".*partial")):
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint.strip() == "treadle: interrupted"
    assert list(tmp_path.iterdir()) == []


def test_policies_lists_the_rest_when_one_cannot_be_loaded(plugins: dict[str, str]) -> None:
    listed = treadle(plugins, "policies")
    assert listed.returncode == 0
    assert "boom        Raises when it is asked." in listed.stdout
    assert "absent      (policy absent (no_such_module:make) cannot be loaded:" in listed.stdout


@pytest.mark.parametrize("name", ["boom", "nothing", "absent"])
def test_a_broken_policy_is_one_sentence(plugins: dict[str, str], trace: str, name: str) -> None:
    done = treadle(plugins, "simulate", trace, "--policy", name)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert name in done.stderr


def test_a_sweep_keeps_what_worked(plugins: dict[str, str], trace: str) -> None:
    words = ("--policies", "fifo,boom,srtf", "--workers", "1")
    done = treadle(plugins, "sweep", trace, *words)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["policy", "fifo", "srtf"]
    assert done.stderr == (
        "treadle: 1 of 3 runs failed, the first because policy boom failed at 0 s: "
        "KeyError('boom')\n"
    )


def test_a_job_that_can_never_keep_anything_ends_the_run(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--cluster", "1x1", "--node-mtbf", "0.01", "--node-repair", "0.01"]
    assert run(["simulate", trace, *words]) == 2
    assert "lost all its work 1001 times in a row" in capsys.readouterr().err


def test_completion_offers_policies() -> None:
    environment = {
        **os.environ,
        "_TREADLE_COMPLETE": "bash_complete",
        "COMP_WORDS": "treadle simulate x --policy ti",
        "COMP_CWORD": "4",
    }
    assert "tiresias" in treadle(environment).stdout
