"""What must be true of every run, whatever happened to it."""

from collections import defaultdict
from typing import Any

from tests.train.harness import Result

TOLERANCE = 2e-5  # sums in another order, over a few hundred steps


def steps_of(result: Result) -> dict[int, list[dict[str, Any]]]:
    """The rows of each applied step, of the group that applied it last, one for each copy of the
    model: the ranks of one copy take the same samples."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in result.rows:
        if row.get("applied"):
            rows[row["step"]].append(row)
    steps = {}
    for step, found in sorted(rows.items()):
        newest = max(row["version"] for row in found)
        last = [row for row in found if row["version"] == newest]
        copies = {row.get("replica", number): row for number, row in enumerate(last)}
        steps[step] = list(copies.values())
    return steps


def check_steps(result: Result, samples: int, batch: int) -> None:
    """Each step once: in order on each process, and elsewhere only if all that had it died.

    A process that is killed between a step and its row has no row, so a batch may lack its share;
    what is there must not overlap.
    """
    lost = {row["pid"] for row in result.rows if "pid" in row} - _alive(result)
    newest: dict[int, int] = {}
    for row in result.rows:
        if not row.get("applied"):
            continue
        assert row["step"] > newest.get(row["pid"], 0), f"step {row['step']} twice on {row['pid']}"
        newest[row["pid"]] = row["step"]
    versions: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in result.rows:
        if row.get("applied"):
            versions[row["step"]][row["version"]].add(row["pid"])
    for step, by_version in versions.items():
        for version in sorted(by_version)[:-1]:
            assert by_version[version] <= lost, f"step {step} was applied in two groups"
    for found in steps_of(result).values():
        taken = [index for row in found for index in row["samples"]]
        assert len(taken) == len(set(taken)) <= min(batch, samples)


def _alive(result: Result) -> set[int]:
    killed = {member for member, code in result.codes.items() if code < 0}
    return {row["pid"] for row in result.rows if "pid" in row and row.get("member") not in killed}


def losses(result: Result, samples: int, batch: int) -> dict[int, float]:
    """The loss of each step of which every share is known."""
    per_epoch = -(-samples // batch)
    found = {}
    for step, rows in steps_of(result).items():
        last = (step - 1) % per_epoch == per_epoch - 1
        whole = samples - (per_epoch - 1) * batch if last else batch
        if sum(len(row["samples"]) for row in rows) == whole:
            found[step] = sum(row["loss"] for row in rows)
    return found


def check_same(ours: dict[int, float], theirs: dict[int, float], *, at_least: float = 0.9) -> None:
    """The same loss at each step that both know."""
    both = ours.keys() & theirs.keys()
    assert len(both) >= at_least * len(theirs), f"only {len(both)} of {len(theirs)} steps are known"
    apart = {step: abs(ours[step] - theirs[step]) for step in both}
    worst = max(apart, key=lambda step: apart[step])
    assert apart[worst] < TOLERANCE, f"step {worst}: {ours[worst]} and {theirs[worst]}"


def check_samples(result: Result, samples: int, *, stopped: bool = False) -> None:
    """Each sample exactly once in each epoch (only if no member was killed).

    stopped: the last epoch was not finished.
    """
    taken: dict[int, list[int]] = defaultdict(list)
    for rows in steps_of(result).values():
        for row in rows:
            taken[row["epoch"]] += row["samples"]
    assert taken, "no step was applied"
    if stopped:
        del taken[max(taken)]
    for epoch, indices in taken.items():
        assert sorted(indices) == list(range(samples)), f"epoch {epoch}"
