"""The state of a run in a process that has not run the lines which changed it."""

import pytest
import torch
from torch import nn

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.train.planned import Planned
from treadle.train.state import Position, State, frozen

CPU = torch.device("cpu")


def _state() -> State:
    """Of a script that trains its last layer first."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.9)
    return State(model, optimizer, {}, Position())


def _step(state: State) -> None:
    state.model(torch.ones(1, 2)).sum().backward()
    state.optimizer.step()


def test_parameter_groups_that_were_added_in_the_loop_move_along() -> None:
    old, new = _state(), _state()
    first = next(old.model.children())
    old.optimizer.add_param_group({"params": first.parameters(), "lr": 0.01})
    _step(old)
    new.write(frozen(old.read(CPU))(), CPU, exact=False)
    assert [group["lr"] for group in new.optimizer.param_groups] == [0.1, 0.01]
    for state in (old, new):
        state.model.zero_grad()
        _step(state)
    for ours, theirs in zip(new.model.parameters(), old.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_an_added_group_of_other_parameters_is_refused_with_a_sentence() -> None:
    old, new = _state(), _state()
    old.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with pytest.raises(InvalidInputError, match=r"has 1 parameter groups and the state .* 2;"):
        new.write(frozen(old.read(CPU))(), CPU, exact=False)


def test_a_model_is_not_split_under_a_group_that_was_added_after_it_was_prepared() -> None:
    state = _state()
    planned = Planned(state.model, state.optimizer, CPU)
    state.optimizer.add_param_group({"params": next(state.model.children()).parameters()})
    with pytest.raises(InvalidInputError, match="1 parameter groups were added"):
        planned._check(Plan(shard="all"))
