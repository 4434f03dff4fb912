"""Run tests in a new process in which one module is a mutant from the moment it is imported.

    python -m tools.mutation.fresh REQUEST.json

It is slow, and right for what is evaluated on import: tables, defaults, decorators. The exit status
is 0 if all tests passed and 1 if the mutant was noticed.
"""

import ast
import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tools.mutation.limits import QUIET, limit, limit_memory
from tools.mutation.operators import Mutants


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return compile(self._tree, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the mutated module before anything else does."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, self._path, self._tree)
        return spec_from_file_location(fullname, self._path, loader=loader)


class _Chosen:
    """Keep the chosen tests, in their order, and hold each to its time."""

    def __init__(self, tests: dict[str, float]) -> None:
        self._tests = tests

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: place for place, name in enumerate(self._tests)}
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        limit(self._tests[item.nodeid])


def main(request_path: str) -> int:
    request = json.loads(Path(request_path).read_text())
    mutants = Mutants(Path(request["path"]))
    limit_memory()
    with mutants.found[request["number"]].applied():
        finder = _Finder(request["module"], request["path"], mutants.tree)
        sys.meta_path.insert(0, finder)
        files = sorted({name.partition("::")[0] for name in request["tests"]})
        status = pytest.main([*QUIET, "-x", *files], plugins=[_Chosen(request["tests"])])
    return 0 if status == pytest.ExitCode.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
