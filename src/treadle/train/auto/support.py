"""What cannot be shared out, found before the first step, each with one sentence."""

import sys
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from treadle.train.auto.made import Made
from treadle.train.stop import exit_now

REFUSED = 2  # the exit code
USE_LIBRARY = "use treadle.train in the script (docs/train.md)"


def refuse(why: str) -> NoReturn:
    """End this process with one sentence. Not an exception: the script might catch it."""
    say(f"refused: {why}")  # failures/rules.yaml knows these words
    exit_now(REFUSED)


def say(text: str) -> None:
    sys.stderr.write(f"treadle.train.auto: {text}\n")


def problem(loader: DataLoader[Any], made: Made, *, again: bool = False) -> str:
    """Why this training loop cannot be shared out; empty if it can be.

    again: the run has begun, and the process group is its own.
    """
    group = "" if again else _of_group()
    for found in (_of_loader(loader), group, _of_models(made), _of_losses(made)):
        if found:
            return found
    return ""


def notes(made: Made) -> list[str]:
    """What is another thing with several ranks, although it works."""
    if any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in made.modules):
        text = (
            "batch normalisation uses the samples of each rank, so losses depend on the number "
            "of ranks; at the end of each epoch the statistics of rank 0 count"
        )
        return [text]
    return []


def _of_loader(loader: DataLoader[Any]) -> str:
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return (
            f"the DataLoader has an IterableDataset ({type(dataset).__name__}), whose samples "
            "have no numbers to share out; give it a dataset with __len__ and __getitem__"
        )
    if loader.batch_sampler is None:
        return (
            "the DataLoader has batch_size=None, and single items cannot be shared out; give it "
            "the batch size"
        )
    sampler: Any = loader.batch_sampler
    try:
        len(sampler)
    except (TypeError, NotImplementedError):
        return (
            f"the sampler of the DataLoader ({type(sampler).__name__}) has no length; give it "
            "__len__"
        )
    return ""


def _of_group() -> str:
    if dist.is_available() and dist.is_initialized():
        return (
            "the script makes a process group of its own; submit it without --elastic auto, or "
            "take that part out"
        )
    return ""


def _of_models(made: Made) -> str:
    for module in made.modules:
        name = type(module).__name__
        if isinstance(module, nn.DataParallel) or name in (
            "DistributedDataParallel",
            "FullyShardedDataParallel",
        ):
            return (
                f"the model is wrapped in {name}; give the plain model, it is shared out as it is"
            )
    if len({parameter.device for parameter in made.parameters()}) > 1:
        return "the model lies on several devices; " + USE_LIBRARY
    if any(isinstance(each, torch.optim.LBFGS) for each in made.optimizers):
        return (
            "the optimizer LBFGS computes the loss several times in a step; take one without a "
            "closure"
        )
    return ""


def _of_losses(made: Made) -> str:
    for module in made.modules:
        if isinstance(module, nn.modules.loss._Loss) and module.reduction == "sum":
            return (
                f'{type(module).__name__} has reduction="sum", and only a mean over the batch '
                'can be shared out; use reduction="mean"'
            )
    return ""
