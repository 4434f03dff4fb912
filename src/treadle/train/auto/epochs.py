"""How many steps an unmodified script will do: from its loops `for epoch in range(n)`, if it shows.

The loops around the present pass over a loader are looked up in the source of the script, and
their limits read from its variables; nothing of it is called. A loop over anything but a range, a
`while`, or a loop of a library around it, and the total stays unknown. In the first round of the
outermost loop each round is taken to have this one pass in its innermost loop; from the second on
the steps of a round are known.
"""

import ast
import operator
import runpy
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

OWN = str(Path(__file__).parent)  # of this package
RUNPY = ("<frozen runpy>", runpy.__file__)  # what runs the script
KEPT = 0.01  # a total that comes out so little different is the same
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class Loop(NamedTuple):
    rounds: int
    at: int  # the present round, from 0


class Unknown(Exception):  # noqa: N818 - it is caught here, and no error
    """The source does not say."""


def loops_around(frame: FrameType | None, folder: str) -> list[Loop] | None:
    """The loops of a script in which it takes a pass, outermost first; None: not known."""
    found: list[Loop] = []
    try:
        while frame is not None and (file := frame.f_code.co_filename) not in RUNPY:
            if _is_of_script(file, folder):
                found = [*_in_frame(frame), *found]
            elif not (file.startswith(OWN) or "tqdm" in Path(file).parts):
                return None
            frame = frame.f_back
    except Exception:  # Objects of the script may raise anything, and must not end it here.
        return None
    return found


def passes_left(loops: list[Loop]) -> int:
    """With the present one, if each round of the innermost loop has one."""
    left = 0
    for loop in loops:
        left = left * loop.rounds + loop.rounds - loop.at - 1
    return left + 1


class Total:
    """The steps of the whole run, as far as they are known."""

    def __init__(self) -> None:
        self.steps: int | None = None
        self._loops: list[Loop] | None = None
        # The round of the outermost loop, and the steps at its beginning; None: it was not seen.
        self._round: tuple[int, int | None] = (-1, None)
        self._measured = False  # a whole round was seen
        self._began: tuple[int, int] | None = None  # steps and batches when the pass was entered

    def begin_pass(self, loops: list[Loop] | None, applied: int, offset: int) -> None:
        """The script begins a pass, or goes on in its middle."""
        self._loops, self._began = loops, None
        if not loops:
            return
        outer, (index, before) = loops[0], self._round
        if outer.at == index:
            return
        if outer.at == index + 1 and before is not None and before < applied:
            self._measured = True
            self._take(applied + (applied - before) * (outer.rounds - outer.at))
        whole = not offset and not any(loop.at for loop in loops[1:])
        self._round = (outer.at, applied if whole else None)

    def account(self, applied: int, done: int, batches: int) -> None:
        """So many of the pass's batches are done."""
        if self._began is None:
            self._began = (applied, done)
        steps, since = applied - self._began[0], done - self._began[1]
        if self._loops is not None and not self._measured and steps > 0:
            left = batches - done + (passes_left(self._loops) - 1) * batches
            self._take(applied + round(steps / since * left))

    def _take(self, steps: int) -> None:
        if self.steps is None or abs(steps - self.steps) > KEPT * self.steps:
            self.steps = steps


@cache
def _is_of_script(file: str, folder: str) -> bool:
    """Whether it is in the folder of the script, also by a link, and not of a library there."""
    path = Path(file).resolve()
    return path.is_relative_to(folder) and "site-packages" not in path.parts


def _in_frame(frame: FrameType) -> list[Loop]:
    tree = _parsed(frame.f_code.co_filename)
    return [_loop(node, frame) for node in _enclosing(tree, frame.f_lineno)]


@cache
def _parsed(file: str) -> ast.AST:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        raise Unknown from None


def _enclosing(tree: ast.AST, line: int) -> list[ast.For | ast.AsyncFor | ast.While]:
    """The loops in whose body the line is, outermost first, of the function that it is in."""
    found: list[ast.For | ast.AsyncFor | ast.While] = []
    node: ast.AST | None = tree
    while node is not None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found = []
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While) and _holds(node.body, line):
            found.append(node)
        children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
        node = next((child for child in children if _holds([child], line)), None)
    return found


def _holds(body: list[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _loop(node: ast.For | ast.AsyncFor | ast.While, frame: FrameType) -> Loop:
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        raise Unknown
    if _may_end_early(node.body):
        raise Unknown
    rounds = range(*(_value(each, frame) for each in _limits(node.iter)))
    now = frame.f_locals.get(node.target.id)
    if type(now) is not int or now not in rounds:
        raise Unknown
    return Loop(len(rounds), rounds.index(now))


def _may_end_early(body: Sequence[ast.AST]) -> bool:
    """Whether the loop can be left before its last round, e.g. once a loss has settled."""
    for node in body:
        if isinstance(node, ast.Break | ast.Return):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # Its own breaks leave it alone, but for those of its `else`.
            children = [*(c for c in ast.walk(node) if isinstance(c, ast.Return)), *node.orelse]
        if _may_end_early(children):
            return True
    return False


def _limits(node: ast.expr) -> list[ast.expr]:
    """The arguments of a range, perhaps in a progress bar."""
    if not isinstance(node, ast.Call):
        raise Unknown
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "tqdm" and node.args:
        return _limits(node.args[0])
    if name not in ("range", "trange") or not 1 <= len(node.args) <= 3:
        raise Unknown
    return node.args


def _value(node: ast.expr, frame: FrameType) -> int:
    found = _read(node, frame)
    if type(found) is not int:
        raise Unknown
    return found


def _read(node: ast.expr, frame: FrameType) -> Any:  # noqa: ANN401
    """What a simple expression is, without calling anything of the script's."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name() if node.id in frame.f_locals:
            return frame.f_locals[node.id]
        case ast.Name() if node.id in frame.f_globals:
            return frame.f_globals[node.id]
        case ast.Attribute():
            return getattr(_read(node.value, frame), "__dict__", {}).get(node.attr)
        case ast.Subscript(slice=ast.Constant(value=key)):
            held = _read(node.value, frame)
            return held.get(key) if type(held) is dict else None
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = _value(node.left, frame), _value(node.right, frame)
            if isinstance(node.op, ast.FloorDiv) and right == 0:
                raise Unknown
            return _OPERATORS[type(node.op)](left, right)
    raise Unknown
