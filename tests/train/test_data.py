"""Which rank takes which samples, and what a loop may do with its batches."""

import os
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from treadle import train
from treadle.core.errors import InvalidInputError
from treadle.train.data import Batch, Data, permutation, shares
from treadle.train.session import Run

CPU = torch.device("cpu")


@given(
    count=st.integers(1, 50), size=st.integers(1, 9), micro=st.integers(1, 60), seed=st.integers()
)
def test_shares_cover_a_batch_once_and_weigh_1(
    count: int, size: int, micro: int, seed: int
) -> None:
    batch = permutation(count, seed, 0)
    taken: list[int] = []
    weight = 0.0
    for rank in range(size):
        pieces = shares(batch, rank, size, micro)
        assert pieces[0].first
        assert pieces[-1].last
        assert sum(piece.first for piece in pieces) == sum(piece.last for piece in pieces) == 1
        assert all(1 <= len(piece.indices) <= micro for piece in pieces)
        own = [index for piece in pieces for index in piece.counted]
        assert count // size <= len(own) <= -(-count // size)
        taken += own
        weight += sum(piece.weight for piece in pieces)
    assert Counter(taken) == Counter(range(count))
    assert weight == pytest.approx(1.0)


def test_epochs_have_orders_of_their_own_and_seeds_too() -> None:
    orders = {tuple(permutation(20, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
    assert permutation(20, 1, 1) == permutation(20, 1, 1)


def _data(dataset: object, **options: int) -> Data:
    given = {"batch_size": 4, "seed": 0, "micro_batch": 4, **options}
    return Data(dataset, device=CPU, **given)  # type: ignore[arg-type]


def test_a_loader_brings_its_dataset_its_collate_function_and_its_workers() -> None:
    def collate(items: list[tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack([item[0] for item in items]) * 10, torch.zeros(len(items))

    loader = DataLoader(TensorDataset(torch.arange(8.0)), collate_fn=collate, batch_size=2)
    data = _data(loader)
    batches = list(data.stream(0, 1, 0, 1))
    assert len(batches) == 1, "it begins at the second step"
    assert batches[0].x.tolist() == [10.0 * index for index in batches[0].indices]


def test_workers_of_a_loader_survive_a_change_and_fetch_what_is_asked() -> None:
    loader = DataLoader(TensorDataset(torch.arange(12.0)), num_workers=1, batch_size=2)
    data = _data(loader)
    stream = data.stream(0, 0, 0, 1)
    first = next(stream)
    rest = list(data.stream(0, 1, 0, 2)) + list(data.stream(0, 1, 1, 2))
    for batch in [first, *rest]:
        assert batch[0].tolist() == [float(index) for index in batch.indices]
    assert sorted(i for batch in [first, *rest] for i in batch.indices) == list(range(12))


def test_a_loader_that_drops_short_batches_still_does() -> None:
    loader = DataLoader(TensorDataset(torch.arange(11.0)), batch_size=4, drop_last=True)
    data = _data(loader)
    assert data.steps == 2
    taken = [index for batch in data.stream(0, 0, 0, 1) for index in batch.indices]
    assert len(taken) == len(set(taken)) == 8


SAMPLES = TensorDataset(torch.arange(8.0))


@pytest.mark.parametrize(
    ("loader", "what"),
    [
        (DataLoader(SAMPLES, sampler=WeightedRandomSampler([1.0] * 8, 8)), "WeightedRandomSampler"),
        (DataLoader(SAMPLES, sampler=RandomSampler(SAMPLES, replacement=True)), "replacement"),
        (DataLoader(SAMPLES, batch_sampler=[[0, 1], [2, 3]]), "list as its batch_sampler"),
        (DataLoader(SAMPLES, batch_size=None), "batch_size=None"),
    ],
)
def test_a_loader_with_an_order_of_its_own_is_refused(loader: DataLoader[Any], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        _data(loader)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in list(os.environ):
        if name.startswith("TREADLE_") or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    return train.start()


def _prepared(run: Run, **options: Any) -> tuple[nn.Linear, torch.optim.SGD, Data]:
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    dataset = TensorDataset(torch.ones(8, 1), torch.ones(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return run.prepare(model, optimizer, dataset, batch_size=8, **options)


def _train(run: Run, model: nn.Linear, optimizer: torch.optim.SGD, data: Data, epochs: int) -> int:
    passes = 0
    for _ in run.epochs(epochs):
        for batch in run.batches(data):
            optimizer.zero_grad()  # as people write it; it must not clear what accumulates
            run.backward(nn.functional.mse_loss(model(batch.x), batch.y))
            run.step(optimizer)
            passes += 1
    return passes


def test_passes_of_a_step_add_up_to_the_same_gradient(run: Run) -> None:
    whole = _prepared(run)
    assert _train(run, *whole, epochs=3) == 3
    other = Run()
    pieces = _prepared(other, micro_batch=3)
    assert _train(other, *pieces, epochs=3) == 9
    assert pieces[0].weight.item() == pytest.approx(whole[0].weight.item())
    assert other.loss == pytest.approx(run.loss)


def test_a_batch_without_a_step_is_refused(run: Run) -> None:
    model, _, data = _prepared(run)

    def loop() -> None:
        for _ in run.epochs(1):
            for batch in run.batches(data):
                run.backward(model(batch.x).mean())

    with pytest.raises(InvalidInputError, match=r"run.step\(optimizer\) was not called"):
        loop()


def test_a_step_without_its_backward_is_refused(run: Run) -> None:
    model, optimizer, data = _prepared(run)

    def loop() -> None:
        for _ in run.epochs(1):
            for batch in run.batches(data):
                model(batch.x).mean().backward()
                run.step(optimizer)

    with pytest.raises(InvalidInputError, match=r"needs run.backward\(loss\) before it"):
        loop()


def test_a_loop_that_breaks_goes_on_with_the_next_epoch(run: Run) -> None:
    model, optimizer, data = _prepared(run)
    seen = []
    for epoch in run.epochs(3):
        seen.append(epoch)
        for batch in run.batches(data):
            run.backward(model(batch.x).mean())
            run.step(optimizer)
            break
        if epoch == 1:
            break
    assert seen == [0, 1]


def test_a_newcomer_warms_up_with_its_own_share_of_a_batch(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch of all ranks may not fit its device."""
    monkeypatch.setenv("TREADLE_ASKED", "4")
    seen = []

    def rehearse(model: nn.Module, batch: Batch) -> torch.Tensor:
        seen.append(len(batch.x))
        loss: torch.Tensor = model(batch.x).mean()
        return loss

    _prepared(run, rehearse=rehearse)
    run._warm_up()
    _prepared(run, rehearse=rehearse, micro_batch=1)
    run._warm_up()
    assert seen == [2, 1]


def test_a_plan_that_splits_the_model_refuses_a_gradient_scaler(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch says nothing of plans; and gradients that were not scaled must not be unscaled."""
    monkeypatch.setenv("TREADLE_PLAN", "zero-3")
    run.keep(scaler=torch.amp.GradScaler("cpu"))
    prepared = _prepared(run)
    with pytest.raises(InvalidInputError, match="a gradient scaler needs whole gradients"):
        _train(run, *prepared, epochs=1)


class Augmented(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(3) + index


def test_to_announce_a_model_draws_no_random_number() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1).item()
    torch.manual_seed(0)
    assert _data(Augmented()).sequence() == 1
    assert torch.rand(1).item() == expected
