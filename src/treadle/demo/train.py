"""A small real training job for the demo: PyTorch, data parallel, with checkpoints.

It needs only the standard library and torch, and follows Treadle's contract for resumable jobs: on
SIGTERM all ranks agree on a step, rank 0 writes a checkpoint to TREADLE_CHECKPOINT_DIR, and all
ranks exit with code 143. Started again, with any number of ranks, it continues from the checkpoint.
The batch is divided among the ranks, so more ranks mean shorter steps and the same training.

    python train.py STEPS WIDTH
"""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from torch import Tensor, nn

BATCH = 128
CLASSES = 8
PIXELS = 16
STOPPED = 143  # the exit code after SIGTERM, as in a shell
SEED = 7


def main() -> int:
    steps, width = int(sys.argv[1]), int(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    stop = _Stop()
    device = _device()
    torch.manual_seed(SEED)
    model = _model(width).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoint = Path(os.environ.get("TREADLE_CHECKPOINT_DIR", ".")) / "checkpoint.pt"
    first = _resume(checkpoint, model, optimiser, device)
    if ranks > 1:
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=60))
    if rank == 0:
        print(f"{'resumed' if first else 'started'} at step {first} with {ranks} ranks", flush=True)
    for step in range(first, steps):
        loss = _train(model, optimiser, step, rank, ranks, device)
        if rank == 0:
            print(f"step {step + 1}/{steps} loss {loss:.4f}", flush=True)
        if _agreed(stop.wanted, ranks, device):
            if rank == 0:
                _save(checkpoint, model, optimiser, step + 1)
                print(f"stopped at step {step + 1}", flush=True)
            return STOPPED
    return 0


class _Stop:
    """Whether this process was asked to stop."""

    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.wanted = True


def _device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.set_num_threads(1)
    return torch.device("cpu")


def _model(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(width * 16, CLASSES),
    )


def _batch(step: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    """This rank's part of a step's pictures: noise, brighter in one stripe, which is the class."""
    draw = torch.Generator().manual_seed(SEED + step)
    labels = torch.randint(CLASSES, (BATCH,), generator=draw)
    pictures = torch.randn(BATCH, 3, PIXELS, PIXELS, generator=draw)
    stripe = PIXELS // CLASSES
    for label in range(CLASSES):
        rows = slice(label * stripe, (label + 1) * stripe)
        pictures[labels == label, :, rows, :] += 0.7
    return pictures[rank::ranks], labels[rank::ranks]


def _train(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    step: int,
    rank: int,
    ranks: int,
    device: torch.device,
) -> float:
    pictures, labels = _batch(step, rank, ranks)
    losses = nn.functional.cross_entropy(
        model(pictures.to(device)), labels.to(device), reduction="sum"
    )
    loss: Tensor = losses / BATCH
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if ranks > 1:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    optimiser.step()
    return float(loss.detach()) * ranks


def _agreed(wanted: bool, ranks: int, device: torch.device) -> bool:
    """Whether any rank was asked to stop; all ranks get the same answer at the same step."""
    if ranks == 1:
        return wanted
    flag = torch.tensor([float(wanted)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def _resume(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device
) -> int:
    if not path.exists():
        return 0
    saved = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    optimiser.load_state_dict(saved["optimiser"])
    return int(saved["step"])


def _save(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, step: int) -> None:
    draft = path.with_suffix(".part")
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}
    torch.save(state, draft)
    draft.replace(path)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Not sys.exit: the process group of a rank that exited early may block the interpreter.
    os._exit(code)
