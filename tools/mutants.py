"""Change the source in a seeded sample of places, and see whether the tests notice.

    python -m tools.mutants --sample 400 --seed 1

Prints a table by file and every survivor. It fails if fewer than 90 % are killed, or if a survivor
is not in tools/mutants_survivors.toml with the reason why no test can or need notice it.
"""

import argparse
import json
import os
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.mutation.limits import QUIET
from tools.mutation.plan import sample, sources
from tools.mutation.runner import Outcome, Runner

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src/treadle/core", "src/treadle/policies/base")
TESTS = (
    "tests/unit/core",
    "tests/unit/policies",
    "tests/properties/test_difference.py",
    "tests/properties/test_scheduler.py",
)
SURVIVORS = ROOT / "tools" / "mutants_survivors.toml"
KILLED_MIN = 0.9

Key = tuple[str, str, str]  # file, line of text, change


def main(words: Sequence[str]) -> int:
    options = _options(words)
    os.chdir(ROOT)
    chosen = sample(sources([Path(f) for f in options.folders]), options.sample, options.seed)
    if options.only:
        chosen = [row for row in chosen if options.only in f"{row[1].path}:{row[1].line}:"]
    print(f"{len(chosen)} mutants, seed {options.seed}", flush=True)
    runner = Runner(
        chosen,
        workers=options.workers,
        budget_s=options.budget_s,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    begun_s = time.monotonic()
    pytest.main([*QUIET, *options.tests], plugins=[runner])
    if len(runner.outcomes) != len(chosen):
        print("the tests could not be collected", file=sys.stderr)
        return 2
    reasons = _reasons()
    for name in runner.baseline.failed:
        print(f"left out, fails on the unchanged source: {name}")
    _print_table(runner.outcomes)
    unlisted = _print_survivors(runner.outcomes, reasons)
    killed = sum(outcome.killed for outcome in runner.outcomes)
    share = killed / len(chosen)
    took_s = time.monotonic() - begun_s
    print(f"{killed} of {len(chosen)} killed: {share:.1%}, in {took_s:.0f} s")
    if options.json:
        _write(Path(options.json), options, runner.outcomes, reasons, took_s)
    return 1 if unlisted or share < KILLED_MIN else 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, default=450, help="how many mutants to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget-s", type=float, default=5, help="CPU time of tests for a mutant")
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--only", help="keep those of the sample whose path:line: contains this")
    parser.add_argument("--json", help="write every outcome to this file")
    return parser.parse_args(words)


def _key(outcome: Outcome) -> Key:
    mutant = outcome.mutant
    return _name(outcome), mutant.text, mutant.change


def _name(outcome: Outcome) -> str:
    return str(outcome.mutant.path.relative_to(ROOT / "src" / "treadle"))


def _reasons() -> dict[Key, str]:
    rows = tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    return {(row["file"], row["line"], row["change"]): row["reason"] for row in rows}


def _print_table(outcomes: Sequence[Outcome]) -> None:
    by_file: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_file.setdefault(_name(outcome), []).append(outcome)
    print(f"{'file':32} {'mutants':>8} {'killed':>8} {'share':>7}")
    for name, those in by_file.items():
        killed = sum(outcome.killed for outcome in those)
        print(f"{name:32} {len(those):8} {killed:8} {killed / len(those):7.0%}")


def _print_survivors(outcomes: Sequence[Outcome], reasons: dict[Key, str]) -> int:
    """Each with its reason; how many have none."""
    unlisted = 0
    for outcome in outcomes:
        if outcome.killed:
            continue
        mutant = outcome.mutant
        print(f"survived  {_name(outcome)}:{mutant.line}  {mutant.text}")
        print(f"          {mutant.change}; {outcome.tests} tests run this line")
        reason = reasons.get(_key(outcome))
        unlisted += reason is None
        print(f"          {reason or f'NOT LISTED in {SURVIVORS.relative_to(ROOT)}'}")
    return unlisted


def _write(
    path: Path,
    options: argparse.Namespace,
    outcomes: Sequence[Outcome],
    reasons: dict[Key, str],
    took_s: float,
) -> None:
    rows = [
        {
            "file": _name(outcome),
            "line": outcome.mutant.line,
            "text": outcome.mutant.text,
            "change": outcome.mutant.change,
            "killed": outcome.killed,
            "tests": outcome.tests,
            "reason": reasons.get(_key(outcome)),
        }
        for outcome in outcomes
    ]
    document = {"seed": options.seed, "seconds": round(took_s), "mutants": rows}
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
