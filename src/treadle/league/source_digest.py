"""A digest of the source that a result depends on, so that a cached result is never stale.

A result depends on the modules that its run imports. They are found without running anything:
from a first module on, every import of a `treadle` module is followed, those inside functions too.
Policies are imported by name, from a table; so a change to one policy leaves the results of the
others alone.
"""

import ast
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from treadle.core.errors import InvalidInputError

PACKAGE = "treadle"


def source_digest(*starts: str) -> str:
    """Of the source of these modules or files, and of all `treadle` modules that they import."""
    found: dict[str, str] = {}
    open_names = list(starts)
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        path = _path(name)
        if path is None:  # a name inside a module, or a built-in one
            continue
        text = _text(path)
        found[name] = sha256(text.encode()).hexdigest()
        open_names += _imports(text, str(path))
    lines = [f"{name} {digest}" for name, digest in sorted(found.items())]
    version = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return sha256("\n".join([version, *lines]).encode()).hexdigest()


@cache
def _path(name: str) -> Path | None:
    """The file of a module's name, or of a path."""
    if name.endswith(".py"):
        return Path(name)
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


@cache
def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from None


@cache
def _imports(text: str, source: str) -> tuple[str, ...]:
    """The `treadle` modules that a text may import; some names are not modules."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InvalidInputError(
            f"{source} line {error.lineno} is not Python: {error.msg}"
        ) from None
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(name for name in found if name.partition(".")[0] == PACKAGE)
