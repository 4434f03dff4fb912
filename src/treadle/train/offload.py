"""The optimizer on the host: its state needs no device memory, and the cores do its work.

Gradients are copied to the host, the optimizer steps there on copies of the parameters, and these
are copied back. The arithmetic is that of the same optimizer on the device; only the rounding of
the host's kernels may differ.

A script may edit parameters between two steps, to clip them for one. So a checksum of those on the
device is kept, and only if it has changed are they copied to the host. Torch's own count of changes
does not see those that are made through `parameter.data`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class HostStep:
    """Steps an optimizer on the host, until it is removed.

    The optimizer keeps the device's parameters, so that its state has their names; it has those of
    the host only during the step. `optimizer.step` itself is replaced: a gradient scaler calls it.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._pairs = [
            (each, _on_host(each))
            for group in optimizer.param_groups
            for each in group["params"]
            if each.requires_grad
        ]
        self._host = dict(self._pairs)
        self._counts_on_device = any(
            group.get("fused") or group.get("capturable") for group in optimizer.param_groups
        )
        for device, _ in self._pairs:
            self._move_state(device, torch.device("cpu"), counts=True)
        self._given = self._checksums()
        self._usual: Any = optimizer.step
        optimizer.step = self.step  # type: ignore[method-assign, assignment]

    def step(self, closure: None = None) -> None:
        assert closure is None, "an optimizer with a closure cannot be off-loaded"
        self._take_edits()
        self._take_gradients()
        self._rename(self._host)
        try:
            self._usual()
        finally:
            self._rename({host: device for device, host in self._pairs})
        self._give_parameters()

    def remove(self) -> None:
        """The optimizer steps on the device again."""
        self._optimizer.step = self._usual  # type: ignore[method-assign]
        for device, _ in self._pairs:
            self._move_state(device, device.device, counts=self._counts_on_device)

    def _move_state(self, parameter: Tensor, to: torch.device, *, counts: bool) -> None:
        """counts: also counts of steps, which most optimizers keep on the host."""
        state = self._optimizer.state.get(parameter, {})
        for name, each in state.items():
            if isinstance(each, Tensor) and (counts or each.dim()):
                state[name] = each.to(to)

    def _rename(self, other: dict[Tensor, Tensor]) -> None:
        """Give the optimizer the other parameters, with the same state."""
        state = self._optimizer.state
        for group in self._optimizer.param_groups:
            for each in group["params"]:
                if each in other and each in state:
                    state[other[each]] = state.pop(each)
            group["params"] = [other.get(each, each) for each in group["params"]]

    @torch.no_grad()
    def _take_edits(self) -> None:
        """What the script changed since the last step."""
        if torch.equal(self._checksums(), self._given):
            return
        for device, host in self._pairs:
            host.copy_(device, non_blocking=True)
        self._wait()

    @torch.no_grad()
    def _checksums(self) -> Tensor:
        """A number for each parameter: the sum of its bits, read as integers."""
        sums = [
            _local(device).view(_INTEGERS[device.element_size()]).sum() for device, _ in self._pairs
        ]
        return torch.stack(sums) if sums else torch.zeros(0)

    def _take_gradients(self) -> None:
        for device, host in self._pairs:
            if device.grad is None:
                host.grad = None
                continue
            if host.grad is None:
                host.grad = _empty_on_host(device.grad)
            host.grad.copy_(device.grad, non_blocking=True)
        self._wait()

    @torch.no_grad()
    def _give_parameters(self) -> None:
        for device, host in self._pairs:
            device.copy_(host, non_blocking=True)
        self._wait()
        self._given = self._checksums()

    def _wait(self) -> None:
        if self._pairs and self._pairs[0][0].is_cuda:
            torch.cuda.synchronize()


def _local(parameter: Tensor) -> Tensor:
    """The part of a parameter that this rank has."""
    found: Tensor = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    return found.detach()


def _on_host(parameter: Tensor) -> Tensor:
    host = _empty_on_host(parameter.detach())
    host.copy_(parameter.detach())
    return host.requires_grad_()


def _empty_on_host(like: Tensor) -> Tensor:
    """Pinned where that makes copies faster."""
    return torch.empty_like(like, device="cpu", pin_memory=like.is_cuda)
