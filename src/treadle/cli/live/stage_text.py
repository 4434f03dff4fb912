"""Where the time of a step goes, in one line, as a job that uses treadle.train measured it."""

from collections.abc import Mapping

from treadle.core.job_report import STAGES, bottleneck

WORDS = {
    "load": "waits for data",
    "prepare": "prepares",
    "compute": "computes",
    "sync": "adds up gradients",
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
    tail = f"; {STAGES[largest]} takes most" if largest else ""
    return f"{seconds_text(step_s)}: {', '.join(parts)}{tail}"


def seconds_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"
