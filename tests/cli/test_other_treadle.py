"""A daemon that starts where another Treadle's agent runs says so."""

import pwd
import subprocess

import pytest

from treadle.cli.live.other_treadle import AGENT, agent_owner, note_other_treadle


def test_an_agent_on_this_machine_is_noted_unless_the_daemon_is_of_a_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("treadle.cli.live.other_treadle.PROCESSES", tmp_path)
    note_other_treadle([])
    assert capsys.readouterr().err == ""
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cmdline").write_bytes(AGENT + b"\0")
    note_other_treadle(["--engine", "ray"])
    assert capsys.readouterr().err == ""
    note_other_treadle(["--engine", "local"])
    assert capsys.readouterr().err == "", "it is one's own"
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    note_other_treadle(["--engine", "local"])
    owner = pwd.getpwuid(tmp_path.stat().st_uid).pw_name
    assert f"(its agent runs as {owner})" in capsys.readouterr().err


def test_an_agent_is_found_among_real_processes(monkeypatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    with subprocess.Popen([AGENT, b"60"], executable="/bin/sleep") as agent:
        try:
            assert agent_owner()
        finally:
            agent.kill()
