"""`treadle what-if` against a real daemon, and from files that it wrote."""

import json
import os
import subprocess
from pathlib import Path

from tests.control.daemons import Daemon, daemon
from tests.control.warm_start import ran

from treadle.wire.jobs import JobRequest, State


def treadle(one: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return ran(*words, env={**os.environ, "TREADLE_URL": f"unix:{one.socket}"})


def test_the_queue_the_snapshot_and_the_journal_are_simulated(tmp_path: Path) -> None:
    with daemon("--devices", "2", "--policy", "backfill") as one:
        body = ("sleep", "300")
        done = one.client.submit(JobRequest(command=("sleep", "0.3"))).id
        one.ended(done)
        first = one.client.submit(JobRequest(command=body, devices="2", estimate_s=100)).id
        one.reached(State.RUNNING, first)
        second = one.client.submit(JobRequest(command=body, devices="2", estimate_s=50)).id
        said = treadle(one, "what-if", "--cluster", "2x2")
        assert said.returncode == 0, said.stderr
        assert "then: backfill" in said.stdout
        assert "2 of 2 jobs end" in said.stdout
        found = json.loads(treadle(one, "what-if", "--without", first, "--json").stdout)
        assert [job["then_s"] is None for job in found["jobs"]] == [True, False]
        file = tmp_path / "state.json"
        file.write_text(treadle(one, "snapshot").stdout)
        told = treadle(one, "what-if", str(file), "--policy", "fifo")
        assert told.returncode == 0, told.stderr
        assert second in told.stdout
        run = tmp_path / "live.jsonl"
        assert treadle(one, "journal", "-o", str(run)).returncode == 0
        told = treadle(one, "what-if", str(run), "--policy", "fifo")
        assert told.returncode == 0, told.stderr
        assert "1 of 1 jobs end" in told.stdout
        wrong = treadle(one, "what-if", "--cluster", "/etc/passwd")
        assert wrong.returncode != 0
        assert "no count of nodes and devices" in wrong.stderr
