"""Whose jobs a name means, and what an array is called by."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.live_session import ValueClient, job, running, treadle

from treadle.wire.jobs import JobRequest, JobView, State

AFTER = {"cause": "dependency", "because": "it starts after job 9"}
SWEEP = [job(f"13_{n}", name="sweep", array="13", index=n) for n in range(3)]


def test_a_name_means_the_users_own_jobs_and_an_id_any_job(capsys) -> None:
    client = ValueClient(views=[job("11", name="sleep"), job("12", name="sleep", user="bob")])
    assert treadle(client, "cancel", "sleep", user="bob") == 0
    assert treadle(client, "cancel", "11", user="bob") == 0
    assert client.asked == [("cancel", "12"), ("cancel", "11")]
    assert capsys.readouterr().out == "job 12 (sleep) cancelled\njob 11 (sleep) cancelled\n"


@pytest.mark.parametrize("verb", ["cancel", "why", "wait"])
def test_a_name_that_only_others_use_is_refused_with_the_id_to_say(capsys, verb) -> None:
    client = ValueClient(views=[job("11", name="sleep")])
    assert treadle(client, verb, "sleep", user="root") == 102
    assert client.asked == []
    assert capsys.readouterr().err == (
        "treadle: no job of yours has the name sleep, but job 11 of anna has; "
        "use its id to select it\n"
    )


def test_over_the_network_a_name_of_two_users_is_refused(capsys, monkeypatch) -> None:
    monkeypatch.setenv("TREADLE_URL", "http://box:8437")
    client = ValueClient(views=[job("11", name="sleep"), job("12", name="sleep", user="bob")])
    assert treadle(client, "cancel", "sleep") == 2
    assert client.asked == []
    assert capsys.readouterr().err == (
        "treadle: sleep is the name of jobs of anna and bob; use an id\n"
    )


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_an_array_by_its_name_is_one_order(capsys, verb) -> None:
    client = ValueClient(views=[*SWEEP, job("15", name="sweep")])
    assert treadle(client, verb, "sweep") == 0
    assert client.asked == [(verb, "13"), (verb, "15")]
    assert capsys.readouterr().out.startswith("3 jobs of 13 ")


def test_an_array_with_a_renamed_member_is_ordered_by_its_members() -> None:
    client = ValueClient(views=[*SWEEP[:2], job("13_2", name="other", array="13", index=2)])
    assert treadle(client, "cancel", "sweep") == 0
    assert client.asked == [("cancel", "13_0"), ("cancel", "13_1")]


def test_a_job_may_start_after_an_array_by_its_id_or_name(capsys) -> None:
    ended = job("13_3", State.SUCCEEDED, name="sweep", array="13", index=3)
    client = ValueClient(views=[*SWEEP, ended, job("15", name="two"), job("16", name="two")])
    words = ("--after", "13", "--after", "sweep", "--after-any", "13_1", "--", "x")
    assert treadle(client, "submit", "--no-git", *words) == 0
    request = client.asked[0][1]
    assert isinstance(request, JobRequest)
    assert (request.after, request.after_any) == (("13", "13"), ("13_1",))
    capsys.readouterr()
    assert treadle(client, "submit", "--after", "two", "--", "x") == 2
    assert capsys.readouterr().err == ("treadle: two is the name of 2 jobs (15, 16); use an id\n")
    assert treadle(client, "submit", "--after", "nobody", "--", "x") == 102


def test_only_what_is_held_is_released(capsys) -> None:
    held = job("14", State.HELD)
    broken, gated = job("15", cause="broken"), job("16", State.HELD, **AFTER)
    views = [job("11", name="big"), running("12"), *SWEEP, held, broken, gated]
    client = ValueClient(views=views)
    assert treadle(client, "release", "big", "12", "sweep", "14", "15", "16") == 0
    assert capsys.readouterr().out == (
        "job 11 (big) is not held, it waits\n"
        "job 12 is not held, it runs\n"
        "none of the 3 jobs of sweep is held\n"
        "job 16 is not held by its user: it starts after job 9\n"
        "job 14 released\n"
        "job 15 released\n"
    )
    assert client.asked == [("release", "14"), ("release", "15")]
    client = ValueClient(views=[replace(SWEEP[0], state=State.HELD), *SWEEP[1:], *_named("sweep")])
    assert treadle(client, "release", "sweep") == 0
    assert client.asked == [("release", "13"), ("release", "21")]
    assert "job 20 (sweep) is not held, it waits\n" in capsys.readouterr().out


def _named(name: str) -> list[JobView]:
    return [job("20", name=name), job("21", State.HELD, name=name)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("events", "--job", "nosuch"),
            "no job has the id or name nosuch; treadle ps -a lists them",
        ),
        (("events", "--job", "99"), "there is no job 99"),
        (("logs", "9", "--attempt", "9"), "job 9 has no attempt 9; the newest is 1"),
        (("logs", "11", "--attempt", "1"), "job 11 has no attempt 1; it has not run yet"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_what_is_not_there_is_said_not_to_be(capsys, words, sentence) -> None:
    client = ValueClient(views=[running("9"), job("11")])
    assert treadle(client, *words) == 102
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"treadle: {sentence}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "treadle", "policies"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (
        1,
        "treadle: the output cannot be written: No space left on device\n",
    )


def test_an_empty_name_is_refused() -> None:
    client = ValueClient(views=[job("11")])
    assert {treadle(client, verb, "") for verb in ("why", "cancel", "wait")} == {2}
    assert client.asked == []


@pytest.mark.parametrize("verb", ["cancel", "release"])
def test_an_order_for_an_ended_job_by_its_name_says_that_it_has_ended(capsys, verb) -> None:
    done = job("12", State.SUCCEEDED, name="bert")
    over = [replace(member, state=State.FAILED) for member in SWEEP]
    client = ValueClient(views=[done, *over])
    for word, sentence in {
        "bert": "job 12 (bert) has ended already (succeeded)",
        "sweep": "array 13 (sweep) has ended already",
        "13": "array 13 has ended already",
    }.items():
        assert treadle(client, verb, word) == 2
        assert capsys.readouterr().err == f"treadle: {sentence}\n"
    assert client.asked == []


@pytest.mark.parametrize("verb", ["describe", "logs"])
def test_the_name_of_an_array_is_refused_as_its_id_is(capsys, verb) -> None:
    """Also with one member left, and once all have ended."""
    ended = [replace(member, state=State.SUCCEEDED) for member in SWEEP]
    for views in (SWEEP, [*ended[:2], SWEEP[2]], ended):
        client = ValueClient(views=views)
        assert treadle(client, verb, "sweep") == 2
        assert capsys.readouterr().err == (
            "treadle: sweep is the name of array 13; name one of its jobs, such as 13_0 "
            "(treadle ps --array 13 lists them)\n"
        )


def test_members_that_could_not_be_held_are_named(capsys) -> None:
    class Partly(ValueClient):
        def hold(self, identity: str) -> tuple[JobView, ...]:
            return tuple(view for view in super().hold(identity) if view.id != "13_0")

    assert (
        treadle(Partly(views=[running("13_0", array="13", index=0), *SWEEP[1:]]), "hold", "13") == 0
    )
    said = capsys.readouterr()
    assert said.out == "2 jobs of 13 held\n"
    assert said.err == (
        "treadle: not held: 13_0; 1 job runs and cannot be paused or resume, so holding would lose "
        "work\n"
    )
