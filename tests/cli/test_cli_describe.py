"""What `treadle describe` says of the time that a job shared its devices."""

from dataclasses import replace

import pytest
from tests.cli.live_session import ValueClient, running, treadle
from tests.cli.live_session import detail as described

from treadle.cli.live.describe import _attempt, _sharing
from treadle.wire.jobs import AttemptView, CompanyView, JobDetail, State


def detail(spell: CompanyView) -> JobDetail:
    run = AttemptView(number=1, started_at=0.0, devices=("here:0",), company=(spell,))
    return described(running("7"), attempts=(run,))


@pytest.mark.parametrize(
    ("spell", "text"),
    [
        (CompanyView(jobs=("3",), seconds=720.0, relative=0.83), "with job 3 for 12m, at 83% of"),
        (CompanyView(jobs=("3",), seconds=9.0, relative=1.34), "with job 3 for 9s, at about"),
        (CompanyView(jobs=("3",), seconds=0.4, relative=0.9), ""),
        (CompanyView(jobs=("3",), seconds=0.4, lasts=True), "now with job 3"),
    ],
)
def test_u14_sharing_is_said_without_moments_and_noise(spell: CompanyView, text: str) -> None:
    shown = _sharing(detail(spell))
    assert shown == (f"{text} its speed alone" if spell.relative and text else text)


def test_describe_says_what_attempts_began_with_and_where_they_ran(capsys) -> None:
    found = described(running("7"))
    run = replace(
        found.attempts[0],
        number=2,
        fallback="it began anew: those of attempt 1 are lost",
        workdirs=("b:/state/nodes/b/work/7-abc",),
    )
    client = ValueClient(details={"7": replace(found, attempts=(run,))})
    assert treadle(client, "describe", "7") == 0
    shown = capsys.readouterr().out.splitlines()
    place = shown.index("  workdir      /home/anna/code")
    assert shown[place + 1].strip() == "run in a copy: b:/state/nodes/b/work/7-abc"
    assert "  checkpoints  attempt 2: it began anew: those of attempt 1 are lost" in shown


def test_an_attempt_on_a_lost_node_is_not_said_to_run() -> None:
    run = AttemptView(number=1, devices=("a:0", "b:0"), started_at=1.0, lost=("b",))
    assert _attempt(run, State.RUNNING, 9.0)[-1] == "node b lost, being ended"


def test_an_attempt_that_is_paused_is_not_said_to_run_and_its_time_stands_still() -> None:
    run = AttemptView(number=1, devices=("a:0",), started_at=100.0, paused_s=30.0)
    assert _attempt(run, State.PAUSED, 140.0)[3:] == ["10s", "", "paused"]
    ended = replace(run, ended_at=150.0, code=0, told="succeeded")
    assert _attempt(ended, State.SUCCEEDED, 900.0)[3] == "20s"


def test_of_many_attempts_the_newest_are_shown_unless_all_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = tuple(
        AttemptView(number=n, devices=("here:0",), started_at=1.0, fallback=f"{n}.py")
        for n in range(1, 344)
    )
    client = ValueClient(details={"7": described(running("7"), attempts=runs)})
    assert treadle(client, "describe", "7") == 0
    brief = capsys.readouterr().out
    assert brief.endswith("\n323 earlier attempts; --all shows them\n")
    assert ("attempt 324: 324.py" in brief, "attempt 323: 323.py" in brief) == (True, False)
    assert len(brief.splitlines()) < 70
    assert treadle(client, "describe", "7", "--all") == 0
    whole = capsys.readouterr().out
    assert "earlier attempts" not in whole
    assert "attempt 1: 1.py" in whole
