"""Lightning: a callback that stops with a checkpoint, and a loader that goes on within an epoch.

In the script:

    loader = ResumableLoader(dataset, batch_size=32, seed=0)
    trainer = Trainer(..., callbacks=[StopCallback()], use_distributed_sampler=False)
    trainer.fit(model, loader, ckpt_path=last_checkpoint())
"""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import Callback
from torch.utils.data import DataLoader, Dataset

from treadle.report import report
from treadle.train.checkpoint import folder, is_url, place
from treadle.train.data import Share, permutation, shares
from treadle.train.random_numbers import random_state, set_random_state
from treadle.train.stop import leave, should_stop
from treadle.train.url_checkpoints import opened

NAME = "lightning.ckpt"


class StopCallback(Callback):
    """When the job is asked to stop: a checkpoint in one piece, then the end of the process."""

    def __init__(self) -> None:
        self._random: dict[str, Any] | None = None

    def on_train_batch_start(self, trainer: Any, *_more: Any) -> None:  # noqa: ANN401
        # Not when it is loaded: what is built after that draws random numbers too.
        if self._random is not None:
            set_random_state(self._random, trainer.strategy.root_device)
            self._random = None

    def on_before_backward(self, trainer: Any, _module: Any, loss: torch.Tensor) -> None:  # noqa: ANN401
        """Let each sample of a batch count the same, since DDP lets each rank count the same.

        A rank for which a short last batch has no sample was given one, which counts nothing.
        """
        weight = getattr(trainer.train_dataloader, "weight", 1.0)
        if weight != 1.0:
            loss.mul_(weight)

    def on_train_batch_end(self, trainer: Any, *_more: Any) -> None:  # noqa: ANN401
        if trainer.is_global_zero:
            report(trainer.global_step)
        if not should_stop():
            return
        if is_url(place()):  # What is written there appears at once.
            trainer.save_checkpoint(f"{place()}/{NAME}")
            trainer.strategy.barrier()
        else:
            path = folder() / NAME
            draft = path.with_suffix(".part")
            trainer.save_checkpoint(draft)
            trainer.strategy.barrier()
            if trainer.is_global_zero:
                draft.replace(path)
        if trainer.is_global_zero:
            report(trainer.global_step, checkpoint=trainer.global_step)
        trainer.strategy.barrier()  # No rank may end while another still writes.
        leave()

    def state_dict(self) -> dict[str, Any]:
        # As a tensor, since checkpoints may be read with `weights_only`.
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        state = pickle.dumps(random_state(device))
        return {"random": torch.frombuffer(bytearray(state), dtype=torch.uint8)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._random = pickle.loads(bytes(state["random"].tolist()))


class ResumableLoader(DataLoader[Any]):
    """A shuffled loader whose place in an epoch is part of the checkpoint.

    The order depends on the seed and the epoch alone, and Lightning says which epoch it is: it
    does not ask for a batch after the last, so the loader cannot count them. batch_size: of all
    ranks together. With several ranks it needs the callback above, which weighs what each has.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        batch_size: int,
        seed: int = 0,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self._batches = _Batches(len(dataset), batch_size, seed)  # type: ignore[arg-type]
        self._taken = 0
        self._resumed = {"epoch": 0, "taken": 0}  # from where the next pass begins
        self.weight = 1.0  # of this rank's share of the batch, where 1 is that of all on average
        super().__init__(dataset, batch_sampler=self._batches, **options)

    def __iter__(self) -> Any:  # noqa: ANN401
        resumed, self._resumed = self._resumed, {"epoch": 0, "taken": 0}
        # A run that was stopped after the last batch of an epoch begins with the next.
        self._taken = resumed["taken"] if resumed["epoch"] == self._batches.epoch else 0
        for content in self._from(self._taken):
            self.weight = self._batches.weight(self._taken)
            self._taken += 1
            yield content

    def _from(self, first: int) -> Iterator[Any]:
        self._batches.start = first
        return super().__iter__()

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._batches.epoch, "taken": self._taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._resumed = state


class _Batches:
    """The batches of one rank in one epoch."""

    def __init__(self, count: int, size: int, seed: int) -> None:
        self.epoch = 0
        self.start = 0  # the first batch of this pass
        self._count, self._size, self._seed = count, size, seed

    @property
    def sampler(self) -> "_Batches":
        """What Lightning tells the epoch."""
        return self

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return (self._count + self._size - 1) // self._size

    def __iter__(self) -> Iterator[list[int]]:
        order = permutation(self._count, self._seed, self.epoch)
        for number in range(self.start, len(self)):
            yield list(self._share(order[number * self._size : (number + 1) * self._size]).indices)

    def weight(self, number: int) -> float:
        """How much this rank's share of a batch counts, where 1 is the mean of all ranks."""
        count = min(self._size, self._count - number * self._size)
        return self._share(range(count)).weight * _place()[1]

    def _share(self, batch: Sequence[int]) -> Share:
        rank, size = _place()
        return shares(batch, rank, size, len(batch))[0]


def _place() -> tuple[int, int]:
    """The rank, and how many there are."""
    joined = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)


def last_checkpoint() -> str | Path | None:
    """The checkpoint to resume from; None at the first start."""
    if is_url(place()):
        files, root = opened(place())
        return f"{place()}/{NAME}" if files.exists(f"{root}/{NAME}") else None
    path = folder() / NAME
    return path if path.exists() else None
