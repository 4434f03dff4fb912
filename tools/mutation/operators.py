"""What is changed in a source file, one thing at a time.

A mutant is a site in the syntax tree and a change that can be applied there and undone. Docstrings,
strings, annotations, assertions, `__repr__` and the arguments of a raised error are left alone:
changing them tells nothing about behaviour.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_COPIES = {"dict", "list", "set"}
_SKIPPED_FUNCTIONS = {"__repr__", "__str__"}

Field = tuple[
    ast.AST, str, int | None
]  # a node, one of its fields, the place in it if it is a list


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: Path
    number: int  # the how-manyeth of its file
    line: int
    span: range  # the lines of its statement up to the change: a test that runs one may notice
    text: str  # the source line without indentation and comment
    change: str  # "`<` to `<=`"
    function: tuple[str, int] | None  # outermost function around it, by name and line
    field: Field
    new: object

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change the tree that the mutant was found in, for as long as this lasts."""
        old = _get(self.field)
        _set(self.field, self.new)
        try:
            yield
        finally:
            _set(self.field, old)


class Mutants:
    """All mutants of one file, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        source = path.read_text()
        self.tree = ast.parse(source)
        self._lines = source.splitlines()
        self.found: list[Mutant] = []
        self._visit(self.tree, None, 1)

    def _visit(self, node: ast.AST, function: tuple[str, int] | None, statement: int) -> None:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "format_spec", "exc"}:
                continue
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if not isinstance(child, ast.AST) or _skipped(child) or _is_check(node, child):
                    continue
                field = (node, name, index if isinstance(value, list) else None)
                within = child.lineno if isinstance(child, ast.stmt) else statement
                self._changes(child, field, function, within)
                self._visit(child, _around(node, child, function), within)

    def _changes(
        self, node: ast.AST, field: Field, function: tuple[str, int] | None, statement: int
    ) -> None:
        for change, site, new in _mutations(node, field, in_function=function is not None):
            assert isinstance(node, ast.expr | ast.stmt), "every change is at a place in the text"
            if isinstance(new, ast.expr | ast.stmt):
                ast.fix_missing_locations(ast.copy_location(new, node))
            last = node.end_lineno or node.lineno
            span = range(statement, (node.lineno if _is_compound(node) else last) + 1)
            text = self._lines[node.lineno - 1].partition("  # ")[0].strip()
            number = len(self.found)
            self.found.append(
                Mutant(self.path, number, node.lineno, span, text, change, function, site, new)
            )


def _is_compound(node: ast.AST) -> bool:
    return isinstance(node, ast.If | ast.While | ast.For)


def _around(
    node: ast.AST, child: ast.AST, function: tuple[str, int] | None
) -> tuple[str, int] | None:
    """The outermost function around what is in a child; defaults belong to what is outside."""
    if function is None and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
        return _key(child)
    if isinstance(child, ast.arguments) and isinstance(node, ast.FunctionDef):
        return None if _key(node) == function else function
    return function


def _key(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, int]:
    """Its name and where its code object begins: at the first decorator."""
    return function.name, min([function.lineno, *(d.lineno for d in function.decorator_list)])


def _is_check(node: ast.AST, child: ast.AST) -> bool:
    """`zip(..., strict=True)` is an assertion in another form."""
    match node, child:
        case ast.Call(func=ast.Name(id="zip")), ast.keyword(arg="strict"):
            return True
        case _:
            return False


def _skipped(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.FunctionDef(name=name):
            return name in _SKIPPED_FUNCTIONS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in {"__slots__", "__all__"}
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case _:
            return False


_Change = tuple[str, Field, object]


def _mutations(node: ast.AST, field: Field, *, in_function: bool) -> Iterator[_Change]:
    yield from _of_operator(node, field, in_function=in_function)
    yield from _of_value(node, field)
    yield from _of_condition(node)
    yield from _of_statement(node, field, in_function=in_function)


def _of_operator(node: ast.AST, field: Field, *, in_function: bool) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=operators):
            for index, operator in enumerate(operators):
                new = _COMPARISONS[type(operator)]()
                yield _swap(operator, new), (node, "ops", index), new
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator):
            if in_function or not isinstance(operator, ast.BitOr):  # a union of types
                other = _ARITHMETIC[type(operator)]()
                yield _swap(operator, other), (node, "op", None), other
        case ast.BoolOp(op=connective):
            opposite = ast.Or() if isinstance(connective, ast.And) else ast.And()
            yield _swap(connective, opposite), (node, "op", None), opposite
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "drop `not`", field, operand
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "drop `-`", field, operand


def _of_value(node: ast.AST, field: Field) -> Iterator[_Change]:
    match node:
        case ast.Constant(value=bool(value)):
            yield f"{value} to {not value}", (node, "value", None), not value
        case ast.Constant(value=int(value) | float(value)):
            for step in (1, -1):
                yield f"{value} to {value + step}", (node, "value", None), value + step
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            yield f"`{name}` to `{_FUNCTIONS[name]}`", (node.func, "id", None), _FUNCTIONS[name]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _COPIES:
            yield f"drop `{name}()`", field, argument
        case ast.Call(func=ast.Attribute(attr="copy", value=original), args=[], keywords=[]):
            yield "drop `.copy()`", field, original


def _of_condition(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            # A single comparison or a `not` is turned round by its own operator.
            if not isinstance(test, ast.Compare) and not _is_not(test):
                yield "negate the condition", (node, "test", None), _negated(test)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for generator in node.generators:
                for index in range(len(generator.ifs)):
                    yield "drop the filter", (generator, "ifs", index), ast.Constant(value=True)


def _of_statement(node: ast.AST, field: Field, *, in_function: bool) -> Iterator[_Change]:
    if not in_function:
        return  # A class or a module without one of its names does not load.
    match node:
        case ast.Expr(value=ast.Call()) | ast.Delete() | ast.AugAssign() | ast.Raise():
            yield "remove the statement", field, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "remove the statement", field, ast.Pass()
        case ast.Return(value=ast.expr() as value):
            # None in place of another false value is most often the same answer.
            if not (isinstance(value, ast.Constant) and not value.value):
                yield "return None", (node, "value", None), ast.Constant(value=None)
        case ast.Break():
            yield "`break` to `continue`", field, ast.Continue()
        case ast.Continue():
            yield "`continue` to `break`", field, ast.Break()


def _is_not(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _negated(test: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(
        ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=test), test)
    )


def _swap(old: ast.AST, new: ast.AST) -> str:
    return f"`{_SIGNS[type(old)]}` to `{_SIGNS[type(new)]}`"


_SIGNS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
}


def _get(field: Field) -> object:
    node, name, index = field
    value = getattr(node, name)
    return value if index is None else value[index]


def _set(field: Field, new: object) -> None:
    node, name, index = field
    if index is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[index] = new
