"""Faults that a user found: names that were used before, orders and lists that leave jobs out."""

from dataclasses import replace

from tests.cli.live_session import NOW, ValueClient, job, running, treadle

from treadle.wire.jobs import State

FAILED = job("116", State.FAILED, name="same", code=1, submitted_at=NOW - 900, ended_at=NOW - 800)
NEWER = job("117", State.SUCCEEDED, name="same", code=0, submitted_at=NOW - 90, ended_at=NOW - 80)


def test_a3_wait_by_name_waits_for_the_newest_job_of_that_name(capsys) -> None:
    assert treadle(ValueClient(views=[NEWER, FAILED]), "wait", "same") == 0
    assert "117" in (out := capsys.readouterr().out)
    assert "116" not in out


def test_a3_wait_by_name_waits_for_the_active_jobs_of_that_name(capsys) -> None:
    both = [running("118", name="same"), running("119", name="same")]
    client = ValueClient(views=[FAILED, *both, NEWER])
    assert treadle(client, "wait", "same", "--timeout", "1s") == 101
    out, err = capsys.readouterr()
    assert out == ""
    assert "2 jobs not ended yet: 118, 119" in err


def test_a3_wait_by_name_includes_all_members_of_an_active_array_in_order(capsys) -> None:
    """A member that failed before the others ended still counts."""
    member = {"name": "sweep", "array": "7"}
    views = [
        running("7_2", index=2, **member),
        job("7_1", State.SUCCEEDED, index=1, code=0, ended_at=NOW, **member),
        job("7_0", State.FAILED, index=0, code=3, ended_at=NOW, **member),
        replace(FAILED, name="sweep"),
    ]
    assert treadle(ValueClient(views=views), "wait", "sweep", "--timeout", "1s") == 3
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown] == ["7_0", "7_1"]
