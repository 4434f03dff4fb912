"""Is this tree slower than the commit before it? Ratios from one run, the same on any machine.

    python -m benchmarks.before [--base COMMIT]

Both versions run the same commands. What counts first is the number
of bytecodes that treadle's own functions execute: it is the same in every run. The CPU time of a
longer run, both versions in turns and the least of several, also sees what libraries do.
The base of a branch is where it left main; on main it is the commit before.

A change that is meant to be slower says so in its commit message, with the ratio that is allowed:

    Slower: weave-l 1.3
"""

import argparse
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST = 1.1
# Pairs of CPU times: as many, and more while the ratio of the least ones is above MOST.
PAIRS_MIN, PAIRS_MAX = 3, 8
CPU = "CPU"
# Sets in one order in both versions, and compiled modules that are kept.
ALIKE = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""}

# Small enough that all of them are counted in 10 s, both versions together.
COMMANDS: Mapping[str, Sequence[str]] = {
    "start": ("policies", "--json"),
    "fifo": ("simulate", "generate:poisson?jobs=150&seed=1", "--policy", "fifo"),
    "srtf": ("simulate", "generate:philly?jobs=150&seed=1", "--policy", "srtf"),
    "afs": ("simulate", "generate:poisson?jobs=40&seed=1", "--policy", "afs", "--elastic", "0.05"),
    "weave-l": ("simulate", "generate:philly?jobs=20&seed=1", "--policy", "weave-l"),
    "live": ("simulate", "generate:poisson?jobs=40&seed=1", "--policy", "srtf", "--live"),
}
TIMED = ("simulate", "generate:philly?jobs=2000&seed=1", "--cluster", "32x8", "--policy", "las")
# Counts the bytecodes of functions of the package, those that dataclasses write included.
COUNT = """
import json, os, runpy, sys

class Ended(BaseException):
    pass

def end(code):
    raise Ended(code)

def each(frame, event, argument):
    global executed
    executed += event == "opcode"
    return each

def called(frame, event, argument):
    name = frame.f_code.co_filename
    if name.startswith(package) or name == "<string>":
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return each

os._exit = end
package, counts = sys.argv[1], {}
for name, words in json.loads(sys.argv[2]).items():
    executed, sys.argv = 0, ["treadle", *words]
    sys.settrace(called)
    try:
        runpy.run_module("treadle", run_name="__main__")
    except BaseException as error:
        sys.settrace(None)
        if not isinstance(error, Ended) or error.args[0]:
            print(error, file=sys.stderr)
            continue
    sys.settrace(None)
    counts[name] = executed
print("\\n" + json.dumps(counts))
"""


class Base(NamedTuple):
    """The commit to compare with; without one, the reason."""

    commit: str
    why: str = ""


def base(root: Path = ROOT) -> Base:
    """Where this branch left main; on main the commit before, or this one if src was edited."""
    head = _git(root, "rev-parse", "HEAD")
    if not head:
        return Base("", "there is no git history")
    for main in ("origin/main", "main"):
        fork = _git(root, "merge-base", "HEAD", main)
        if fork and fork != head:
            return Base(fork)
    if _git(root, "status", "--porcelain", "--", "src"):
        return Base(head)
    before = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    return Base(before) if before else Base("", "the commit before is not in this clone")


def slower(found: Base, root: Path = ROOT) -> dict[str, float]:
    """The ratios that are above what is allowed, by name; prints all."""
    changed = _git(root, "diff", "--name-only", found.commit, "--", "src")
    if not changed and not _git(root, "status", "--porcelain", "--", "src"):
        print(f"src is as in {found.commit[:9]}")
        return {}
    allowed = _allowed(_git(root, "log", "--format=%B", f"{found.commit}..HEAD"))
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", found.commit, "src"], cwd=root, capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as old:
            old.extractall(folder, filter="data")
        ratios = compare(Path(folder) / "src", root / "src")
    for name, ratio in ratios.items():
        print(f"{name:<10} {ratio:6.3f} times {found.commit[:9]}")
    return {name: ratio for name, ratio in ratios.items() if ratio > allowed.get(name, MOST)}


def compare(
    old: Path,
    new: Path,
    commands: Mapping[str, Sequence[str]] = COMMANDS,
    timed: Sequence[str] = TIMED,
) -> dict[str, float]:
    """What the new version takes over what the old one takes: bytecodes, and CPU time.

    A command that the old version does not know is left out.
    """
    before, after = _counts(old, commands), _counts(new, commands)
    lost = set(before) - set(after)
    assert not lost, f"these commands fail now: {', '.join(sorted(lost))}"
    ratios = {name: after[name] / count for name, count in before.items()}
    before_s = after_s = inf
    for pair in range(PAIRS_MAX):
        before_s, after_s = min(before_s, _cpu_s(old, timed)), min(after_s, _cpu_s(new, timed))
        if pair + 1 >= PAIRS_MIN and after_s <= MOST * before_s:
            break
    return {**ratios, CPU: after_s / before_s if before_s else 1.0}


def _counts(tree: Path, commands: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The bytecodes that each command executes; those that fail are left out."""
    done = _run(tree, "-c", COUNT, str(tree / "treadle"), json.dumps(commands))
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def _cpu_s(tree: Path, words: Sequence[str]) -> float:
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _run(tree, "-m", "treadle", *words)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before_s


def _run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **ALIKE, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def _allowed(messages: str) -> dict[str, float]:
    """What commit messages allow: `Slower: NAME RATIO`."""
    found = re.findall(r"^Slower: (\S+) (\d+(?:\.\d+)?)\b", messages, re.MULTILINE)
    return {name: float(ratio) for name, ratio in found}


def _git(root: Path, *words: str) -> str:
    """What git answers; empty if it cannot, or is not there."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="a commit to compare with")
    options = parser.parse_args()
    found = Base(options.base) if options.base else base()
    if not found.commit:
        print(f"not compared: {found.why}")
        return 0
    missed = slower(found)
    for name, ratio in missed.items():
        print(f"{name} takes {ratio:.2f} times what it took, more than {MOST}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
