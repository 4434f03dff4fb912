"""What lists show and in which order, and orders that answer in JSON."""

import json
import time
from dataclasses import replace

import pytest
from tests.cli.live_session import NOW, ValueClient, job, running, treadle

from treadle.wire.jobs import Progress, State
from treadle.wire.machine import EventView


@pytest.fixture(autouse=True)
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("TREADLE_URL", raising=False)
    time.tzset()


def printed(capsys: pytest.CaptureFixture[str], client: ValueClient, *words: str) -> str:
    assert treadle(client, *words) == 0
    return capsys.readouterr().out


def test_c_all_is_everything_and_each_part_has_its_own_flag(capsys) -> None:
    client = ValueClient(views=[job("1", user="bob"), job("2", State.FAILED), running("3")])

    def ids(*words: str) -> list[str]:
        return [line.split()[0] for line in printed(capsys, client, "ps", *words).splitlines()[1:]]

    assert ids("-a") == ["2", "3"]
    assert ids("-A") == ["1", "3"]
    assert ids("--all") == ids("-a", "-A") == ["1", "2", "3"]


def test_c_ps_sorts_and_shows_the_columns_that_are_asked_for(capsys) -> None:
    views = [running("9", priority=5), job("10", name="b"), job("2", name="c", priority=7)]
    client = ValueClient(views=views)
    assert printed(capsys, client, "ps", "--columns", "id,priority,name", "--sort", "id") == (
        "ID  PRIORITY  NAME\n2          7  c\n9          5  python train.py\n10         0  b\n"
    )
    text = printed(capsys, client, "ps", "--columns", "id", "--sort", "-priority")
    assert text.split() == ["ID", "2", "9", "10"]
    text = printed(capsys, client, "ps", "--columns", "id,started", "--sort", "started")
    assert text.splitlines()[1].startswith("9 ")  # Those that have not started go last.
    shown = json.loads(printed(capsys, client, "ps", "--json", "--sort", "name"))["jobs"]
    assert [view["id"] for view in shown] == ["9", "10", "2"]
    assert treadle(client, "ps", "--sort", "nmae") == 2
    assert "--sort: there is no column 'nmae'; did you mean name?" in capsys.readouterr().err


def test_the_jobs_of_a_sweep_are_told_apart_by_what_they_are_given(capsys) -> None:
    """Of jobs of one name only if they differ in that."""
    said = Progress(step=5.0, total=10.0, per_s=2.0, loss=0.25)
    views = [
        running("9", name="grid", arguments={"--lr": "0.1", "--seed": "1"}, progress=said),
        job("10", name="grid", arguments={"--lr": "0.2", "--seed": "1", "$NEW": "yes"}),
    ]
    client = ValueClient(views=views)
    titles, first, second = printed(capsys, client, "ps", "--name", "grid").splitlines()
    assert titles.split()[:3] == ["ID", "--lr", "$NEW"]
    assert [first.split()[place] for place in (0, 1, 2, 3, 4, 5)] == [
        *("9", "0.1", "RUNNING", "0.25", "2.00", "50%")
    ]
    assert second.split()[:3] == ["10", "0.2", "yes"]
    client = ValueClient(views=[replace(view, arguments={"--lr": "1"}) for view in views])
    assert "NAME" in printed(capsys, client, "ps", "--name", "grid")


def test_c_events_hide_decisions_and_progress_and_have_dates(capsys) -> None:
    kinds = ("JobAccepted", "JobSubmitted", "Decided", "JobProgressed", "JobStarted")
    happened = tuple(
        EventView(id=n, at=NOW - 4000 * (6 - n), kind=kind, job="9", text=f"job 9 {kind}")
        for n, kind in enumerate(kinds, 1)
    )
    client = ValueClient(happened=happened)

    def ids(*words: str) -> list[int]:
        text = printed(capsys, client, "events", *words)
        return [int(line.split()[0]) for line in text.splitlines()]

    assert ids() == [2, 5]
    assert ids("--all") == [1, 2, 3, 4, 5]
    assert ids("--since", "2h") == [5]
    assert ids("--all", "--since", "2026-09-21 10:00", "--until", "2026-09-21 12:00") == [3, 4]
    assert ids("--limit", "1") == [5]
    assert treadle(client, "events", "--since", "yesterday") == 2


def test_c_events_look_further_back_until_there_are_enough(capsys) -> None:
    happened = [EventView(id=1, at=NOW, kind="JobStarted", job="9", text="job 9 runs")]
    happened += [EventView(id=n, at=NOW, kind="Decided") for n in range(2, 2500)]
    client = ValueClient(happened=tuple(happened))
    assert printed(capsys, client, "events") == "     1  14:13:20  job 9 runs\n"


@pytest.mark.parametrize("verb", ["cancel", "hold", "release", "priority", "update"])
def test_c_orders_answer_in_json(capsys, verb: str) -> None:
    client = ValueClient(views=[job("4", State.HELD, cause="held")])
    more = {"priority": ("high",), "update": ("--name", "new")}.get(verb, ())
    (view,) = json.loads(printed(capsys, client, verb, "4", *more, "--json"))
    assert view["id"] == "4"


RAN = [
    job(str(n), State.SUCCEEDED, attempts=1, running_s=float(n), ended_at=NOW) for n in range(60)
]


def _ids(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:] if line[:1].isdigit()]


def test_ps_sorts_all_jobs_and_then_shows_as_many_as_asked(capsys) -> None:
    client = ValueClient(views=RAN)
    assert treadle(client, "ps", "-a", "--sort", "-ran", "--limit", "3", "--columns", "id") == 0
    out = capsys.readouterr().out
    assert _ids(out) == ["59", "58", "57"]
    assert out.endswith("more jobs follow; --limit 6 shows more of them\n")
    assert treadle(client, "ps", "-a", "--sort", "-ran", "--limit", "60", "--columns", "id") == 0
    assert "more jobs follow" not in capsys.readouterr().out
