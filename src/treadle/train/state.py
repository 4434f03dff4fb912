"""All that a training run consists of, as one value: to broadcast it, and to keep it on disk.

Model, optimizer, what was given to `run.keep` (schedulers, scalers, averages), the position in the
data, and the random numbers. Tensors travel in large pieces; the rest is a small document.
"""

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from treadle.core.errors import InvalidInputError
from treadle.train.group import Group
from treadle.train.random_numbers import random_state, set_random_state

PIECE_BYTES = 32 << 20


@dataclass(slots=True)
class Position:
    """How far the training is."""

    epoch: int = 0
    offset: int = 0  # steps applied in this epoch
    applied: int = 0  # steps applied in all


class Kept(Protocol):
    """Anything whose state can be read and set."""

    def state_dict(self) -> Any: ...  # noqa: ANN401

    def load_state_dict(self, state: Any) -> Any: ...  # noqa: ANN401


@dataclass(slots=True)
class State:
    """What moves along when a run changes its members, and where it lives."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    kept: dict[str, Kept]
    position: Position
    data: Kept | None = None  # what the position counts

    def read(self, device: torch.device) -> dict[str, Any]:
        """Everything as one document. Its tensors are the live ones, not copies."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            **self.rest(device),
        }

    def rest(self, device: torch.device) -> dict[str, Any]:
        """All but the model and the state of its parameters: it is small."""
        return {
            "groups": [
                {name: value for name, value in group.items() if name != "params"}
                for group in self.optimizer.param_groups
            ],
            "members": self._members(),
            # A newcomer has not run the lines that froze or thawed parts of the model.
            "trains": {name: p.requires_grad for name, p in self.model.named_parameters()},
            "kept": {name: kept.state_dict() for name, kept in self.kept.items()},
            "position": asdict(self.position),
            "data": None if self.data is None else self.data.state_dict(),
            "random": random_state(device),
        }

    def write(self, document: dict[str, Any], device: torch.device, *, exact: bool) -> None:
        """Take over such a document; exact: with its random numbers, for one rank alone."""
        self.write_rest(document, device, exact=exact)
        self.model.load_state_dict(document["model"])
        self.optimizer.load_state_dict(document["optimizer"])

    def _members(self) -> list[list[str | None]]:
        """The names of the parameters in each group of the optimizer."""
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        return [[names.get(each) for each in g["params"]] for g in self.optimizer.param_groups]

    def _add_groups(self, document: dict[str, Any]) -> None:
        """Groups that the script added in its loop: a newcomer has not run those lines."""
        ours, theirs = len(self.optimizer.param_groups), len(document["groups"])
        parameters = dict(self.model.named_parameters())
        members = document.get("members", [])[ours:]  # Older checkpoints do not say it.
        if ours + len(members) != theirs or any(n not in parameters for m in members for n in m):
            raise InvalidInputError(
                f"the optimizer has {ours} parameter groups and the state that it is to take over "
                f"{theirs}; groups that are added in the loop can only have parameters of the "
                "model: add all others before run.prepare"
            )
        for options, names in zip(document["groups"][ours:], members, strict=True):
            added = {"params": [parameters[name] for name in names], **options}
            self.optimizer.add_param_group(added)

    def write_rest(self, document: dict[str, Any], device: torch.device, *, exact: bool) -> None:
        """Take over what `rest` gave."""
        self._check_data(document)
        self._add_groups(document)
        for group, saved in zip(self.optimizer.param_groups, document["groups"], strict=True):
            group.update(saved)
        trains = document.get("trains", {})  # Older checkpoints do not say it.
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(trains.get(name, parameter.requires_grad))
        for name, state in document["kept"].items():
            if name in self.kept:
                self.kept[name].load_state_dict(state)
        for name, value in document["position"].items():
            setattr(self.position, name, value)
        if exact:
            set_random_state(document["random"], device)

    def _check_data(self, document: dict[str, Any]) -> None:
        saved = document.get("data")  # Older checkpoints do not say it.
        if self.data is not None and saved is not None:
            self.data.load_state_dict(saved)


def send(document: dict[str, Any], group: Group) -> None:
    """Broadcast a document from this rank."""
    tensors: list[Tensor] = []
    text = _Pickler.dumps(document, tensors)
    shapes = [(tensor.dtype, tuple(tensor.shape), tensor.device.type) for tensor in tensors]
    _broadcast_bytes(pickle.dumps((text, shapes)), group, group.rank)
    for piece in _pieces(tensors):
        flat = torch.cat([tensor.detach().reshape(-1).to(group.device) for tensor in piece])
        group.broadcast(flat, group.rank)


def receive(group: Group, source: int, *, keep: bool) -> dict[str, Any]:
    """A document that another rank broadcasts; keep: not only to take part in the broadcast."""
    text, shapes = pickle.loads(_broadcast_bytes(b"", group, source))
    places = {"cuda": group.device, "cpu": torch.device("cpu")}
    nowhere = torch.device("meta")
    tensors = [
        torch.empty(shape, dtype=dtype, device=places[kind] if keep else nowhere)
        for dtype, shape, kind in shapes
    ]
    for piece in _pieces(tensors):
        count = sum(tensor.numel() for tensor in piece)
        flat = torch.empty(count, dtype=piece[0].dtype, device=group.device)
        group.broadcast(flat, source)
        if not keep:
            continue
        done = 0
        for tensor in piece:
            tensor.copy_(flat.narrow(0, done, tensor.numel()).view(tensor.shape))
            done += tensor.numel()
    document: dict[str, Any] = _Unpickler.loads(text, tensors) if keep else {}
    return document


def frozen(document: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """The document as it is now, with its tensors copied to the host: training may go on."""
    tensors: list[Tensor] = []
    text = _Pickler.dumps(document, tensors)
    copies = [tensor.detach().to("cpu", copy=True) for tensor in tensors]
    return lambda: _Unpickler.loads(text, copies)


def share_text(text: str, group: Group) -> str:
    """The text of the first rank, on all ranks."""
    return text if group.size == 1 else _broadcast_bytes(text.encode(), group, 0).decode()


def _pieces(tensors: list[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one dtype, together up to a size; the same on both sides."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            by_dtype.setdefault(tensor.dtype, []).append(tensor)
    for same in by_dtype.values():
        piece: list[Tensor] = []
        size = 0
        for tensor in same:
            piece.append(tensor)
            size += tensor.numel() * tensor.element_size()
            if size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
        if piece:
            yield piece


def _broadcast_bytes(data: bytes, group: Group, source: int) -> bytes:
    count = torch.tensor([len(data)], dtype=torch.int64, device=group.device)
    group.broadcast(count, source)
    content = torch.empty(int(count.item()), dtype=torch.uint8, device=group.device)
    if group.rank == source:
        content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    group.broadcast(content, source)
    return content.cpu().numpy().tobytes() if "numpy" in sys.modules else bytes(content.tolist())


class _Pickler(pickle.Pickler):
    """Tensors are put aside and only numbered."""

    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_id(self, value: object) -> int | None:
        if not isinstance(value, Tensor):
            return None
        self._tensors.append(value)
        return len(self._tensors) - 1

    @classmethod
    def dumps(cls, value: object, tensors: list[Tensor]) -> bytes:
        file = io.BytesIO()
        cls(file, tensors).dump(value)
        return file.getvalue()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, number: int) -> Tensor:
        return self._tensors[number]

    @classmethod
    def loads(cls, data: bytes, tensors: list[Tensor]) -> Any:  # noqa: ANN401
        return cls(io.BytesIO(data), tensors).load()
