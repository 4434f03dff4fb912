"""Ranks that are killed at random steps: python -m tests.train.kills [TRIALS] [SEED] [plans]

Each trial starts 2 to 4 members, changes them at random and kills 1 to 3 of them at random steps.
It must end with the losses of an undisturbed run, no step applied twice, and in time. With `plans`
the plan changes too; a loss under a plan that splits the model goes back to a checkpoint.
"""

import sys
from random import Random

from tests.train.checks import check_same, check_steps, losses
from tests.train.harness import Event, Result, Scenario, run
from tests.train.scripts import SAMPLES

BATCH = 8
EPOCHS = 8
PLACES = "abcdef"
TIMEOUT_S = 20.0  # of the collectives: the longest that a loss may cost


def scenario(seed: int) -> Scenario:
    draw = Random(seed)
    steps = EPOCHS * -(-SAMPLES // BATCH)
    start = tuple(PLACES[: draw.randint(2, 4)])
    events = [
        Event(draw.randint(1, steps - 4), kill=draw.randint(0, 3), settled=False)
        for _ in range(draw.randint(1, 3))
    ]
    for _ in range(draw.randint(0, 2)):
        places = tuple(sorted(draw.sample(PLACES, draw.randint(1, 4))))
        events.append(Event(draw.randint(1, steps - 4), places, settled=False))
    events.sort(key=lambda event: event.at_step)
    kind = draw.choice(["transformer", "cnn"])
    return Scenario("loop", start, events, {"kind": kind, "epochs": EPOCHS, "batch": BATCH})


def planned(seed: int) -> Scenario:
    """The same with plans that fit."""
    draw, case = Random(seed), scenario(seed)
    case.events = [event for event in case.events if event.kill is not None][:2] + [
        Event(draw.randint(1, 40), tuple(PLACES[: draw.choice((2, 4))]), settled=False)
        for _ in range(2)
    ]
    case.events.sort(key=lambda event: event.at_step)
    case.start = tuple(PLACES[:2])
    plans = ("", "zero-3", "recompute x2", "zero-1", "t2")
    case.plan = draw.choice(plans[:4])
    case.options |= {"kind": "transformer", "every_s": 0.5}
    for event in case.events:
        event.plan = draw.choice(plans)
    return case


def reference(kind: str) -> dict[int, float]:
    alone = run(Scenario("loop", ("a",), [], {"kind": kind, "epochs": EPOCHS, "batch": BATCH}))
    return losses(alone, SAMPLES, BATCH)


def trial(seed: int, undisturbed: dict[str, dict[int, float]], *, plans: bool = False) -> Result:
    case = planned(seed) if plans else scenario(seed)
    result = run(case)
    assert not result.hung, f"seed {seed} hangs: {result.facts} {result.errors}"
    assert result.ended["finished"], f"seed {seed}: {result.facts} {result.errors}"
    if not any(change["why"] == "restart" for change in result.changes):
        check_steps(result, SAMPLES, BATCH)
    known = losses(result, SAMPLES, BATCH)
    check_same(known, undisturbed[case.options["kind"]], at_least=0.8)
    return result


def main() -> int:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    undisturbed = {kind: reference(kind) for kind in ("transformer", "cnn")}
    longest, failed = 0.0, 0
    for seed in range(first, first + trials):
        try:
            result = trial(seed, undisturbed, plans="plans" in sys.argv)
        except AssertionError as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {str(error)[:3000]}\n")
            continue
        longest = max(longest, result.took_s)
        lost = sum(code == -9 for code in result.codes.values())
        sys.stdout.write(f"seed {seed}: {lost} killed, {result.took_s:.1f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{trials} trials, {failed} failed, the longest took {longest:.1f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
