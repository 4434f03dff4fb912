"""Unmodified training scripts as elastic jobs: real processes with gloo."""

import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.shared import thorough
from tests.train.checks import check_same, check_samples, check_steps, losses, steps_of
from tests.train.harness import Event, Result, Scenario, printed, run
from tests.waiting import PATIENCE_S
from treadle.engines.node.environment import free_port
from treadle.failures.classifier import classify
from treadle.failures.verdict import Exit

SCRIPTS = Path(__file__).with_name("unmodified")
SAMPLES, BATCH = 60, 8
EPOCHS = 60
STOP = Event(0, stop=True)


@cache
def _plain(script: str, *words: str) -> list[dict[str, Any]]:
    """The rows of the script without Treadle."""
    return [json.loads(line) for line in printed(SCRIPTS / script, *words).splitlines()]


def _plain_losses(script: str, *words: str) -> dict[int, float]:
    found = [row["loss"] for row in _plain(script, *words) if "i" in row]
    return {step + 1: loss for step, loss in enumerate(found)}


def _options(script: str, *words: str, **more: Any) -> dict[str, Any]:
    return {"script": str(SCRIPTS / script), "words": list(words), **more}


def _sizes(result: Result) -> list[int]:
    return [len(change["group"]) for change in result.changes]


GROWS = """
import json, os, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
count = 40 if os.environ.get("TREADLE_JOINS") == "1" else 32
loader = DataLoader(TensorDataset(torch.ones(count, 4), torch.ones(count, 1)), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100000):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(json.dumps({"epoch": epoch, "i": i, "loss": float(loss)}))
"""


def test_resizes_change_nothing_of_what_an_unmodified_script_learns() -> None:
    """1 -> 3 -> 2 members, then all of them move; every sample once in each epoch."""
    events = [Event(5, ("a", "b", "c")), Event(30, ("b", "c")), Event(50, ("x", "y")), STOP]
    options = _options("classify.py", "--epochs", "100000", held_at=5)
    result = run(Scenario("unmodified", ("a",), events, options))
    assert _sizes(result) == [1, 3, 2, 3, 2], result.errors
    assert set(result.codes.values()) <= {0, 143}, result.errors
    check_samples(result, SAMPLES, stopped=True)
    check_steps(result, SAMPLES, BATCH)
    plain = _plain_losses("classify.py", "--epochs", str(EPOCHS))
    check_same(losses(result, SAMPLES, BATCH), plain, at_least=0.1)


def test_what_follows_an_epoch_is_the_same_for_a_newcomer() -> None:
    """Validation and the scheduler's rate; epochs that it only passed print nothing."""
    words = ("--epochs", str(EPOCHS))
    options = _options("classify.py", *words, held_at=60)
    result = run(Scenario("unmodified", ("a",), [Event(60, ("a", "b"))], options))
    assert result.ended["finished"], result.errors
    plain = {row["epoch"]: row for row in _plain("classify.py", *words) if "right" in row}
    by_member: dict[str, dict[int, dict[str, Any]]] = {"m0": {}, "m1": {}}
    for row in result.rows:
        if "right" in row:
            assert row["epoch"] not in by_member[row["member"]], "an epoch twice"
            by_member[row["member"]][row["epoch"]] = row
    assert by_member["m0"].keys() == plain.keys()
    trained = [row["epoch"] for row in result.rows if "i" in row and row["member"] == "m1"]
    # It may join after the last batch of an epoch, and then sees what follows it.
    assert 60 // 8 <= min(by_member["m1"]) <= min(trained) <= min(by_member["m1"]) + 1
    for rows in by_member.values():
        for epoch, row in rows.items():
            assert (row["right"], row["rate"]) == (plain[epoch]["right"], plain[epoch]["rate"])


def test_gradients_that_accumulate_and_are_clipped_survive_resizes_and_a_loss() -> None:
    more = ("--accumulate", "2", "--clip", "0.5")
    events = [
        Event(8, ("a", "b", "c")),
        Event(30, kill=0),
        Event(45, ("b", "d")),
        Event(60, ("b",)),
        STOP,
    ]
    options = _options("classify.py", "--epochs", "100000", *more, held_at=8, timeout_s=60.0)
    result = run(Scenario("unmodified", ("a", "b"), events, options))
    assert (_sizes(result)[:2], _sizes(result)[-1]) == ([2, 3], 1), result.errors
    assert -signal.SIGKILL in result.codes.values()
    words = ("classify.py", "--epochs", str(EPOCHS), *more)
    # The last row of a step is that of its last batch.
    plain = [row["loss"] for row in _plain(*words) if "i" in row][1::2]
    ours = {}
    for step, rows in steps_of(result).items():
        last = [row for row in rows if row["i"] % 2]
        whole = SAMPLES % BATCH if last and last[0]["i"] == 7 else BATCH
        if sum(len(row["samples"]) for row in last) == whole:  # else a killed member had a share
            ours[step] = sum(row["loss"] for row in last)
    check_same(ours, {step + 1: loss for step, loss in enumerate(plain)}, at_least=0.15)


def test_a_stop_and_another_start_lose_and_repeat_no_step(tmp_path: Path) -> None:
    words = ("classify.py", "--epochs", str(EPOCHS))
    options = _options(*words)
    first = run(
        Scenario("unmodified", ("a",), [Event(21, stop=True)], options, folder=str(tmp_path))
    )
    assert set(first.codes.values()) == {143}, first.errors
    second = run(Scenario("unmodified", ("a", "b"), [], options, folder=str(tmp_path)))
    assert second.ended["finished"], second.errors
    known = [losses(each, SAMPLES, BATCH) for each in (first, second)]
    assert not known[0].keys() & known[1].keys(), "a step was done again"
    check_same(known[0] | known[1], _plain_losses(*words), at_least=1.0)


def test_later_ranks_save_nothing_and_still_find_their_own(tmp_path: Path) -> None:
    words = ("classify.py", "--epochs", "3", "--save", str(tmp_path / "model"))
    result = run(Scenario("unmodified", ("a", "b"), [], _options(*words)))
    assert result.ended["finished"], result.errors
    assert {path.name for path in tmp_path.glob("*.pt")} == {f"model-{n}.pt" for n in range(3)}
    assert [row["loaded"] for row in result.rows if "loaded" in row] == [6, 6]


# What the sentence of each refusal names.
REFUSED = {
    "iterable": "an IterableDataset (Stream)",
    "endless": "(Endless) has no length",
    "single": "batch_size=None",
    "manual": "outside of a loop over a DataLoader",
    "lbfgs": "LBFGS",
    "sum": 'MSELoss has reduction="sum"',
    "own-group": "a process group of its own",
    "wrapped": "DataParallel",
    "two": "two DataLoaders at the same time",
    "unequal": "do not step equally often",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_shared_is_refused_by_a_job_that_may_be_given_more_devices(
    case: str,
) -> None:
    script = str(SCRIPTS / "cases.py")
    ended = subprocess.run(
        [sys.executable, "-m", "treadle.train.auto", script, case],
        env={**os.environ, "TREADLE_SIZE_MAX": "4"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    (said,) = [line for line in ended.stderr.splitlines() if ": refused: " in line]
    assert REFUSED[case] in said
    assert classify(ended.stderr, Exit.of(2)).rule == "elastic-auto-refused"


@pytest.mark.parametrize(
    ("case", "what"), [("manual", REFUSED["manual"]), ("by-hand", "without backward() before it")]
)
def test_several_members_refuse_it_as_well(case: str, what: str) -> None:
    result = run(Scenario("unmodified", ("a", "b"), [], _options("cases.py", case)))
    assert 2 in result.codes.values()
    assert what in result.errors


def test_a_script_that_trains_nothing_is_refused_if_several_ran_it() -> None:
    result = run(Scenario("unmodified", ("a", "b"), [], _options("no_training.py")))
    assert result.codes == {"m0": 2, "m1": 2}
    words = "refused: the script has ended and made no optimizer of torch, so each process did all"
    assert words in result.errors
    alone = run(Scenario("unmodified", ("a",), [], _options("no_training.py")))
    assert alone.codes == {"m0": 0}


def test_one_process_runs_what_cannot_be_shared_as_it_is() -> None:
    result = run(Scenario("unmodified", ("a",), [], _options("cases.py", "manual")))
    assert result.codes == {"m0": 0}
    assert "runs as one process that cannot be resized: " in result.errors


def test_a_rate_that_a_newcomer_cannot_know_is_noticed() -> None:
    events = [Event(3, ("a", "b"))]
    options = _options("counts.py", "--own-rate")
    result = run(Scenario("unmodified", ("a",), events, options))
    assert "the ranks differ after step" in result.errors
    assert 2 in result.codes.values()


def test_a_script_that_counts_its_steps_ends_with_its_oldest_member() -> None:
    """The newcomer has counted fewer steps, and would go on alone."""
    options = _options("counts.py", "--steps", "40", held_at=12)
    result = run(Scenario("unmodified", ("a",), [Event(12, ("a", "b"))], options))
    assert result.codes == {"m0": 0, "m1": 0}, result.errors
    assert result.ended["finished"], result.errors
    assert max(row["step"] for row in result.rows) == 40
    assert "an older member's script has ended" in result.errors


def test_batch_normalisation_is_noted_and_its_statistics_stay_the_same() -> None:
    result = run(Scenario("unmodified", ("a", "b"), [], _options("cases.py", "batch-norm")))
    assert result.ended["finished"], result.errors
    assert "batch normalisation uses the samples of each rank" in result.errors


def test_all_that_a_script_may_have_moves_along() -> None:
    """Two loaders and optimizers, a scaler, a plateau scheduler and an average; one member dies."""
    events = [Event(20, ("a", "b", "c")), Event(60, kill=0), Event(90, ("c", "d")), STOP]
    options = _options("mixed.py", "--epochs", "100000", held_at=20, timeout_s=30.0)
    result = run(Scenario("unmodified", ("a", "b"), events, options))
    # The next order may come before or after the loss is noticed, and the loss before the third
    # member has loaded torch.
    sizes = _sizes(result)
    assert (sizes[0], sizes[-1]) == (2, 2), result.errors
    assert sizes[1] in (1, 3), result.errors
    assert -signal.SIGKILL in result.codes.values()
    plain = _plain("mixed.py", "--epochs", "60")
    batches = {(row["epoch"], row["i"]): row for row in plain if "i" in row}
    compared = 0
    for rows in steps_of(result).values():
        expected = batches.get((rows[0]["epoch"], rows[0]["i"]))
        taken = sorted(index for row in rows for index in row["samples"])
        if expected is not None and len(taken) == len(expected["samples"]):
            assert taken == sorted(expected["samples"])
            assert sum(row["loss"] for row in rows) == pytest.approx(expected["loss"], abs=2e-5)
            compared += 1
    assert compared > 40
    ends = {row["epoch"]: row for row in plain if "scale" in row}
    later = [row for row in result.rows if "scale" in row and row["epoch"] in ends]
    assert {row["member"] for row in later} >= {"m0", "m1", "m2"}
    for row in later:
        expected = ends[row["epoch"]]
        assert (row["scale"], row["rate"]) == (expected["scale"], expected["rate"])
        assert row["validation"] == pytest.approx(expected["validation"], abs=1e-4)


def test_a_newcomer_that_begins_with_the_scripts_own_checkpoint_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.pt"
    more = ("--own-checkpoint", str(own))
    options = _options("mixed.py", "--epochs", "100000", *more, held_at=40)
    result = run(Scenario("unmodified", ("a",), [Event(40, ("a", "b")), STOP], options))
    assert result.codes == {"m0": 143, "m1": 2}, result.errors
    assert f"the script begins with {own}, which it saved itself" in result.errors


def test_a_newcomer_with_other_data_is_refused(tmp_path: Path) -> None:
    """Files were added since the run began: samples would come twice, or never."""
    script = tmp_path / "grows.py"
    script.write_text(GROWS)
    options = {"script": str(script), "words": [], "held_at": 5}
    result = run(Scenario("unmodified", ("a",), [Event(5, ("a", "b")), STOP], options))
    assert "40 samples in batches of 8 here, and 32 in batches of 8 where" in result.errors
    assert result.codes["m1"] == 2


def test_a_script_that_resumes_by_itself_does_so(tmp_path: Path) -> None:
    words = ("--own-checkpoint", str(tmp_path / "own.pt"))
    options = _options("mixed.py", "--epochs", "100000", *words)
    stop = [Event(40, stop=True)]
    first = run(Scenario("unmodified", ("a",), stop, options, folder=str(tmp_path)))
    reached = max(row["epoch"] for row in first.rows)
    options = _options("mixed.py", "--epochs", str(reached + 3), *words)
    second = run(Scenario("unmodified", ("a", "b"), [], options, folder=str(tmp_path)))
    assert second.ended["finished"], second.errors
    assert "own.pt, and not from the checkpoint of Treadle" in second.errors
    assert {row["epoch"] for row in second.rows} == set(range(reached, reached + 3))


@thorough
def test_ranks_of_torchrun_share_an_unmodified_script_out(tmp_path: Path) -> None:
    """As torchrun starts them, without a coordinator."""
    words = (str(SCRIPTS / "classify.py"), "--epochs", "3")
    env = {
        "PATH": os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "treadle.train.auto", *words],
            env={**env, "RANK": str(rank)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    rows = [[json.loads(line) for line in text.splitlines()] for text in printed]
    plain = [row for row in _plain("classify.py", "--epochs", str(EPOCHS)) if row["epoch"] < 2]
    for ours, theirs, whole in zip(*rows, plain, strict=False):
        if "i" in whole:
            taken = ours["samples"] + theirs["samples"]
            assert sorted(taken) == sorted(whole["samples"])
            parts = [row["loss"] * len(row["samples"]) for row in (ours, theirs)]
            assert sum(parts) / len(taken) == pytest.approx(whole["loss"], abs=2e-5)
        else:
            assert ours["right"] == theirs["right"] == whole["right"]
