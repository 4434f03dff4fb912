"""The order of one pass over a DataLoader, and one rank's share of its batches.

The loader's own sampler decides the order, on rank 0, with the random numbers that it would have
drawn without us: so the batches are those of the script alone. The ranks take contiguous shares of
each batch.

Ranks have random numbers of their own, so that they do not drop the same units. With the first
growth the numbers for loaders become a stream apart, which all ranks have and draw from equally:
whichever of them is rank 0 later, the batches do not change.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from treadle.train.data import Share, shares

PEEK = 8  # samples of a batch that only stands for those of an epoch that is over

Batches = list[list[Any]]
whole = DataLoader.__iter__  # as it is without us


class Order:
    """The batches of one pass; kept, so that newcomers and resumed runs go on in it."""

    def __init__(self) -> None:
        self.number = -1  # of the pass
        self.batches: Batches = []
        self.partial = 0  # optimizer steps applied of the batch that is next
        self.random: Tensor | None = None  # the stream for loaders, where it is apart
        self.data: tuple[int, int] | None = None  # samples and batch size of the pass

    def state_dict(self) -> dict[str, Any]:
        packed = _packed(self.batches)
        own = {"number": self.number, "partial": self.partial, "random": self.random}
        return {**own, "batches": packed, "data": self.data}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number, self.partial = state["number"], state["partial"]
        self.batches = _unpacked(state["batches"])
        self.random = state["random"]
        self.data = state.get("data")  # Older checkpoints do not say it.

    def begin(self, number: int, batches: Batches, loader: DataLoader[Any]) -> None:
        """A pass, as this process has drawn it."""
        self.number, self.batches, self.data = number, batches, _data_of(loader)

    def difference(self, loader: DataLoader[Any]) -> str:
        """How a loader's data differ from those of the pass; empty if they do not."""
        ours, theirs = _data_of(loader), self.data
        if theirs is None or ours == theirs:
            return ""
        return (
            f"the DataLoader has {ours[0]} samples in batches of {ours[1]} here, and {theirs[0]} "
            f"in batches of {theirs[1]} where the run began this pass; the data must stay the same "
            "while a run changes its members or resumes: samples would come twice, or never"
        )

    def split(self) -> None:
        """Let loaders draw from a stream of their own from now on."""
        if self.random is None:
            self.random = torch.get_rng_state()

    @contextmanager
    def drawing(self, *, counts: bool = True) -> Iterator[None]:
        """Draw for a loader; counts: the stream goes on from there."""
        if self.random is None:
            yield
            return
        private = torch.get_rng_state()
        torch.set_rng_state(self.random)
        try:
            yield
        finally:
            if counts:
                self.random = torch.get_rng_state()
            torch.set_rng_state(private)


def _data_of(loader: DataLoader[Any]) -> tuple[int, int]:
    dataset: Any = loader.dataset
    return len(dataset), loader.batch_size or 0


def draw(loader: DataLoader[Any]) -> Batches:
    """The order of a pass, as the loader itself would draw it."""
    # A loader first draws a seed for its workers.
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    sampler: Any = loader.batch_sampler
    return [list(batch) for batch in sampler]


def stream(
    loader: DataLoader[Any], batches: Batches, first: int, *, rank: int, size: int
) -> Iterator[tuple[int, Share, Any]]:
    """Number, share and content of each batch of one rank, from one on."""
    numbers = range(first, len(batches))
    cut = [shares(batches[number], rank, size, len(batches[number])) for number in numbers]
    own = [each[0] for each in cut]
    private = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
    inner: DataLoader[Any] = DataLoader(
        loader.dataset,
        batch_sampler=[list(share.indices) for share in own],
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=private,  # not the script's: it has drawn what it would have drawn
        prefetch_factor=loader.prefetch_factor,
    )
    yield from zip(numbers, own, whole(inner), strict=True)


def peek(loader: DataLoader[Any], batches: Batches | None = None) -> Any:  # noqa: ANN401
    """One small batch, so that a loop over an epoch that is over has seen one."""
    sampler: Any = loader.batch_sampler
    if sampler is None or not hasattr(loader.dataset, "__getitem__"):
        return next(iter(whole(loader)))
    first = batches[0] if batches else next(iter(sampler))
    return loader.collate_fn([loader.dataset[index] for index in islice(first, PEEK)])


def _packed(batches: Batches) -> Any:  # noqa: ANN401
    """Numbers as one tensor: a million of them travel in a moment."""
    if all(type(index) is int for batch in batches for index in batch):
        flat = torch.tensor([index for batch in batches for index in batch], dtype=torch.int64)
        return flat, torch.tensor([len(batch) for batch in batches], dtype=torch.int64)
    return batches


def _unpacked(packed: Any) -> Batches:  # noqa: ANN401
    if not (isinstance(packed, tuple) and isinstance(packed[0], Tensor)):
        return list(packed)
    flat, sizes = packed[0].tolist(), packed[1].tolist()
    found, done = [], 0
    for size in sizes:
        found.append(flat[done : done + size])
        done += size
    return found
