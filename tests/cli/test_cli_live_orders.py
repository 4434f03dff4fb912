"""Orders about jobs, waiting for them, and what exit codes say."""

from dataclasses import replace

import click
import pytest
from tests.cli.live_session import NOW, STATUS, Moment, ValueClient, detail, job, running, treadle

from treadle.cli.live.exit_codes import exit_code
from treadle.cli.live.session import Session
from treadle.cli.main import run
from treadle.client.errors import NoAnswerError, UnreachableError
from treadle.wire.jobs import JobDetail, State
from treadle.wire.machine import Status
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotKnownError,
    RequestError,
    UnavailableError,
)

SWEEP = [job(f"13_{n}", name="sweep", array="13", index=n) for n in range(3)]


def test_one_order_for_a_job_an_array_and_a_name(capsys) -> None:
    client = ValueClient(views=[job("11", name="big"), *SWEEP, job("14"), job("15", name="big")])
    assert treadle(client, "cancel", "14", "13", "big") == 0
    assert capsys.readouterr().out == (
        "job 14 cancelled\n3 jobs of 13 cancelled\njob 11 (big) cancelled\njob 15 (big) cancelled\n"
    )
    assert client.asked == [("cancel", each) for each in ("14", "13", "11", "15")]


def test_hold_release_and_priority_say_what_they_did(capsys) -> None:
    client = ValueClient(views=[job("11", name="big")])
    assert treadle(client, "hold", "11") == 0
    client.views = [job("11", State.HELD, name="big")]
    assert treadle(client, "release", "big") == 0
    assert treadle(client, "priority", "11", "high") == 0
    assert treadle(client, "priority", "11", "-5") == 0
    assert capsys.readouterr().out == (
        "job 11 (big) held\n"
        "job 11 (big) released\n"
        "job 11 (big) changed: priority 10\n"
        "job 11 (big) changed: priority -5\n"
    )
    assert treadle(client, "priority", "11", "asap") == 2
    assert capsys.readouterr().err == (
        'treadle: priority is "asap"; expected a whole number, or low, normal, high, urgent\n'
    )


def test_a_job_that_is_not_there_does_not_keep_the_others_from_it(capsys) -> None:
    client = ValueClient(views=[job("11")])
    assert treadle(client, "cancel", "98", "11", "nobody") == 102
    out, err = capsys.readouterr()
    assert out == "job 11 cancelled\n"
    assert err == (
        "treadle: no job has the id or name nobody; treadle ps -a lists them\ntreadle: there "
        "is no job 98\n"
    )


def test_many_jobs_are_asked_about_on_a_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setattr(Session, "interactive", property(lambda _: True))
    asked = []

    def no(text: str) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr(click, "confirm", no)
    client = ValueClient(views=[*SWEEP])
    assert treadle(client, "cancel", "13") == 1
    assert asked == ["cancel 3 jobs?"]
    assert capsys.readouterr().err == "treadle: nothing was changed\n"
    assert treadle(client, "cancel", "13", "-y") == 0
    assert treadle(client, "cancel", "13_0") == 0
    assert len(asked) == 1
    assert treadle(client, "down", "--cancel") == 1
    assert asked[-1] == "cancel 18 jobs?"


@pytest.mark.parametrize(
    ("state", "code", "ends"),
    [
        (State.SUCCEEDED, 0, 0),
        (State.FAILED, 7, 7),
        (State.FAILED, 99, 99),
        (State.FAILED, 100, 100),
        (State.FAILED, 137, 100),
        (State.FAILED, None, 100),
        (State.FAILED, 0, 100),
        (State.CANCELLED, 143, 103),
        (State.TIMEOUT, 143, 104),
        (State.RUNNING, None, 101),
    ],
)
def test_a_command_that_waits_ends_as_the_job_did(state, code, ends) -> None:
    assert exit_code(job("1", state, code=code)) == ends


def test_wait_ends_as_the_first_job_that_did_not_succeed(capsys) -> None:
    client = ValueClient(
        views=[
            job("1", State.SUCCEEDED, name="ok"),
            job("2", State.FAILED, code=3, because="a bug"),
            job("3", State.CANCELLED, because="cancelled by anna"),
            job("4", State.TIMEOUT),
        ]
    )
    assert treadle(client, "wait", "1", "3", "2", "4") == 103
    assert capsys.readouterr().out == (
        "job 1 (ok) succeeded\n"
        "job 3 was cancelled by anna\n"
        "job 2 failed with exit code 3: a bug\n"
        "job 4 reached its time limit\n"
    )
    assert treadle(client, "wait", "1") == 0


def test_wait_gives_up_after_its_time(capsys) -> None:
    client = ValueClient(views=[running("9"), job("1", State.SUCCEEDED)])
    assert treadle(client, "wait", "9", "1", "--timeout", "1m") == 101
    out, err = capsys.readouterr()
    assert out == "job 1 succeeded\n"
    assert err == "treadle: 1 job not ended yet: 9\n"
    assert treadle(client, "wait", "9", "--timeout", "soon") == 2


def test_wait_sees_the_end_of_a_job_that_runs(capsys) -> None:
    class Ending(ValueClient):
        looks = 0

        def job(self, identity: str) -> JobDetail:
            self.looks += 1
            state = State.SUCCEEDED if self.looks > 3 else State.RUNNING
            return detail(replace(running(identity), state=state))

    assert treadle(Ending(), "wait", "9") == 0
    assert capsys.readouterr().out == "job 9 succeeded\n"


def test_words_that_are_no_text_are_refused(capsys) -> None:
    client = ValueClient(views=[job("1", State.SUCCEEDED)])
    assert treadle(client, "logs", "1", "--since", "\udcff") == 2


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UnreachableError("no server answers"), 110, "treadle: no server answers\n"),
        (NoAnswerError("the answer was lost"), 1, "treadle: the answer was lost\n"),
        (NotAllowedError("job 9 is bob's"), 111, "treadle: job 9 is bob's\n"),
        (NotKnownError("no such token"), 111, "treadle: no such token\n"),
        (InvalidRequestError("bad", hint="try\x1b this"), 2, "treadle: bad\n  try? this\n"),
        (RequestError("bad"), 2, "treadle: bad\n"),
        (ConflictError("it has ended"), 2, "treadle: it has ended\n"),
        (UnavailableError("the disk is full"), 1, "treadle: the disk is full\n"),
    ],
)
def test_what_a_refusal_is_to_a_script(error, code, text, capsys) -> None:
    class Refusing(ValueClient):
        def status(self) -> Status:
            raise error

    assert treadle(Refusing(), "status") == code
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], ("the daemon stopped; jobs remain (5 still running, 12 waiting, 1 held), and "
             "treadle up picks them up again\n")),
        (["--drain"], ("the daemon starts no more jobs and stops when the running ones have "
                      "ended: 5 running, 12 waiting, 1 held\n")),
        (["--cancel", "-y"], "18 jobs ended, and the daemon stopped\n"),
    ],
)  # fmt: skip
def test_down_says_what_becomes_of_the_jobs(words, shown, capsys) -> None:
    client = ValueClient()
    assert treadle(client, "down", *words) == 0
    assert capsys.readouterr().out == shown


class Leaving(ValueClient):
    """A daemon whose last jobs take a few looks to end."""

    def __init__(self, *looks: Status) -> None:
        super().__init__()
        self._looks = iter(looks)

    def status(self) -> Status:
        self.found = next(self._looks, self.found)
        return self.found

    def shut_down(self, mode: str = "leave") -> Status:
        self.asked.append(("shut_down", mode))
        return self.status()


STOPPED = replace(STATUS, running=0, waiting=0, held=0)
LEAVING = (
    STATUS,
    replace(STOPPED, stopping=3, grace_left_s=12.0),
    replace(STOPPED, stopping=1),
    replace(STOPPED, stopping=1, problem="the store cannot be written: the disk is full"),
)


def test_a11_down_waits_for_jobs_that_are_cancelled_and_says_for_what(capsys) -> None:
    gone = replace(STATUS, pid=1)
    assert treadle(Leaving(*LEAVING, gone), "down", "--cancel", "-y") == 0
    said = capsys.readouterr()
    assert said.out == "18 jobs ended, and the daemon stopped\n"
    assert said.err == (
        "waiting for 3 jobs; up to 12 s of grace left\n"
        "waiting for 1 job; their grace is over, and they are killed\n"
    )


def test_a11_down_stops_waiting_after_its_timeout_and_claims_nothing(capsys) -> None:
    assert treadle(Leaving(*LEAVING), "down", "--cancel", "-y", "--timeout", "0.001s") == 101
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == (
        "treadle: 1 job not ended after a moment; the daemon goes on and stops once they have"
    )


def test_up_says_that_it_runs_already_and_that_options_are_ignored(
    capsys, monkeypatch, tmp_path
) -> None:
    monkeypatch.delenv("TREADLE_URL", raising=False)
    assert treadle(ValueClient(), "up", "--state", str(tmp_path), "--policy", "fifo") == 0
    out, err = capsys.readouterr()
    assert out.startswith("treadle 1.2.3 is already running, up 2h05m, pid 4242\n")
    assert f"{tmp_path}/daemon.log" in out
    assert "ignored" in err


@pytest.mark.parametrize(
    "words",
    [
        ["--gpus", "0", "--avoid", "1"],
        ["--devices", "2", "--gpus", "0"],
        ["--listen", "a:1", "--port", "1"],
        ["--listen", "nowhere"],
        ["--tls-cert", "c.pem"],
        ["--address", "a:1"],
    ],
)
def test_up_refuses_what_contradicts_itself(words, monkeypatch) -> None:
    monkeypatch.delenv("TREADLE_URL", raising=False)
    assert treadle(ValueClient(), "up", *words) == 2


def test_up_starts_nothing_where_commands_go_to_another_server(monkeypatch) -> None:
    monkeypatch.setenv("TREADLE_URL", "http://far:1")
    assert treadle(ValueClient(), "up") == 2


def test_completion_offers_ids_names_and_arrays_and_never_fails(capsys, monkeypatch) -> None:
    from treadle.cli.live.job_selection import complete_jobs

    client = ValueClient(views=[job("11", name="big"), job("12", name="x\x1b"), *SWEEP])
    context = click.Context(
        click.Command("x"), obj=Session(connect=lambda: client, now=lambda: NOW)
    )
    argument = click.Argument(["job"])
    offered = [item.value for item in complete_jobs(context, argument, "1")]
    assert offered == ["11", "12", "13_0", "13_1", "13_2", "13"]
    assert [item.value for item in complete_jobs(context, argument, "b")] == ["big"]
    assert [item.value for item in complete_jobs(context, argument, "x")] == []

    def unreachable() -> ValueClient:
        raise UnreachableError("no daemon")

    context.obj = Session(connect=unreachable)
    assert complete_jobs(context, argument, "") == []


def test_a_command_is_interrupted_in_one_line(capsys) -> None:
    class Interrupted(ValueClient):
        def status(self) -> Status:
            raise KeyboardInterrupt

    session = Session(connect=Interrupted, now=lambda: NOW, stopwatch=Moment().stopwatch)
    assert run(["status"], session) == 130
    assert capsys.readouterr().err == "\ntreadle: interrupted\n"


FAILED = job("116", State.FAILED, name="same", code=1, submitted_at=NOW - 900, ended_at=NOW - 800)


NEWER = job("117", State.SUCCEEDED, name="same", code=0, submitted_at=NOW - 90, ended_at=NOW - 80)


def test_wait_by_name_waits_for_the_newest_job_of_that_name(capsys) -> None:
    assert treadle(ValueClient(views=[NEWER, FAILED]), "wait", "same") == 0
    assert "117" in (out := capsys.readouterr().out)
    assert "116" not in out


def test_wait_by_name_waits_for_the_active_jobs_of_that_name(capsys) -> None:
    both = [running("118", name="same"), running("119", name="same")]
    client = ValueClient(views=[FAILED, *both, NEWER])
    assert treadle(client, "wait", "same", "--timeout", "1s") == 101
    out, err = capsys.readouterr()
    assert out == ""
    assert "2 jobs not ended yet: 118, 119" in err


def test_wait_by_name_includes_all_members_of_an_active_array_in_order(capsys) -> None:
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


def test_down_cancel_without_a_terminal_needs_yes(capsys) -> None:
    client = ValueClient()
    assert treadle(client, "down", "--cancel") == 2
    assert client.asked == []


@pytest.mark.parametrize("name", ["88", "6_5"])
@pytest.mark.parametrize("words", [("update", "zz"), ("submit", "--dry-run")])
def test_a_name_that_looks_like_an_id_is_refused(words, name, capsys) -> None:
    client = ValueClient(views=[job("1", name="zz")])
    assert treadle(client, *words, "--name", name, *(["--", "true"] * (words[0] == "submit"))) == 2
    assert client.requests == []
