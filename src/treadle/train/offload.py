"""The optimizer on the host: its state needs no device memory, and the cores do its work.

Gradients are copied to the host, the optimizer steps there on copies of the parameters, and these
are copied back. The arithmetic is that of the same optimizer on the device; only the rounding of
the host's kernels may differ.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


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
        self._usual: Any = optimizer.step
        optimizer.step = self.step  # type: ignore[method-assign, assignment]

    def step(self, closure: None = None) -> None:
        assert closure is None, "an optimizer with a closure cannot be off-loaded"
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

    def _wait(self) -> None:
        if self._pairs and self._pairs[0][0].is_cuda:
            torch.cuda.synchronize()


def _on_host(parameter: Tensor) -> Tensor:
    host = _empty_on_host(parameter.detach())
    host.copy_(parameter.detach())
    return host.requires_grad_()


def _empty_on_host(like: Tensor) -> Tensor:
    """Pinned where that makes copies faster."""
    return torch.empty_like(like, device="cpu", pin_memory=like.is_cuda)
