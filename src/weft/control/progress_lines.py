"""How far a job is, read from what it prints: tqdm's bars, Hugging Face's and Lightning's lines.

Nothing has to be added to a script. Only the end of the output is looked at, so that a flood costs
no more than a trickle.
"""

import re
from typing import NamedTuple

TAIL_BYTES = 16 * 1024
_SEGMENT_MAX = 2_000  # characters of one line that are looked at

# " 45%|####     | 450/1000 [00:10<00:12, 44.5it/s, loss=0.5]"
_BAR = re.compile(r"\|\s*(\d[\d.,]*)([kKMG]?)/(\d[\d.,]*)([kKMG]?)\s*\[[^\]\n]{0,200}")
# "step 450/1000", "Epoch 3/10", "iteration: 45 of 100", "[450/1000]"
_STEP = re.compile(
    r"(?:\b(?:global[_ ]?step|step|iter(?:ation)?|batch|update)s?\b[\s:=\[(#]{0,4}|\[\s*)"
    r"(\d{1,12})\s*(?:/|\bof\b)\s*(\d{1,12})",
    re.IGNORECASE,
)
# "{'loss': 0.53, 'learning_rate': 2e-05, 'epoch': 1.27}"
_LOSS = re.compile(
    r"\b(?:train[_ ]?)?loss['\"]?\s*[:=]\s*(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)", re.IGNORECASE
)
_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


class Seen(NamedTuple):
    """What the newest line with progress says."""

    step: float
    total: float | None
    loss: float | None


def read(tail: str) -> Seen | None:
    """The newest progress in the end of a log; None if there is none.

    Bars that are nested (epochs around steps) end in the innermost one; it starts again from 0, so
    it says nothing of the whole. The bar with the most steps is taken then.
    """
    segments = [part[:_SEGMENT_MAX] for part in re.split(r"[\r\n]+", tail) if part.strip()]
    loss = None
    best: tuple[float, float] | None = None
    for segment in reversed(segments):
        if loss is None and (found := _LOSS.search(segment)):
            loss = _number(found[1])
        here = _counted(segment)
        if here is not None and (best is None or here[1] > best[1]):
            best = here
        if best is not None and loss is not None:
            break
    if best is None:
        return None
    step, total = best
    return Seen(min(step, total), total, loss)


def _counted(segment: str) -> tuple[float, float] | None:
    bar = _BAR.search(segment)
    if bar is not None:
        step, total = _scaled(bar[1], bar[2]), _scaled(bar[3], bar[4])
    else:
        step_of = _STEP.search(segment)
        if step_of is None:
            return None
        step, total = _number(step_of[1]), _number(step_of[2])
    if step is None or total is None or not 0 < total < 1e15 or not 0 <= step <= total:
        return None
    return step, total


def _scaled(digits: str, unit: str) -> float | None:
    value = _number(digits.replace(",", ""))
    return None if value is None else value * _SCALE[unit]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
