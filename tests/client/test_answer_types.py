"""A call's answer is named twice: for the type checker, and for the decoder. They agree."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from treadle.client import calls
from treadle.client.answer_types import Named


def _types_for_checkers() -> dict[str, object]:
    """What calls.py imports for the type checker alone."""
    found: dict[str, object] = {}
    for each in ast.walk(ast.parse(inspect.getsource(calls))):
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("treadle."):
            module = import_module(each.module)
            found |= {name.name: getattr(module, name.name) for name in each.names}
    return found


def _described() -> Iterator[tuple[str, str, object]]:
    """Every function that describes a call: its name, `X` of its `Call[X]`, and its answer."""
    for name, function in inspect.getmembers(calls, inspect.isfunction):
        says = inspect.signature(function).return_annotation
        if name.startswith("_") or not str(says).startswith("Call["):
            continue
        node = ast.parse(inspect.getsource(function))
        named = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        words = [
            (each.func.id, [ast.unparse(word) for word in each.args])
            for each in named
            if isinstance(each.func, ast.Name) and each.func.id in ("one", "many")
        ]
        yield name, str(says)[5:-1], words


@pytest.mark.parametrize(("name", "says", "words"), list(_described()))
def test_the_decoder_makes_what_the_type_checker_was_told(name, says, words):
    types = _types_for_checkers()
    told = eval(says, {**types, **vars(__import__("builtins"))})
    if not words:
        assert told in (None, str, bytes, dict[str, str], dict[str, object]), name
        return
    (how, (module, kind)) = words[0]
    made = Named(getattr(calls, module, module.strip("'")), kind.strip("'"), many=how == "many")
    assert made.resolve() == told


def test_a_client_loads_no_types_that_it_does_not_need():
    script = (
        "import sys, treadle.client.client; "
        "print([m for m in ('treadle.core.machine', 'treadle.wire.machine') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
