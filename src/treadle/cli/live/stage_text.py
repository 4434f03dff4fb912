"""Where the time of a step goes, in one line, as a job that uses treadle.train measured it."""

from collections.abc import Mapping

WORDS = {
    "load": "waits for data",
    "prepare": "prepares",
    "compute": "computes",
    "sync": "adds up gradients",
}
BOTTLENECKS = {
    "load": "loading data",
    "prepare": "preparing data",
    "compute": "computing",
    "sync": "the network",
}
SHOWN = 0.005  # smaller shares of a step are left out


def step_text(stages: Mapping[str, float]) -> str:
    """Empty if nothing is known."""
    step_s = stages.get("step", 0.0)
    if step_s <= 0:
        return ""
    parts = [
        f"{words} {seconds_text(stages[name])}"
        for name, words in WORDS.items()
        if stages.get(name, 0.0) > SHOWN * step_s
    ]
    largest = bottleneck(stages)
    tail = f"; {BOTTLENECKS[largest]} takes most" if largest else ""
    return f"{seconds_text(step_s)}: {', '.join(parts)}{tail}"


def bottleneck(stages: Mapping[str, float]) -> str:
    """The stage that takes most of a step; empty if none is known."""
    known = {name: stages[name] for name in BOTTLENECKS if stages.get(name, 0.0) > 0}
    return max(known, key=lambda name: known[name]) if known else ""


def seconds_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"
