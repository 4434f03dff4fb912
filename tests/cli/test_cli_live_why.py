"""`treadle why` to the letter, for each kind of waiting."""

import json
from dataclasses import replace

import pytest
from tests.cli.live_session import ValueClient, job, treadle

from treadle.wire.jobs import Estimate, StartEstimate, State, Why

SOON = StartEstimate(earliest_s=1500.0, latest_s=4000.0, runs=16, sentence="from 12 earlier starts")
UNKNOWN = StartEstimate(
    earliest_s=None, latest_s=None, runs=0, sentence="nothing is known about rl-a's length"
)

ANSWERS = {
    "devices": (
        Why(
            id="11",
            name="burst-b",
            state=State.PENDING,
            code="devices",
            sentence="the only GPU is busy (job 4, rl-a)",
            details=(("sharing", "not yet: burst.py has not been measured"),),
            position=2,
            waiting=6,
            estimate=UNKNOWN,
        ),
        (
            "burst-b is waiting: the only GPU is busy (job 4, rl-a).\n"
            "  sharing   not yet: burst.py has not been measured\n"
            "  starts    unknown (nothing is known about rl-a's length)\n"
            "  queue     2nd of 6\n"
        ),
    ),
    "preempted": (
        Why(
            id="11",
            name="vision",
            state=State.PENDING,
            code="preempted",
            sentence="preempted 40 s ago for probe-b",
            details=(("done", "77%"),),
            estimate=replace(SOON, earliest_s=20.0, latest_s=30.0, sentence="from 3 similar runs"),
            freed_by=("probe-b",),
        ),
        (
            "vision was preempted 40 s ago for probe-b. 77% done.\n"
            "  resumes   in 20-30 s, when job probe-b ends (from 3 similar runs)\n"
        ),
    ),
    "never": (
        Why(
            id="11",
            state=State.PENDING,
            code="never-fits",
            sentence="can never run here: it asks for 16 devices and the cluster has 8",
            never=True,
        ),
        "job 11 can never run here: it asks for 16 devices and the cluster has 8.\n",
    ),
    "held": (
        Why(
            id="11",
            state=State.HELD,
            code="held",
            sentence="on hold by its user",
            change="treadle release 11",
        ),
        "job 11 is on hold by its user.\n  try       treadle release 11\n",
    ),
    "hostile": (
        Why(id="11", state=State.FAILED, sentence="exit\x1b]0;pwned\x07 1"),
        "job 11 failed: exit?]0;pwned? 1.\n",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_why_tells_each_kind_of_waiting_apart(kind, capsys) -> None:
    answer, text = ANSWERS[kind]
    client = ValueClient(whys={answer.id: answer})
    assert treadle(client, "why", answer.id) == 0
    assert capsys.readouterr().out == text


def test_why_takes_a_name_and_asks_which_if_several_have_it(capsys) -> None:
    answer = ANSWERS["held"][0]
    client = ValueClient(views=[job("11", name="big")], whys={"11": answer})
    assert treadle(client, "why", "big") == 0
    assert capsys.readouterr().out.startswith("job 11 is on hold")
    client.views.append(job("12", name="big"))
    assert treadle(client, "why", "big") == 2
    assert capsys.readouterr().err == ("treadle: big is the name of 2 jobs (11, 12); use an id\n")


@pytest.mark.parametrize("word", ["13", "sweep"])
def test_u14_why_of_an_array_by_its_id_or_name(capsys, word: str) -> None:
    members = [job(f"13_{n}", array="13", index=n, name="sweep") for n in range(3)]
    end = Estimate(low_s=60.0, high_s=300.0, coverage=0.8, known=True, because="from 3 runs")
    answer = Why(
        id="13", state=State.RUNNING, code="array", sentence="1 running, 2 waiting", end=end,
        members=3,
    )  # fmt: skip
    assert treadle(ValueClient(views=members, whys={"13": answer}), "why", word) == 0
    assert capsys.readouterr().out == (
        "array 13 (3 jobs left): 1 running, 2 waiting\n  ends      in 1-5 min (from 3 runs)\n"
    )


def test_a_long_answer_has_few_facts_in_lines_of_a_hundred_columns_none_of_them_cut(capsys) -> None:
    details = tuple((f"n{n}", "word " * 40 + "end") for n in range(9))
    answer = Why(
        id="11", state=State.PENDING, code="host", sentence="word " * 30 + "end", details=details,
        estimate=SOON, position=2, waiting=5, change="treadle release 11",
    )  # fmt: skip
    assert treadle(ValueClient(whys={"11": answer}), "why", "11", columns=200) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    labels = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert labels == ["n0", "n1", "n2", "starts"]
    assert shown.split().count("word") == 30 + 3 * 40
    assert shown.split().count("end") == 3
    assert max(map(len, lines)) <= 100


def test_verbose_adds_what_was_tried_and_json_has_code_and_numbers(capsys) -> None:
    answer = replace(
        ANSWERS["devices"][0],
        numbers={"asked": 1, "free": 0},
        alternatives=(("priority", "treadle priority 11 1 starts it now"),),
    )
    client = ValueClient(whys={"11": answer})
    assert treadle(client, "why", "11", "--verbose") == 0
    assert "  priority  treadle priority 11 1 starts it now\n" in capsys.readouterr().out
    assert client.asked == [("why verbosely", "11")]
    assert treadle(client, "why", "11", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["code"], said["numbers"]) == ("devices", {"asked": 1, "free": 0})
