"""The optimizer on the host: its state needs no device memory, and the cores do its work.

Gradients are copied to the host, the optimizer steps there on copies of the parameters, and these
are copied back. The arithmetic is that of the same optimizer on the device; only the rounding of
the host's kernels may differ.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


class HostCopies:
    """Parameters on the host, which an optimizer may have instead of those on the device."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._pairs = [(each, _on_host(each)) for each in parameters if each.requires_grad]
        self.of = dict(self._pairs)

    def take_gradients(self) -> None:
        for device, host in self._pairs:
            if device.grad is None:
                host.grad = None
                continue
            if host.grad is None:
                host.grad = _empty_on_host(device.grad)
            host.grad.copy_(device.grad, non_blocking=True)
        _wait(self._pairs)

    @torch.no_grad()
    def give_parameters(self) -> None:
        for device, host in self._pairs:
            device.copy_(host, non_blocking=True)
        _wait(self._pairs)

    @torch.no_grad()
    def take_parameters(self) -> None:
        """After parameters were loaded on the device."""
        for device, host in self._pairs:
            host.copy_(device)


def _on_host(parameter: Tensor) -> Tensor:
    host = _empty_on_host(parameter.detach())
    host.copy_(parameter.detach())
    return host.requires_grad_()


def _empty_on_host(like: Tensor) -> Tensor:
    """Pinned where that makes copies faster."""
    return torch.empty_like(like, device="cpu", pin_memory=like.is_cuda)


def _wait(pairs: list[tuple[Tensor, Tensor]]) -> None:
    if pairs and pairs[0][0].is_cuda:
        torch.cuda.synchronize()
