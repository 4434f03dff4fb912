"""What the rows of an elastic job say: each step once along what became of it, and the losses."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.on_ray.elastic_job import BATCH, SAMPLES

Row = dict[str, Any]
STEPS = SAMPLES // BATCH  # of an epoch


def read(folder: Path) -> list[Row]:
    """All rows, in the order of their times; a line that is being written is left out."""
    texts = [path.read_text() for path in folder.glob("rows-*.jsonl")]
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    return sorted((json.loads(line) for line in lines if line.endswith("}\n")), key=_at)


def _at(row: Row) -> float:
    return float(row["at"])


def steps(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["what"] == "step"]


def newest_size(folder: Path) -> int:
    """How many ranks the newest step had; 0 before the first."""
    found = steps(read(folder))
    return int(found[-1]["size"]) if found else 0


@dataclass(frozen=True)
class Lineage:
    """The steps that the final weights consist of."""

    by_step: dict[int, list[Row]]  # the rows of all ranks, of the attempt that counts
    redone: dict[int, list[int]]  # by attempt: its steps that were lost with it, and done again

    @property
    def losses(self) -> list[float]:
        return [self.by_step[step][0]["loss"] for step in sorted(self.by_step)]


def lineage(rows: Iterable[Row]) -> Lineage:
    """Checks each attempt: every step once on every rank, in order, from where it resumed."""
    by_attempt: dict[int, dict[int, list[Row]]] = {}
    for row in steps(rows):
        by_attempt.setdefault(row["attempt"], {}).setdefault(row["step"], []).append(row)
    whole: dict[int, list[Row]] = {}
    redone: dict[int, list[int]] = {}
    for attempt, found in sorted(by_attempt.items()):
        first, last = min(found), max(found)
        assert list(found) == list(range(first, last + 1)), f"attempt {attempt} left steps out"
        assert first <= max(whole, default=0) + 1, f"attempt {attempt} begins at step {first}"
        for step, ranks in found.items():
            pids = [row["pid"] for row in ranks]
            assert len(pids) == len(set(pids)), f"step {step} twice in attempt {attempt}"
        for step in [each for each in whole if each >= first]:
            redone.setdefault(whole[step][0]["attempt"], []).append(step)
            del whole[step]
        whole |= found
    return Lineage(whole, redone)


def check_samples(found: Lineage, last: int, killed_at: float = 0.0) -> None:
    """Every sample once in each epoch, up to that step, and no step is missing.

    killed_at: a rank was killed then, before or after it wrote its row of that step.
    """
    torn = [s for s, rows in found.by_step.items() if rows[0]["at"] <= killed_at]
    assert sorted(found.by_step) == list(range(1, last + 1))
    for first in range(1, last + 1, STEPS):
        steps = range(first, first + STEPS)
        if torn and {max(torn), max(torn) + 1} & {*steps}:
            continue
        epoch = [row for step in steps for row in found.by_step[step]]
        seen = sorted(sample for row in epoch for sample in row["samples"])
        assert seen == list(range(SAMPLES)), f"from step {first}"
