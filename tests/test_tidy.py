"""Rules of this repository that a program can check, checked by a program.

Each rule is one test that lists every offence. A file is read and parsed once for all of them.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import treadle

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "treadle"


@dataclass(frozen=True)
class Source:
    """A Python file with its text and its tree."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def module(self) -> str:
        """Its dotted name under src; a package's is that of its `__init__.py`."""
        parts = self.path.relative_to(ROOT / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))


def _read(folder: str) -> list[Source]:
    return [Source(path, path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))]


SOURCES = _read("src")
CODE = [*SOURCES, *_read("tests"), *_read("benchmarks"), *_read("tools"), *_read("replications")]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
BANNED_FILES = {"utils.py", "helpers.py", "misc.py", "common.py"}
BANNED_ENDINGS = ("Manager", "Helper", "Base", "Impl", "Info", "Util")
# A file name may occur so often under src: a paper has a trace format, a policy and a replication.
SAME_NAME_MAX = 3
# Words of an old dialect, and how often they still stand under src. Lower a number when the count
# falls; none may rise. The aim is 0.
DIALECT_MAX = {"whoever": 0, "nobody": 0, "wears": 0}
CLOCK_READERS = {
    "control/loop/clock.py",
    "engines/agent/warm_pool.py",
    "engines/node/mps.py",
    "engines/node/warm_script.py",
    "engines/node/warm_template.py",
    "cli/show/progress_bar.py",
    "cli/study/simulate.py",
    "cli/study/replicate.py",
}
# The CPU time of decisions, for all simulations.
CLOCK_READERS |= {"sim/spent.py"}
CLOCK_READERS |= {"cli/study/analyze.py", "league/cell.py"}
# Processes of their own, or apart from the event loop: they wait and count for themselves.
CLOCK_READERS |= {
    "engines/node/fence.py",
    "engines/node/recorded_processes.py",
    "engines/node/scope.py",
    "engines/node/rank_launches.py",
    "engines/node/supervisor.py",
    "engines/node/output_capture.py",
    "store/deadline.py",
    "control/loop/off_loop.py",
}
# When an agent answered last.
CLOCK_READERS |= {"engines/fleet/node_client.py"}
# In the processes of a job.
CLOCK_READERS |= {"train/elastic.py", "train/group.py", "train/saving.py", "train/stages.py"}
CLOCK_READERS |= {"train/telling.py", "demo/train.py"}
CLOCK_READERS |= {"client/wait_polling.py", "cli/show/clock.py", "report.py"}
# What `import treadle` offers; growing it is a visible act.
PUBLIC = {
    "Allocation",
    "Change",
    "Client",
    "Cluster",
    "Device",
    "Fit",
    "FreeDevices",
    "InterleavingModel",
    "InvalidInputError",
    "Job",
    "JobId",
    "JobRequest",
    "JobSpec",
    "Node",
    "Ordered",
    "PerformanceModel",
    "Placement",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Rank",
    "Reason",
    "Refusing",
    "Remembering",
    "ScalingModel",
    "Schedule",
    "Scheduler",
    "Sharing",
    "SimulatedEngine",
    "Simulation",
    "Snapshot",
    "Start",
    "Stop",
    "TreadleError",
    "Wrapper",
    "__version__",
    "placement",
    "report",
}


def _offences(found: Iterator[str]) -> str:
    """All of them in one message; empty if there are none."""
    return "\n".join(sorted(found))


def test_functions_and_files_are_short() -> None:
    def found() -> Iterator[str]:
        for source in CODE:
            lines = len(source.text.splitlines())
            if lines > FILE_LINES_MAX:
                yield f"{source.name} has {lines} lines"
            for node in source.nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    length = node.end_lineno - node.lineno + 1
                    if length > FUNCTION_LINES_MAX:
                        yield f"{source.name}: {node.name} has {length} lines"

    offences = _offences(found())
    assert not offences, offences


def test_every_module_opens_with_its_idea() -> None:
    bare = [s.name for s in SOURCES if not ast.get_docstring(_module(s))]
    assert not bare, f"no docstring: {bare}"


def test_names_say_what_things_are() -> None:
    def found() -> Iterator[str]:
        for source in SOURCES:
            if source.path.name in BANNED_FILES:
                yield f"{source.name}: its concept has no name yet"
            for node in source.nodes:
                if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_ENDINGS):
                    yield f"{source.name}: {node.name}"

    offences = _offences(found())
    assert not offences, offences


def test_few_files_have_the_same_name() -> None:
    names = Counter(s.path.name for s in SOURCES if s.path.name != "__init__.py")
    often = {name: count for name, count in names.items() if count > SAME_NAME_MAX}
    assert not often, f"say more in the name: {often}"


def test_only_a_few_files_read_a_clock() -> None:
    reads = re.compile(r"^\s*(import time\b|from time import|import datetime\b)", re.MULTILINE)
    inside = {str(s.path.relative_to(PACKAGE)) for s in SOURCES if reads.search(s.text)}
    assert not inside - CLOCK_READERS, "take the time as an argument"


def test_the_list_of_clock_readers_names_files_that_exist() -> None:
    gone = sorted(name for name in CLOCK_READERS if not (PACKAGE / name).exists())
    assert not gone, f"no such file: {gone}"


def test_no_leftovers() -> None:
    found = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    left = [s.name for s in CODE if found.search(s.text) and s.path != Path(__file__)]
    assert not left, f"leftovers in {left}"


def test_the_old_dialect_does_not_come_back() -> None:
    counts = dict.fromkeys(DIALECT_MAX, 0)
    where: list[str] = []
    for source in SOURCES:
        for number, line in enumerate(source.text.splitlines(), 1):
            for word in re.findall(r"[a-z]+", line.lower()):
                if word in counts:
                    counts[word] += 1
                    where.append(f"{source.name}:{number}: {word}")
    risen = {word: n for word, n in counts.items() if n > DIALECT_MAX[word]}
    listed = "\n".join(line for line in where if line.rsplit(" ", 1)[1] in risen)
    assert not risen, f"more often than {DIALECT_MAX}: {risen}\n{listed}"


def test_no_module_of_the_product_is_there_for_tests_alone() -> None:
    """A module is used if another one imports it or names it in a string.

    Tables of names load some modules on use, and engines run some as programs. `treadle.testing`
    is for the tests of third parties.
    """
    names: dict[str, set[str]] = {}
    for source in SOURCES:
        for name in _mentioned(source):
            names.setdefault(name, set()).add(source.module)

    def used(source: Source) -> bool:
        stem, package = source.path.stem, source.module.rpartition(".")[0]
        by_name = names.get(source.module, set()) | names.get(source.path.name, set())
        # `import_module(f"{package}.{name}")` with the name from a table.
        loads_by_name = f"{package}." in names
        return bool(by_name - {source.module}) or (loads_by_name and stem in names)

    exempt = re.compile(
        r"__(init|main)__\.py$|/testing/|/cli/entry\.py$"
        # For scripts of users: examples/recipes.
        r"|/train/integrations/"
    )
    unused = [s.name for s in SOURCES if not exempt.search(s.name) and not used(s)]
    assert not unused, f"only tests can use {unused}; move them to tests/ or remove them"


def test_a_page_has_one_title_and_links_that_lead_somewhere() -> None:
    def found() -> Iterator[str]:
        for path in PAGES:
            name = path.relative_to(ROOT)
            text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
            titles = len(re.findall(r"^# ", text, re.MULTILINE))
            if titles != 1:
                yield f"{name} has {titles} titles"
            for target in re.findall(r"\]\(([^)#]+)", text):
                if "://" not in target and not (path.parent / target).exists():
                    yield f"{name} links to {target}"

    offences = _offences(found())
    assert not offences, offences


def test_every_policy_and_verb_is_documented() -> None:
    from treadle.cli.main import VERBS
    from treadle.policies.registry import BUILT_IN

    readme = (ROOT / "README.md").read_text()
    missing = [name for name in [*BUILT_IN, *VERBS] if f"`{name}`" not in readme]
    assert not missing, f"README.md does not mention {missing}"


def test_the_public_names_are_these() -> None:
    assert set(treadle.__all__) == PUBLIC
    assert all(hasattr(treadle, name) for name in PUBLIC)


def _module(source: Source) -> ast.Module:
    first = source.nodes[0]
    assert isinstance(first, ast.Module)
    return first


def _mentioned(source: Source) -> Iterator[str]:
    """Modules that a file imports, and what its strings may name."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def test_rooms_of_control_know_each_other_only_through_their_public_names() -> None:
    offences = []
    for source in SOURCES:
        inside = source.path.relative_to(PACKAGE).parts
        room = inside[1] if inside[0] == "control" and len(inside) > 2 else ""
        offences += [
            f"{source.name} imports from inside control/{target}"
            for target in re.findall(r"from treadle\.control\.(\w+)\.\w+ import", source.text)
            if target != room
        ]
    assert not offences, "\n".join(offences)
