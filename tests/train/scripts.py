"""Training scripts as users write them, run by the members of a test.

Each writes a row for each applied step: which samples it took, and the loss over the whole batch.
"""

import json
import os
import resource
import runpy
import signal
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from treadle import train
from treadle.train.group import Group
from treadle.train.orders import Next

SAMPLES = 60


class Layer(nn.Module):
    """Its weights have the names by which a tensor plan is recognised."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(16, 16) for _ in range(4))
        self.up_proj, self.down_proj = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        normed = self.before(x)
        query, key, value = (
            part(normed).view(batch, length, -1, 4).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.o_proj(seen.transpose(1, 2).reshape(batch, length, -1))
        after: Tensor = self.down_proj(torch.relu(self.up_proj(self.between(x))))
        return x + after


class Transformer(nn.Module):
    """Tiny, without dropout: the arithmetic is the same for any number of ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.head(x)
        return out


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


def _parts(kind: str) -> tuple[nn.Module, TensorDataset, Any]:
    draw = torch.Generator().manual_seed(5)
    torch.manual_seed(1)
    if kind == "transformer":
        tokens = torch.randint(16, (SAMPLES, 8), generator=draw)
        model: nn.Module = Transformer()
        loss = nn.CrossEntropyLoss()
        return (
            model,
            TensorDataset(tokens, tokens.roll(1, 1)),
            lambda out, y: loss(out.flatten(0, 1), y.flatten()),
        )
    images = torch.randn(SAMPLES, 1, 8, 8, generator=draw)
    labels = torch.randint(4, (SAMPLES,), generator=draw)
    return cnn(), TensorDataset(images, labels), nn.CrossEntropyLoss()


def _is_killed(*_words: object, **_options: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def loop(
    said: int,
    place: tuple[str, ...],
    *,
    kind: str = "transformer",
    epochs: int = 4,
    batch: int = 8,
    never_ready: str = "",
    timeout_s: float = 20.0,
    every_s: float = 600.0,
    file_bytes: int = 0,
    fails: str = "",
    save_at: int = 0,
    thaws: int = 0,
    dies_forming: str = "",
) -> None:
    """thaws: the epoch in which the first layer, frozen until then, begins to train.

    dies_forming: the place whose process is killed when the others begin to form a group with it.
    """
    torch.set_num_threads(1)
    if dies_forming in place:
        Group.join = _is_killed  # type: ignore[method-assign]
    if file_bytes:  # stands for a disk that is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if never_ready in place:
        os.read(os.pipe()[0], 1)
    run = train.start(timeout_s=timeout_s, checkpoint_every_s=every_s)
    module, dataset, loss_fn = _parts(kind)
    first = next(iter(module.children()))
    first.requires_grad_(not thaws)
    adam = torch.optim.AdamW(module.parameters(), lr=0.01)
    decay = torch.optim.lr_scheduler.StepLR(adam, 5, 0.9)
    run.keep(scheduler=decay)
    model, optimizer, data = run.prepare(module, adam, dataset, batch_size=batch, seed=3)
    taken: list[int] = []
    for epoch in run.epochs(epochs):
        if thaws and epoch == thaws:
            first.requires_grad_()
        for piece in run.batches(data):
            before = run.step_count
            # With fewer ranks than were asked for, a step has several passes.
            taken = list(piece.indices) if piece.share.first else taken + list(piece.indices)
            loss = loss_fn(model(piece.x), piece.y)
            if fails in place and run.step_count == 30:
                raise ValueError("an error of the user's own")
            run.backward(loss)
            run.step(optimizer)
            run.step(decay)
            if run.step_count == save_at and run.step_count > before:
                run.save()
            row: dict[str, Any] = {
                "step": run.step_count,
                "epoch": epoch,
                "rank": run.rank,
                "size": run.size,
            }
            row |= {"version": run.elastic.version if run.elastic else 0}
            row |= {"member": os.environ.get("TREADLE_MEMBER", ""), "place": place[0]}
            row |= {"samples": taken, "pid": os.getpid(), "plan": run.plan.text}
            row |= {"replica": run._replica()[0]}
            row |= {"applied": run.step_count > before, "loss": float(run._loss_sum)}
            os.write(said, json.dumps(row).encode() + b"\n")
        run.report(loss=loss)
    digest = sum(float(p.detach().double().sum()) for p in model.parameters())
    row = {"final": digest, "rank": run.rank, "rate": decay.get_last_lr()[0]}
    os.write(said, json.dumps(row).encode() + b"\n")


class _Rows:
    """The output of an unmodified script: its rows, with what the run knows of each."""

    def __init__(self, said: int, place: tuple[str, ...], watched: Any, held_at: int) -> None:
        """held_at: the step after which the first member waits for an order to come."""
        self._said, self._place, self._watched = said, place, watched
        self._held_at = held_at

    def write(self, text: str) -> int:
        run = self._watched.run
        if text.startswith("{") and run is not None:
            row = json.loads(text)
            if "i" in row:
                row["loss"] *= run._weight
                row |= {"step": run.step_count, "applied": not run._void}
                row["samples"] = row.get("samples", []) if run._weight else []
            row |= {"rank": run.rank, "size": run.size, "place": self._place[0]}
            row |= {"version": run.elastic.version, "pid": os.getpid()}
            row |= {"member": os.environ["TREADLE_MEMBER"]}
            os.write(self._said, json.dumps(row).encode() + b"\n")
            orders = run.elastic._orders
            while row["member"] == "m0" and row.get("step") == self._held_at:
                if run.elastic._channel.wait(lambda: orders.pending or Next.WAIT):
                    break
        return len(text)

    def flush(self) -> None:
        pass


def unmodified(
    said: int,
    place: tuple[str, ...],
    *,
    script: str,
    words: list[str],
    timeout_s: float = 20.0,
    held_at: int = -1,
) -> None:
    """`python -m treadle.train.auto SCRIPT WORDS`."""
    from treadle.train.auto.__main__ import run
    from treadle.train.auto.patches import Watched

    watched = Watched(timeout_s=timeout_s)
    sys.stdout = _Rows(said, place, watched, held_at)
    run(watched, [script, *words])


def scripted(said: int, place: tuple[str, ...], *, file: str) -> None:
    """A script of a test's own; it says rows with `say`."""
    torch.set_num_threads(1)

    def say(**row: Any) -> None:
        os.write(said, json.dumps({"place": place[0], **row}).encode() + b"\n")

    runpy.run_path(file, {"say": say, "place": place[0]})
