"""Lightning and Accelerate: what a rank without samples counts, and damaged checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import TensorDataset

from treadle.core.errors import InvalidInputError


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
