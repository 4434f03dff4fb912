"""Which weights of a model may be split over devices, and how.

A model declares it, as an attribute of its own:

    model.tensor_plan = {"blocks.*.attention.query": "colwise", "blocks.*.attention.out": "rowwise"}

or it has the names that standard transformers use (query, key and value projections and the first
matrix of the feed-forward part are split by columns, the output projection and the second matrix by
rows), or transformers' own `base_model_tp_plan`. A model must not count on its number of heads in
`forward`: each device has a part of them.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import nn

_ATTENTION = ("q_proj", "k_proj", "v_proj", "query", "key", "value", "wq", "wk", "wv")
BY_COLUMNS = frozenset((*_ATTENTION, "gate_proj", "up_proj", "w1", "w3", "fc1", "c_fc", "fc_in"))
BY_ROWS = frozenset(("o_proj", "out_proj", "down_proj", "wo", "w2", "fc2", "c_proj", "fc_out"))
WAYS = ("colwise", "rowwise")


def tensor_plan(model: nn.Module) -> dict[str, str]:
    """The way of each weight that is split, by the module's name; empty: it cannot be split."""
    declared = getattr(model, "tensor_plan", None) or _of_transformers(model)
    linear = {name for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    if declared:
        return {
            name: way
            for name in sorted(linear)
            for pattern, way in declared.items()
            if fnmatchcase(name, pattern) and way in WAYS
        }
    found = {name: _by_name(name) for name in sorted(linear)}
    ways = {name: way for name, way in found.items() if way}
    # Columns without rows after them would leave every device with a part of the result.
    return ways if set(ways.values()) == set(WAYS) else {}


def _of_transformers(model: nn.Module) -> Mapping[str, str]:
    plan = getattr(getattr(model, "config", None), "base_model_tp_plan", None) or {}
    prefix = getattr(model, "base_model_prefix", "")
    inside = bool(prefix) and hasattr(model, prefix)
    return {f"{prefix}.{name}" if inside else name: way for name, way in plan.items()}


def _by_name(name: str) -> str:
    last = name.rpartition(".")[2]
    return "colwise" if last in BY_COLUMNS else "rowwise" if last in BY_ROWS else ""
