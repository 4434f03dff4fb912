"""Rules of this repository that a program can check, checked by a program."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import treadle

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CODE = [
    *SOURCES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "benchmarks").glob("*.py")),
]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
BANNED_FILES = {"utils.py", "helpers.py", "misc.py", "common.py"}
BANNED_ENDINGS = ("Manager", "Helper", "Base", "Impl", "Info", "Util")
CLOCK_READERS = {
    "control/loop/clock.py",
    "cli/show/progress_bar.py",
    "cli/study/simulate.py",
    "cli/study/compare.py",
}
# Stopwatches, handed over as arguments.
CLOCK_READERS |= {
    "cli/study/explain.py",
    "sim/sweep.py",
    "replications/paper.py",
    "cli/study/replicate.py",
}
CLOCK_READERS |= {"cli/study/analyze.py"}
# Processes of their own, or apart from the event loop: they wait and count for themselves.
CLOCK_READERS |= {"engines/node/supervisor.py", "engines/node/output_capture.py", "store/deadline.py"}
CLOCK_READERS |= {"client/pace.py", "cli/show/clock.py", "report.py"}
# What `import treadle` offers; growing it is a visible act.
PUBLIC = {
    "Allocation",
    "AsyncClient",
    "Change",
    "Client",
    "Cluster",
    "Device",
    "InvalidInputError",
    "Job",
    "JobRequest",
    "JobSpec",
    "Node",
    "Plan",
    "Policy",
    "PolicyError",
    "Profile",
    "Rank",
    "Reason",
    "Schedule",
    "Scheduler",
    "Snapshot",
    "Start",
    "Stop",
    "TreadleError",
    "__version__",
    "report",
}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", CODE, ids=_name)
def test_functions_and_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX, f"{_name(path)} is too long"
    for function in _functions(path):
        assert function.end_lineno is not None
        length = function.end_lineno - function.lineno + 1
        assert length <= FUNCTION_LINES_MAX, f"{_name(path)}: {function.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_every_module_opens_with_its_idea(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{_name(path)} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_names_say_what_things_are(path: Path) -> None:
    assert path.name not in BANNED_FILES, f"{_name(path)}: its concept has no name yet"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(BANNED_ENDINGS), f"{_name(path)}: {node.name}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_only_a_few_files_read_a_clock(path: Path) -> None:
    inside = str(path.relative_to(ROOT / "src" / "treadle"))
    if re.search(
        r"^\s*(import time\b|from time import|import datetime\b)", path.read_text(), re.MULTILINE
    ):
        assert inside in CLOCK_READERS, f"{inside} reads a clock; take the time as an argument"


@pytest.mark.parametrize("path", CODE, ids=_name)
def test_no_leftovers(path: Path) -> None:
    if path.name == Path(__file__).name:
        return
    found = re.findall(r"\b(?:TODO|FIXME|XXX)\b", path.read_text())
    assert not found, f"{_name(path)} has leftovers: {found}"


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_page_has_one_title_and_links_that_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, (
        f"{_name(path)} needs exactly one title"
    )
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{_name(path)} links to {target}"


def test_every_policy_and_verb_is_documented() -> None:
    from treadle.cli.main import VERBS
    from treadle.policies.registry import BUILT_IN

    readme = (ROOT / "README.md").read_text()
    missing = [name for name in [*BUILT_IN, *VERBS] if f"`{name}`" not in readme]
    assert not missing, f"README.md does not mention {missing}"


def test_the_public_names_are_these() -> None:
    assert set(treadle.__all__) == PUBLIC
    assert all(hasattr(treadle, name) for name in PUBLIC)
