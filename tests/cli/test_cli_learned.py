"""`treadle learned`: a list, one script in full, and forgetting."""

import json
from dataclasses import replace

from tests.cli.live_session import ValueClient, treadle

from treadle.wire.learned import (
    ForgetRequest,
    LearnedArgument,
    LearnedEffect,
    LearnedPage,
    LearnedScript,
    LearnedSpan,
    LearnedSpeed,
)

TRAIN = LearnedScript(
    id="0a1b2c3d",
    script="train.py",
    user="anna",
    runs=12,
    cut_off=1,
    length_s=LearnedSpan(runs=12, least=20.0, middle=45.0, most=600.0),
    memory_gib=LearnedSpan(runs=12, least=3.0, middle=4.0, most=6.0),
    busy=LearnedSpan(runs=12, least=0.2, middle=0.5, most=0.9),
    speeds=(LearnedSpeed(devices=1, steps_per_s=30.0), LearnedSpeed(devices=2, steps_per_s=55.0)),
    arguments=(
        LearnedArgument(
            name="--epochs", values=4, effects=(LearnedEffect(figure="length", slope=1.0),)
        ),
        LearnedArgument(
            name="--model",
            values=2,
            effects=(LearnedEffect(figure="step", factors={"small": 0.5, "large": 2.0}),),
        ),
        LearnedArgument(name="--seed", values=9),
        LearnedArgument(name="--lr", values=1),
    ),
    restart_s=9.0,
    freeze_s=0.021,
    suspend_s=4.3,
    resume_s=12.4,
)


def test_all_scripts_are_listed_with_the_figures_that_matter(capsys) -> None:
    client = ValueClient(known=LearnedPage(scripts=(TRAIN,)))
    assert treadle(client, "learned") == 0
    head, row = capsys.readouterr().out.splitlines()
    titles = ["SCRIPT", "ID", "RUNS ALONE", "CUT OFF", "LENGTH", "GPU MEMORY", "BUSY"]
    assert [each.strip() for each in head.split("  ") if each] == titles
    assert row.split() == ["train.py", "0a1b2c3d", "12", "1", "20s-10m", "6", "GiB", "50%"]
    assert treadle(ValueClient(), "learned") == 0
    assert treadle(ValueClient(), "learned", "none.py") == 2


def test_one_script_is_shown_with_what_each_argument_does(capsys) -> None:
    client = ValueClient(known=LearnedPage(scripts=(TRAIN,)))
    assert treadle(client, "learned", "train.py", "--user", "anna") == 0
    assert client.asked[-1] == ("learned", ("train.py", "anna"))
    out = capsys.readouterr().out
    for part in ("30.0/s on 1 device", "x2.00 if doubled", "x0.50 for small, x2.00 for large"):
        assert part in out
    rows = {line.split("  ")[1]: line for line in out.splitlines()[1:]}
    assert "--seed" in rows["no effect seen"]
    assert "--lr" in rows["never varied"]
    pauses = [rows[how].split(how)[1].strip() for how in ("frozen", "suspended")]
    assert pauses == ["in 0.02 s", "in 4 s, goes on in 12 s"]


def test_runs_that_all_took_as_long_have_one_length_and_no_cores_are_not_listed(capsys) -> None:
    length = LearnedSpan(runs=3, least=25.01, middle=25.02, most=25.04)
    idle = LearnedSpan(runs=3, least=0.0, middle=0.0, most=0.002)
    client = ValueClient(known=LearnedPage(scripts=(replace(TRAIN, length_s=length, cores=idle),)))
    assert treadle(client, "learned", "train.py") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["length", "25", "s"] in rows
    assert "cores" not in [row[0] for row in rows]


def test_a_script_is_forgotten_by_name(capsys) -> None:
    client = ValueClient()
    assert treadle(client, "learned", "train.py", "--forget", "--json") == 0
    assert client.asked[-1] == ("forget", ForgetRequest(script="train.py"))
    assert json.loads(capsys.readouterr().out) == {"scripts": ["train.py"]}
    assert treadle(client, "learned", "--forget") == 2
