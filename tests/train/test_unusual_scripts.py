"""Scripts that do what most do not, and mistakes that must not pass unnoticed."""

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.train.harness import Event, Result, Scenario, run
from treadle.train.stop import StopSignal

HEAD = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset
from treadle import train
from treadle.train.orders import Next

torch.manual_seed(0)
x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
samples = TensorDataset(x, x.sum(1, keepdim=True))
run = train.start(timeout_s=20.0)
"""
LOOP = """
for epoch in run.epochs({epochs}):
    for batch in run.batches(data):
        loss = ((model(batch.x) - batch.y) ** 2).mean()
        run.backward(loss)
        run.step(optimizer)
        {more}
        say(step=run.step_count, size=run.size, loss=run.loss)
        # The first member waits for the order that the test gives.
        while place == "a" and run.elastic and run.step_count == {held} and run.size == 1:
            orders = run.elastic._orders
            if run.elastic._channel.wait(lambda: orders.pending or Next.WAIT):
                break
"""
LINEAR = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
PREPARE = "model, optimizer, data = run.prepare(model, optimizer, samples, batch_size=8)\n"


def _run(folder: Path, text: str, start: str, *events: Event) -> Result:
    script = folder / "script.py"
    script.write_text(HEAD + text)
    return run(Scenario("scripted", tuple(start), list(events), {"file": str(script)}))


def test_gradients_that_come_in_parts_are_added_up_when_all_are_there(tmp_path: Path) -> None:
    """A layer that reentrant checkpoints share gets its gradient once for each of them."""
    text = """
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.shared, self.outer = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    def forward(self, x):
        x = self.inner(x)
        for _ in range(3):
            x = checkpoint(lambda y: torch.tanh(self.shared(y)), x, use_reentrant=True)
        return self.outer(x)
model = Shared()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    text += PREPARE + LOOP.format(epochs=3, more="", held=0)
    alone, both = _run(tmp_path, text, "a"), _run(tmp_path, text, "ab")
    assert both.ended["finished"], both.errors
    losses = {row["step"]: row["loss"] for row in alone.rows}
    assert len(losses) == 12
    assert {row["step"]: row["loss"] for row in both.rows} == pytest.approx(losses, abs=2e-5)


def test_a_newcomer_with_other_data_is_refused(tmp_path: Path) -> None:
    """Files were added since the run began: samples would come twice, or never."""
    text = "if place == 'b': samples = TensorDataset(torch.ones(40, 4), torch.ones(40, 1))\n"
    text = LINEAR + text + PREPARE + LOOP.format(epochs=9, more="", held=5)
    result = _run(tmp_path, text, "a", Event(5, ("a", "b")))
    assert "samples is 40 here and was 32 when the run began" in result.errors
    assert result.codes["m0"] == 0
    assert max(row["step"] for row in result.rows) == 36


def test_a_learning_rate_that_a_newcomer_does_not_have_ends_the_run(tmp_path: Path) -> None:
    text = LINEAR + "count = 0\n" + PREPARE
    more = "count += 1; optimizer.param_groups[0]['lr'] = 0.01 / count"
    text += LOOP.format(epochs=9, more=more, held=5)
    result = _run(tmp_path, text, "a", Event(5, ("a", "b")))
    assert "the ranks differ after step" in result.errors
    assert max(row["step"] for row in result.rows if row["size"] == 2) < 9 * 4  # of all steps


def test_a_scheduler_that_would_not_move_along_is_refused(tmp_path: Path) -> None:
    text = LINEAR + "decay = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n" + PREPARE
    result = _run(tmp_path, text + LOOP.format(epochs=1, more="run.step(decay)", held=0), "a")
    assert "run.step got a StepLR that would not move along" in result.errors
    assert result.rows == []


def test_a_process_that_the_script_forked_ends_by_the_signal() -> None:
    """It inherits the handler; `Process.terminate` and `Pool` would wait for it for ever."""
    ours, theirs = multiprocessing.Pipe()
    stop = StopSignal()
    before = signal.getsignal(signal.SIGTERM)
    stop.install()
    try:
        held = multiprocessing.get_context("fork").Process(target=_answer, args=(theirs,))
        held.start()
        ours.recv()  # A signal that comes in the middle of a fork is lost.
        held.terminate()
        held.join(10)
        ended = held.exitcode
        ours.send("end in any case")
        held.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == -signal.SIGTERM
    assert not stop.asked


def _answer(line: Connection) -> None:
    line.send("here")
    line.recv()
