"""`treadle why` to the letter, for each kind of waiting."""

from dataclasses import replace

import pytest
from tests.cli.live_session import ValueClient, job, treadle

from treadle.wire.jobs import Estimate, StartEstimate, State, Why

SOON = StartEstimate(
    earliest_s=1500.0, latest_s=4000.0, runs=16, sentence="16 simulations that go on from now"
)

ANSWERS = {
    "devices": (
        Why(
            id="11",
            state=State.PENDING,
            cause="devices",
            because="it needs 8 devices and 3 are free",
            evidence=(
                (
                    "job 9 (bert) of anna holds box:0 and box:1 and has about 30m to go, as its "
                    "log says"
                ),
                "device box:7 is used by pid 4711 of carl",
            ),
            change="it would start now with --devices 3",
            position=1,
            waiting=3,
            estimate=replace(SOON, order=1),
        ),
        (
            "job 11 waits (devices)\n"
            "  because   it needs 8 devices and 3 are free\n"
            "  evidence  job 9 (bert) of anna holds box:0 and box:1 and has about 30m to go,\n"
            "            as its log says\n"
            "            device box:7 is used by pid 4711 of carl\n"
            "  change    it would start now with --devices 3\n"
            "  position  1st of 3 in the queue\n"
            "  start     in 25m to 1h07m (16 simulations that go on from now)\n"
        ),
    ),
    "never": (
        Why(
            id="11",
            state=State.PENDING,
            cause="never fits",
            because="it can never run here: it needs 16 devices and there are 8",
            change="submit it with --devices 8 or fewer",
            never=True,
        ),
        (
            "job 11 can never run as it is (never fits)\n"
            "  because  it can never run here: it needs 16 devices and there are 8\n"
            "  change   submit it with --devices 8 or fewer\n"
            "  start    never\n"
        ),
    ),
    "held": (
        Why(
            id="11",
            state=State.HELD,
            cause="held",
            because="its user holds it",
            change="treadle release 11",
        ),
        "job 11 is held\n  because  its user holds it\n  change   treadle release 11\n",
    ),
    "dependency": (
        Why(
            id="11",
            state=State.PENDING,
            cause="dependency",
            because="it starts after job 9 (running)",
        ),
        "job 11 waits (dependency)\n  because  it starts after job 9 (running)\n",
    ),
    "array": (
        Why(
            id="13_7",
            state=State.PENDING,
            cause="array",
            because="8 members of array 13 may run at once, and as many do",
        ),
        (
            "job 13_7 waits (array)\n"
            "  because  8 members of array 13 may run at once, and as many do\n"
        ),
    ),
    "rank": (
        Why(
            id="11",
            state=State.PENDING,
            cause="rank",
            because="22 jobs go before it",
            position=23,
            waiting=40,
            estimate=StartEstimate(
                earliest_s=60.0, latest_s=None, runs=16, sentence="", order=21, orders=(21, 22)
            ),
        ),
        (
            "job 11 waits (rank)\n"
            "  because   22 jobs go before it\n"
            "  position  23rd of 40 in the queue, 21st or 22nd to start\n"
            "  start     in 1m or much later\n"
        ),
    ),
    "far": (
        Why(
            id="11",
            state=State.PENDING,
            cause="rank",
            because="111 jobs go before it",
            position=112,
            waiting=1400,
            estimate=StartEstimate(earliest_s=None, latest_s=None, runs=16, sentence=""),
        ),
        (
            "job 11 waits (rank)\n"
            "  because   111 jobs go before it\n"
            "  position  112th of 1,400 in the queue\n"
            "  start     unknown\n"
        ),
    ),
    "running": (
        Why(
            id="11",
            state=State.RUNNING,
            cause="share",
            because="2 of 8 devices are its fair share",
        ),
        "job 11 runs (share)\n  because  2 of 8 devices are its fair share\n",
    ),
    "hostile": (
        Why(id="11", state=State.FAILED, cause="", because="exit\x1b]0;pwned\x07 1"),
        "job 11 failed\n  because  exit?]0;pwned? 1\n",
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
    assert capsys.readouterr().out.startswith("job 11 is held")
    client.views.append(job("12", name="big"))
    assert treadle(client, "why", "big") == 2
    assert capsys.readouterr().err == ("treadle: big is the name of 2 jobs (11, 12); use an id\n")


@pytest.mark.parametrize("word", ["13", "sweep"])
def test_u14_why_of_an_array_by_its_id_or_name(capsys, word: str) -> None:
    members = [job(f"13_{n}", array="13", index=n, name="sweep") for n in range(3)]
    end = Estimate(low_s=60.0, high_s=300.0, coverage=0.8, known=True, because="10 simulations")
    answer = Why(
        id="13", state=State.RUNNING, cause="array", because="1 runs, 2 wait", end=end, members=3
    )
    assert treadle(ValueClient(views=members, whys={"13": answer}), "why", word) == 0
    assert capsys.readouterr().out == (
        "array 13 (3 jobs left) runs\n"
        "  because  1 runs, 2 wait\n"
        "  end      in 1m to 5m (80%: 10 simulations)\n"
    )


def test_of_jobs_that_ended_the_newest_of_the_name_is_meant(capsys) -> None:
    old = job("3", State.FAILED, name="big", submitted_at=1.0)
    new = job("4", State.FAILED, name="big", submitted_at=2.0)
    failed = Why(id="4", state=State.FAILED, cause="", because="exit code 1")
    client = ValueClient(views=[new, old], whys={"4": failed})
    assert treadle(client, "why", "big") == 0
    assert capsys.readouterr().out == "job 4 failed\n  because  exit code 1\n"


def test_a_job_that_is_not_there_is_exit_code_102(capsys) -> None:
    assert treadle(ValueClient(), "why", "99") == 102
    assert capsys.readouterr().err == "treadle: there is no job 99\n"
