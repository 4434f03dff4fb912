"""`treadle plan`: the table, the JSON, and one sentence for what cannot be."""

import json

import pytest

from treadle.cli.study.plan import plan
from treadle.core.errors import InvalidInputError

GPT2 = """\
gpt2: 1.56 billion parameters, batch 16, 8 devices on 2 nodes (2x4), 4 cores per device

plan               s/iter  samples/s   GiB  host GiB  fits
d8 zero-2           0.723       22.1  22.1       2.0  yes
d4 p2 x4            0.778       20.6  21.4       2.0  yes
d2 p4 x8            0.803       19.9  14.9       2.0  yes
d1 p8 x16           0.826       19.4  11.6       2.0  yes
d8                  0.830       19.3  39.9       2.0  yes
d8 zero-2 offload   1.374       11.6  21.5       4.9  yes

the best of each kind out of 36 plans; --all lists all
"""


def run(*words: str) -> None:
    plan.main(list(words), standalone_mode=False)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    run("gpt2", "--nodes", "4+4")
    assert capsys.readouterr().out == GPT2


def test_a_plan_that_does_not_fit_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    run("llama7", "--devices", "1", "--host-gib", "64")
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].endswith("no: over 72.0 GiB")
    assert lines[4].endswith("no: host over 64 GiB")
    assert lines[-1] == (
        "d1 recompute x8 does not fit: it needs 101.8 GiB on each device, which has 72.0 of 80 "
        "GiB to give"
    )


def test_json_has_every_field_and_the_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    run("llama7b", "--devices", "8", "--json", "--all")
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 64
    assert rows[0] == {
        "plan": "d2 t4",
        "data": 2,
        "tensor": 4,
        "pipeline": 1,
        "shard": "none",
        "offload": False,
        "recompute": False,
        "accumulate": 1,
        "iteration_s": pytest.approx(1.355, abs=1e-3),
        "samples_per_s": pytest.approx(5.9, abs=0.01),
        "device_gib": pytest.approx(56.7, abs=0.1),
        "host_gib": 2.0,
        "feasible": True,
        "problem": "",
    }
    assert rows[-1]["problem"].startswith("it needs ")
    feasible = [row["feasible"] for row in rows]
    assert feasible == sorted(feasible, reverse=True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["lama7b"], "did you mean llama7b?"),
        (["gpt2", "--nodes", "4+x"], "'4+x'"),
        (["gpt2", "--nodes", "4+0"], "'4+0'"),
        (["gpt2", "--nodes", "4+4", "--devices", "4"], "--devices is 4"),
        (["gpt2", "--nodes", "9999"], "9999"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: list[str], named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        run(*words)
    assert named in str(caught.value)
