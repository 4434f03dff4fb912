"""Which samples a rank takes at each step, for any number of ranks.

Epoch e is one permutation of all samples, drawn from (seed, e). Step s of it takes the places
[s * batch, (s + 1) * batch) of that permutation, and the ranks take contiguous shares of those. So
the batch of a step does not depend on the number of ranks, and each sample comes exactly once in an
epoch, whatever changes in its middle. The last batch may be short; it is dropped only if the
script's own loader says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from treadle.core.errors import InvalidInputError
from treadle.train.loader_settings import settings_of
from treadle.train.random_numbers import random_state, set_random_state


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank takes in one pass: indices, and their part of the whole batch."""

    indices: tuple[int, ...]
    counted: tuple[int, ...]  # less those that are there only so that the rank has something
    weight: float
    first: bool  # of its step, on this rank
    last: bool


class Batch:
    """One batch of this rank: `batch.x` and `batch.y`, or the fields of a dict by name."""

    def __init__(self, content: Any, share: Share) -> None:  # noqa: ANN401
        self.content = content
        self.share = share

    @property
    def indices(self) -> tuple[int, ...]:
        """The samples of the dataset that this batch consists of."""
        return self.share.counted

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        content = self.content
        if isinstance(content, dict) and name in content:
            return content[name]
        if isinstance(content, tuple | list) and name in ("x", "y"):
            return content[("x", "y").index(name)]
        if name == "x":
            return content
        raise AttributeError(f"this batch has no {name}; it is a {type(content).__name__}")

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        return self.content[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.content)


class Data:
    """A dataset, cut into batches of a fixed size over all ranks."""

    def __init__(
        self,
        dataset: Dataset[Any] | DataLoader[Any],
        *,
        batch_size: int,
        seed: int,
        micro_batch: int,
        device: torch.device,
    ) -> None:
        samples, self.drop_last, workers, options = settings_of(dataset)
        if isinstance(samples, IterableDataset) or not hasattr(samples, "__len__"):
            raise InvalidInputError(
                "a dataset without a length cannot be shared out: give one with __len__ and "
                "__getitem__"
            )
        if batch_size < 1:
            raise InvalidInputError(f"batch_size must be at least 1, not {batch_size}")
        self.dataset = samples
        self.count = len(samples)
        if self.drop_last and self.count < batch_size:
            raise InvalidInputError(
                f"the DataLoader drops short batches (drop_last), and its {self.count} samples "
                f"are fewer than batch_size {batch_size}: no step would be left"
            )
        self.batch_size = batch_size
        self.seed = seed
        self.micro_batch = micro_batch
        self._device = device
        self.pieces = 1  # passes of a step at least, as the plan says
        self._shares: Iterator[Share] = iter(())
        self._upcoming: list[Share] = []
        self._loader: DataLoader[Any] = DataLoader(
            samples,
            batch_sampler=_Indices(self),
            num_workers=workers,
            pin_memory=device.type == "cuda",
            persistent_workers=workers > 0,  # a change of the group does not start them again
            **options,
        )

    def sequence(self) -> int:
        """The length of a sample, if it is a row of tokens; else 1.

        To look at one draws no random number that the training would have drawn.
        """
        before = random_state(self._device)
        try:
            sample = self.dataset[0]
        except (LookupError, TypeError, ValueError, OSError):
            return 1
        finally:
            set_random_state(before, self._device)
        values = sample.values() if isinstance(sample, dict) else sample
        if isinstance(values, Tensor):
            values = (values,)
        for value in values if hasattr(values, "__iter__") else ():
            if isinstance(value, Tensor) and value.dim() == 1 and not value.is_floating_point():
                return max(1, len(value))
        return 1

    def state_dict(self) -> dict[str, int]:
        """By what the samples of each step are chosen."""
        counts = {"samples": self.count, "batch_size": self.batch_size, "seed": self.seed}
        return {**counts, "drop_last": int(self.drop_last)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Refuse to go on with other data: samples would come twice, or never."""
        ours = self.state_dict()
        for name, theirs in state.items():
            if ours[name] != theirs:
                raise InvalidInputError(
                    f"{name} is {ours[name]} here and was {theirs} when the run began; it must "
                    "stay the same while a run changes its members or resumes from a checkpoint"
                )

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        short = self.count % self.batch_size > 0 and not self.drop_last
        return self.count // self.batch_size + short

    def stream(self, epoch: int, step: int, rank: int, size: int) -> Iterator[Batch]:
        """The batches of one rank from a step on to the end of the epoch."""
        order = permutation(self.count, self.seed, epoch)
        self._shares = self._cut(order, step, rank, size)
        self._upcoming = []
        for content in self._loader:
            yield Batch(_to(content, self._device), self._upcoming.pop(0))

    def _cut(self, order: Sequence[int], step: int, rank: int, size: int) -> Iterator[Share]:
        for number in range(step, self.steps):
            batch = order[number * self.batch_size : (number + 1) * self.batch_size]
            yield from shares(batch, rank, size, self.micro_batch, self.pieces)


class _Indices:
    """A batch sampler that remembers what it handed out: loaders fetch ahead."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def __iter__(self) -> Iterator[list[int]]:
        for share in self._data._shares:
            self._data._upcoming.append(share)
            yield list(share.indices)


def permutation(count: int, seed: int, epoch: int) -> list[int]:
    """The order of the samples in an epoch."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order


def shares(
    batch: Sequence[int], rank: int, size: int, micro_batch: int, pieces: int = 1
) -> list[Share]:
    """One rank's part of a batch, in pieces of at most `micro_batch`; parts differ by 1 at most.

    All ranks have the same number of pieces: where a model is sharded, each pass is a collective.
    A rank without samples for a piece takes one with the weight 0.
    """
    begin, end = len(batch) * rank // size, len(batch) * (rank + 1) // size
    own, most = batch[begin:end], -(-len(batch) // size)
    count = max(-(-most // micro_batch), min(pieces, most))
    cuts = [len(own) * piece // count for piece in range(count + 1)]
    return [
        Share(
            tuple(own[low:high]) or (batch[0],),
            tuple(own[low:high]),
            (high - low) / len(batch),
            first=number == 0,
            last=number == count - 1,
        )
        for number, (low, high) in enumerate(pairwise(cuts))
    ]


def _to(content: Any, device: torch.device) -> Any:  # noqa: ANN401
    """The same content on a device."""
    if isinstance(content, Tensor):
        return content.to(device, non_blocking=True)
    if isinstance(content, dict):
        return {key: _to(value, device) for key, value in content.items()}
    if isinstance(content, tuple | list):
        moved = [_to(value, device) for value in content]
        return type(content)(*moved) if hasattr(content, "_fields") else type(content)(moved)
    return content
