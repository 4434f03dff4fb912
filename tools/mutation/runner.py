"""Try mutants in forked copies of a process that has collected the tests already.

A mutant inside a function is put in place by giving the loaded function the changed code, which
costs nothing. What is evaluated on import needs a process of its own (fresh.py). A mutant is killed
if a test fails, or runs far longer than it does on the unchanged source.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FunctionType

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tools.mutation.limits import limit, limit_memory
from tools.mutation.operators import Mutant, Mutants
from tools.mutation.plan import Baseline, Measured

SURVIVED, KILLED, NEEDS_FRESH = 0, 1, 3  # exit statuses of a child
WALL_S_MAX = 300  # against a child that waits and uses no CPU time


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    killed: bool
    tests: int  # how many could have noticed


class Runner:
    """A pytest plugin that runs mutants instead of tests."""

    def __init__(
        self,
        sample: Sequence[tuple[Mutants, Mutant]],
        *,
        workers: int,
        budget_s: float,
        say: Callable[[str], None],
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.baseline = Baseline()
        self._sample = sample
        self._workers = workers
        self._budget_s = budget_s
        self._say = say
        self._targets = sorted({str(mutant.path) for _, mutant in sample})
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}

    def pytest_configure(self) -> None:
        """Note which lines run when the targets are imported, before any test imports them."""
        importing = self._coverage()
        importing.start()
        for path in self._targets:
            import_module(module_name(Path(path)))
        importing.stop()
        data = importing.get_data()
        self.baseline.on_import = {t: frozenset(data.lines(t) or ()) for t in self._targets}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _loaded(set(self._targets))
        with TemporaryDirectory() as folder:
            self._measure(Path(folder))
            self._try_all(Path(folder))
        return True

    def _coverage(self) -> coverage.Coverage:
        measuring = coverage.Coverage(data_file=None, include=self._targets, config_file=False)
        # A test that runs nothing of the targets is no reason to warn.
        measuring.set_option("run:disable_warnings", ["no-data-collected"])
        return measuring

    # -- the unchanged source --------------------------------------------------------------------

    def _measure(self, folder: Path) -> None:
        """Run every test once, shared out by file so that fixtures of a module are made once."""
        files = sorted({name.partition("::")[0] for name in self._items})
        shares = [set(files[index :: self._workers]) for index in range(self._workers)]
        children = []
        for number, share in enumerate(shares):
            report = folder / f"baseline-{number}.json"
            items = [i for n, i in self._items.items() if n.partition("::")[0] in share]
            children.append(_fork(partial(self._trace, items, report)))
        for number, child in enumerate(children):
            assert os.waitpid(child, 0)[1] == 0, "the unchanged source could not be measured"
            found = json.loads((folder / f"baseline-{number}.json").read_text())
            self.baseline.failed += found["failed"]
            for name, cpu_s, lines in found["passed"]:
                covered = {path: frozenset(numbers) for path, numbers in lines.items()}
                self.baseline.tests.append(Measured(name, cpu_s, covered))

    def _trace(self, items: list[pytest.Item], report: Path) -> int:
        passed, failed = [], []
        measuring = self._coverage()
        for item in items:
            measuring.erase()
            measuring.start()
            begun_s = time.process_time()
            ok = _passes(item, None)
            cpu_s = time.process_time() - begun_s
            measuring.stop()
            data = measuring.get_data()
            lines = {path: data.lines(path) for path in data.measured_files() if data.lines(path)}
            if ok:
                passed.append((item.nodeid, cpu_s, lines))
            else:
                failed.append(item.nodeid)
        report.write_text(json.dumps({"passed": passed, "failed": failed}))
        return 0

    # -- mutants ---------------------------------------------------------------------------------

    def _try_all(self, folder: Path) -> None:
        waiting = list(reversed(self._sample))
        running: dict[int, tuple[Mutants, Mutant, int, float]] = {}
        done: dict[tuple[str, int], Outcome] = {}
        while waiting or running:
            while waiting and len(running) < self._workers:
                file, mutant = waiting.pop()
                chosen = self.baseline.choose(mutant, self._budget_s)
                child = self._begin(file, mutant, chosen, folder)
                running[child] = (file, mutant, len(chosen), time.monotonic() + WALL_S_MAX)
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                for late in [c for c, row in running.items() if row[3] < time.monotonic()]:
                    os.kill(late, 9)
                time.sleep(0.005)
                continue
            file, mutant, tests, _ = running.pop(child)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NEEDS_FRESH:
                chosen = self.baseline.choose(mutant, self._budget_s)
                child = self._begin_fresh(mutant, chosen, folder)
                running[child] = (file, mutant, tests, time.monotonic() + WALL_S_MAX)
                continue
            outcome = Outcome(mutant, status != 0, tests)
            done[str(mutant.path), mutant.number] = outcome
            self._progress(len(done), outcome)
        self.outcomes = [done[str(m.path), m.number] for _, m in self._sample]

    def _progress(self, count: int, outcome: Outcome) -> None:
        if not outcome.killed:
            mutant = outcome.mutant
            self._say(f"survived  {mutant.path.name}:{mutant.line}  {mutant.text}  {mutant.change}")
        if count % 50 == 0:
            self._say(f"{count} of {len(self._sample)} mutants tried")

    def _begin(self, file: Mutants, mutant: Mutant, chosen: list[Measured], folder: Path) -> int:
        if not chosen:
            return _fork(lambda: SURVIVED)
        if self.baseline.runs_on_import(mutant):
            return self._begin_fresh(mutant, chosen, folder)
        return _fork(lambda: self._try_here(file, mutant, chosen))

    def _try_here(self, file: Mutants, mutant: Mutant, chosen: list[Measured]) -> int:
        limit_memory()
        assert mutant.function is not None, "what is evaluated on import needs a new process"
        with mutant.applied():
            code = _code_of(compile(file.tree, str(file.path), "exec"), mutant.function)
        functions = self._functions.get((str(file.path), *mutant.function), [])
        if code is None or not functions:
            return NEEDS_FRESH
        try:
            for function in functions:
                function.__code__ = code
        except ValueError:  # It closes over other names than before.
            return NEEDS_FRESH
        items = [self._items[test.test] for test in chosen]
        for test, item, following in zip(chosen, items, [*items[1:], None], strict=True):
            limit(test.cpu_s)
            if not _passes(item, following):
                return KILLED
        return SURVIVED

    def _begin_fresh(self, mutant: Mutant, chosen: list[Measured], folder: Path) -> int:
        request = folder / f"{mutant.path.stem}-{mutant.number}.json"
        module = module_name(mutant.path)
        tests = {test.test: test.cpu_s for test in chosen}
        asked = {"path": str(mutant.path), "number": mutant.number, "module": module}
        request.write_text(json.dumps(asked | {"tests": tests}))
        command = [sys.executable, "-m", "tools.mutation.fresh", str(request)]
        return _fork(lambda: os.execv(sys.executable, command))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


def _fork(work: Callable[[], int]) -> int:
    """Run it in a copy of this process that prints nothing; its result is the exit status."""
    child = os.fork()
    if child:
        return child
    status = KILLED
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        status = work()
    finally:
        os._exit(status)


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports = runtestprotocol(item, log=False, nextitem=following)
    return not any(report.failed for report in reports)


def _loaded(paths: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """Every loaded function of these files, by file, name and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in paths:
            code = thing.__code__
            key = (code.co_filename, code.co_name, code.co_firstlineno)
            found.setdefault(key, []).append(thing)
    return found


def _code_of(code: CodeType, function: tuple[str, int]) -> CodeType | None:
    """The code of a function, wherever it stands in a module's."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if (part.co_name, part.co_firstlineno) == function:
                return part
            inner = _code_of(part, function)
            if inner is not None:
                return inner
    return None
