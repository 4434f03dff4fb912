"""What is left of a run when its loop is over, or was left early."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.train.harness import Scenario, run
from treadle import train
from treadle.core.errors import InvalidInputError
from treadle.train.checkpoint import Checkpoints
from treadle.train.data import Data
from treadle.train.session import Run
from treadle.train.stop import STOP


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run takes the stop signal of its process, which is that of all tests."""
    usual = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(STOP, "_pid", 0)
    yield
    signal.signal(signal.SIGTERM, usual)


def _begun() -> tuple[Run, nn.Module, torch.optim.Optimizer, Data]:
    """A small run in this process."""
    begun = train.start()
    model = nn.Linear(2, 1)
    dataset = TensorDataset(torch.ones(8, 2), torch.ones(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return begun, *begun.prepare(model, optimizer, dataset, batch_size=4)


def test_a_split_model_is_whole_again_in_an_attempt_after_the_last_step(tmp_path: Path) -> None:
    options = {"kind": "cnn", "epochs": 1}
    scenario = Scenario("loop", ("a", "b"), [], options, folder=str(tmp_path), plan="zero-3")
    first, second = run(scenario), run(scenario)
    assert first.ended["finished"], first.errors
    assert second.ended["finished"], second.errors
    assert len([row for row in first.rows if row.get("applied")]) == 16
    assert not [row for row in second.rows if "step" in row], "it trained again"
    finals = [sorted(r["final"] for r in each.rows if "final" in r) for each in (first, second)]
    assert finals[0] == finals[1]


def test_a_loop_that_is_left_waits_for_the_checkpoint_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content stands for a slow disk: the write waits until it is there."""
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))
    begun, model, optimizer, data = _begun()
    writer, arrives = begun._saving._writer, threading.Event()
    assert writer is not None
    usual = writer.write

    def slow(step: int, content: Callable[[], dict[str, Any]]) -> None:
        usual(step, lambda: content() if arrives.wait(60) else {})
        threading.Timer(0.2, arrives.set).start()

    monkeypatch.setattr(writer, "write", slow)
    for _ in begun.epochs(3):
        for batch in begun.batches(data):
            begun.backward(nn.functional.mse_loss(model(batch.x), batch.y))
            begun.step(optimizer)
        begun._save(wait=False)
        break
    waited = arrives.is_set() and not writer.busy
    arrives.set()
    writer.wait()
    assert waited, "the process could have ended with half a checkpoint"


def test_an_attempt_after_the_last_step_goes_straight_to_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if an evaluation after the loop had been stopped, and its job started again."""
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))
    steps = []
    for attempt in range(2):
        begun, model, optimizer, data = _begun()
        for _ in begun.epochs(2):
            for batch in begun.batches(data):
                begun.backward(nn.functional.mse_loss(model(batch.x), batch.y))
                begun.step(optimizer)
                steps.append((attempt, begun.step_count))
        assert begun.step_count == 4
    assert steps == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert Checkpoints(tmp_path).load()["position"] == {"epoch": 2, "offset": 0, "applied": 4}


def test_a_run_and_a_checkpoint_of_the_scripts_own_do_not_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would write the same draft, and neither could read what the other wrote."""
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))
    _begun()
    with (
        pytest.raises(InvalidInputError, match=r"use run\.save\(\)"),
        train.checkpoint() as content,
    ):
        content["step"] = 1
    assert not list(tmp_path.iterdir())
