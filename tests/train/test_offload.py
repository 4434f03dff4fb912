"""The optimizer on the host sees what a script does to the parameters between two steps."""

import pytest
import torch

from treadle.train.offload import HostStep


def _clamp(parameter: torch.Tensor) -> None:
    with torch.no_grad():
        parameter.clamp_(-0.01, 0.01)


def _clamp_data(parameter: torch.Tensor) -> None:
    parameter.data.clamp_(-0.01, 0.01)  # Torch does not count it as a change.


@pytest.mark.parametrize("edit", [_clamp, _clamp_data, lambda _: None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_edited_between_steps_stay_so(edit, dtype: torch.dtype) -> None:
    """As scripts that clip weights do; the same steps on the device are the measure."""
    found = []
    for offload in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4, dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if offload:
            HostStep(optimizer)
        for _ in range(3):
            model(torch.ones(2, 4, dtype=dtype)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            for parameter in model.parameters():
                edit(parameter)
        found.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))
