"""Faults that a user found: names that were used before, orders and lists that leave jobs out."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.live_session import NOW, ValueClient, detail, job, running, treadle

from treadle.cli.live.run import several_sizes
from treadle.core.wording import gib_text
from treadle.wire.job_orders import JobOutcome, JobsOrder
from treadle.wire.jobs import JobDetail, State, Why

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


RAN = [
    job(str(n), State.SUCCEEDED, attempts=1, running_s=float(n), ended_at=NOW) for n in range(60)
]


def _ids(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:] if line[:1].isdigit()]


def test_a4_ps_sorts_all_jobs_and_then_shows_as_many_as_asked(capsys) -> None:
    client = ValueClient(views=RAN)
    assert treadle(client, "ps", "-a", "--sort", "-ran", "--limit", "3", "--columns", "id") == 0
    out = capsys.readouterr().out
    assert _ids(out) == ["59", "58", "57"]
    assert out.endswith("more jobs follow; --limit 6 shows more of them\n")
    assert treadle(client, "ps", "-a", "--sort", "-ran", "--limit", "60", "--columns", "id") == 0
    assert "more jobs follow" not in capsys.readouterr().out


def test_a4_ps_json_sorts_all_jobs_and_then_shows_as_many_as_asked(capsys) -> None:
    command = ("ps", "-a", "--sort", "-ran", "--limit", "1", "--json")
    assert treadle(ValueClient(views=RAN), *command) == 0
    assert '"id": "59"' in capsys.readouterr().out


class Refusing(ValueClient):
    """Refuses every change of some jobs, also when it is only tried."""

    refused: tuple[str, ...] = ("1",)

    def _outcome(self, order: JobsOrder, identity: str) -> JobOutcome:
        if identity in self.refused:
            return JobOutcome(id=identity, error="this machine has 4 devices", code="invalid")
        return super()._outcome(order, identity)


def test_a5_an_order_for_mine_that_every_job_refuses_says_why(capsys) -> None:
    client = Refusing(views=[job("1")])
    assert treadle(client, "update", "--mine", "-y", "-d", "99") == 2
    assert capsys.readouterr().err == "treadle: this machine has 4 devices\n"
    assert [order.dry_run for order in client.requests] == [True]


def test_a5_an_order_for_mine_names_the_jobs_that_refuse_it(capsys) -> None:
    client = Refusing(views=[job("1"), job("2")])
    assert treadle(client, "update", "--mine", "-y", "-d", "99") == 2
    out, err = capsys.readouterr()
    assert out == "job 2 updated\n"
    assert err == "treadle: this machine has 4 devices\n"


def test_b17_down_cancel_without_a_terminal_needs_yes(capsys) -> None:
    client = ValueClient()
    assert treadle(client, "down", "--cancel") == 2
    assert client.asked == []
    assert "--cancel cancels 18 jobs, and there is no terminal to ask on; give -y" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ["88", "6_5"])
@pytest.mark.parametrize("words", [("update", "zz"), ("submit", "--dry-run")])
def test_b15_a_name_that_looks_like_an_id_is_refused(words, name, capsys) -> None:
    client = ValueClient(views=[job("1", name="zz")])
    assert treadle(client, *words, "--name", name, *(["--", "true"] * (words[0] == "submit"))) == 2
    assert client.requests == []
    assert f"--name is {name}, which would be taken for a job's id" in capsys.readouterr().err


def test_an_order_for_an_ended_job_is_refused_whatever_the_verb(capsys) -> None:
    class Late(ValueClient):
        def _outcome(self, order: JobsOrder, identity: str) -> JobOutcome:
            return JobOutcome(id=identity, error=f"job {identity} has ended", code="conflict")

    codes = {treadle(Late(views=[NEWER]), verb, "117") for verb in ("cancel", "hold", "release")}
    assert codes == {1}
    assert capsys.readouterr().err == 3 * "treadle: job 117 has ended\n"


def test_a_folder_is_not_submitted(tmp_path: Path, capsys) -> None:
    assert treadle(ValueClient(), "submit", str(tmp_path)) == 2
    assert f"{tmp_path} is a folder; expected a script" in capsys.readouterr().err


def test_events_since_a_later_time_than_until_are_refused(capsys) -> None:
    assert treadle(ValueClient(), "events", "--since", "5m", "--until", "10m") == 2
    assert capsys.readouterr().err == "treadle: --since 5m is later than --until 10m\n"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("1", "1 device"),
        ("4", "4 devices"),
        ("1,2", "1 or 2 devices"),
        ("1,2,4", "1, 2 or 4 devices"),
        ("1..4", "1 to 4 devices"),
    ],
)
def test_devices_in_words(given: str, text: str) -> None:
    assert several_sizes(given) == text


@pytest.mark.parametrize(
    ("gib", "text"),
    [(100 / 1024, "100 MiB"), (1.5, "1.5 GiB"), (512, "512 GiB"), (922_000, "900.4 TiB")],
)
def test_memory_in_words(gib: float, text: str) -> None:
    assert gib_text(gib) == text


def test_b16_logs_as_json_say_that_they_are_only_the_end(capsys) -> None:
    long = ValueClient(views=[running("9")], logs={(1, 0): "x" * 3 * 2**16})
    assert treadle(long, "logs", "9", "--json") == 0
    assert capsys.readouterr().err == (
        "treadle: rank 0: only the last 64KiB of 192KiB; without --json all of it is printed\n"
    )
    short = ValueClient(views=[running("9")], logs={(1, 0): "x"})
    assert treadle(short, "logs", "9", "--json") == 0
    assert capsys.readouterr().err == ""


def test_b18_a_job_that_is_followed_says_that_it_waits_for_its_retry(capsys) -> None:
    class Retrying(ValueClient):
        """Backs off for a few looks, and then ends."""

        looks = 0

        def job(self, identity: str) -> JobDetail:
            self.looks += 1
            ran = detail(running(identity)).attempts
            if self.looks > 8:
                return detail(job(identity, State.SUCCEEDED, code=0), attempts=ran)
            left = f"it failed once and is tried again in {30 - self.looks} s"
            return detail(job(identity, cause="backing off", because=left), attempts=ran)

        def why(self, identity: str, *, verbose: bool = False) -> Why:
            return Why(id=identity, state=State.PENDING, code="backoff")

    client = Retrying(views=[job("9")], logs={(1, 0): "out\n"})
    assert treadle(client, "logs", "-f", "9") == 0
    out, err = capsys.readouterr()
    assert out == "out\n"
    assert err.count("job 9 waits: it failed once and is tried again in ") == 1
