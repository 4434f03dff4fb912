"""Lightning and Accelerate: ranks without samples, where a run resumes, damaged checkpoints."""

import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import TensorDataset

from treadle.core.errors import InvalidInputError
from treadle.train.stop import STOPPED


@pytest.fixture
def one_of_two() -> Iterator[None]:
    """This process is rank 0 of two, and sends nothing."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_of_two")
def test_a_rank_without_samples_counts_nothing() -> None:
    lightning = pytest.importorskip("treadle.train.integrations.lightning")
    loader = lightning.ResumableLoader(TensorDataset(torch.arange(5.0)), batch_size=4)
    callback, trainer = lightning.StopCallback(), SimpleNamespace(train_dataloader=loader)
    found = []
    for (content,) in loader:
        weight = torch.ones((), requires_grad=True)
        loss = (weight * torch.ones_like(content)).mean()
        callback.on_before_backward(trainer, None, loss)
        loss.backward()
        assert weight.grad is not None
        found.append((len(content), float(weight.grad)))
    assert found == [(2, 1.0), (1, 0.0)], "the last batch has one sample, which is rank 1's"


def _fit(written: Path, stop_at: int | None) -> None:
    """Three epochs of two batches; the samples of each step are written."""
    import lightning.pytorch as library

    from treadle.train.integrations import lightning

    class Model(library.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            with written.open("a") as file:
                file.write(f"{self.global_step} {sorted(batch[0].flatten().tolist())}\n")
            if self.global_step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            loss: torch.Tensor = self.layer(batch[0]).sum()
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Lightning's, about this machine
    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = library.Trainer(
        max_epochs=3,
        callbacks=[lightning.StopCallback()],
        use_distributed_sampler=False,
        accelerator="cpu",
        **dict.fromkeys(quiet, False),
    )
    loader = lightning.ResumableLoader(TensorDataset(torch.arange(4.0)[:, None]), batch_size=2)
    trainer.fit(Model(), loader, ckpt_path=lightning.last_checkpoint())
    os._exit(0)


@pytest.mark.parametrize("stop_at", [2, 3, 5])
def test_lightning_resumes_within_an_epoch_at_its_end_and_after_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    """A stop order that came with the last batch of an epoch cost the whole next one."""
    pytest.importorskip("lightning.pytorch")
    lightning = pytest.importorskip("treadle.train.integrations.lightning")
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))
    codes = []
    for stop in (stop_at, None):
        fits = multiprocessing.get_context("fork").Process(
            target=_fit, args=(tmp_path / "steps", stop)
        )
        fits.start()
        fits.join()
        codes.append(fits.exitcode)
    assert codes == [STOPPED, 0]
    loader = lightning.ResumableLoader(TensorDataset(torch.arange(4.0)[:, None]), batch_size=2)
    batches = []
    for epoch in range(3):
        loader.batch_sampler.set_epoch(epoch)
        batches += [content for (content,) in loader]
    wanted = [f"{n} {sorted(each.flatten().tolist())}" for n, each in enumerate(batches)]
    assert (tmp_path / "steps").read_text().splitlines() == wanted
    assert wanted[0] != wanted[2].replace("2 ", "0 ", 1), "each epoch has an order of its own"


@pytest.mark.parametrize("harmed", ["model.safetensors", "optimizer.bin", "position.json"])
def test_a_damaged_checkpoint_of_accelerate_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harmed: str
) -> None:
    accelerate = pytest.importorskip("accelerate")
    from treadle.train.integrations.accelerate import resumed, save

    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path))
    accelerator = accelerate.Accelerator(cpu=True)
    model = nn.Linear(2, 2)
    accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for batch in (1, 2):
        save(accelerator, epoch=0, batch=batch)
    path = tmp_path / "accelerate-00000001" / harmed
    path.write_bytes(path.read_bytes()[:20])
    assert resumed(accelerator) == {"epoch": 0, "batch": 1}
    (tmp_path / "accelerate-00000000" / "position.json").unlink()
    with pytest.raises(InvalidInputError, match="can be read; remove them"):
        resumed(accelerator)
