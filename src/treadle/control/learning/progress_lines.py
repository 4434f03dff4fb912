"""How far a job is, read from what it prints: tqdm's bars, Hugging Face's, Lightning's and Keras's
lines, and the plain "step 450/1000" of many scripts.

Nothing has to be added to a script. Only the end of the output is looked at, so that a flood costs
no more than a trickle. Three kinds of lines are distinguished: counts of steps, epochs out of a
known number, and epochs out of an unknown number. The last say how far the job is, but not how
much is left.
"""

import re
from typing import NamedTuple

TAIL_BYTES = 16 * 1024
_SEGMENT_MAX = 2_000  # characters of one line that are looked at

_COUNT = r"(\d[\d.,]{0,15})([kKMG]?)\s{0,8}"
# " 45%|####     | 450/1000 [00:10<00:12, 44.5it/s, loss=0.5]"
_BAR = re.compile(r"\|\s{0,8}" + _COUNT + r"/\s{0,8}" + _COUNT + r"\[([^\]\n]{0,300})")
# "450/1000 [====>....] - ETA: 12s" and "450/1000 ━━━━━━ 12s 230ms/step"
_KERAS = re.compile(r"^\s{0,8}(\d{1,12})/(\d{1,12})\s{1,4}(?:\[[=>.]{2}|[━╸\u2500-\u257f]{2})")
# "step 450/1000", "iteration    450/   1000", "batch: 45 of 100", "[450/1000]"
_STEP = re.compile(
    r"(?:\b(?:global[_ ]?step|step|iter(?:ation)?|batch|update)s?\b(?:\(train\))?[\s:=\[(#]{0,16}"
    r"|\[\s{0,8})(\d{1,12})\s{0,12}(?:/|\bof\b)\s{0,12}(\d{1,12})(?![\d/:.-]|\s{0,2}/)",
    re.IGNORECASE,
)
# "step 450", "iter: 459": how far, and nothing else
_STEP_ALONE = re.compile(
    r"\b(?:global[_ ]?step|step|iter(?:ation)?)s?\b[\s:=#]{1,4}(\d{1,12})(?![\d/]|\.\d|\s{0,12}/)",
    re.IGNORECASE,
)
# "Epoch 3/10", "epoch [3/10]": the third is under way. "Epochs: 30%|##| 3/10": three are done.
_EPOCH_OF = re.compile(
    r"\bepochs?\b(?:\(train\))?[\s:=\[(#]{0,4}(\d{1,6})\]?\s{0,4}(?:/|\bof\b)\s{0,4}(\d{1,6})(?![\d/])",
    re.IGNORECASE,
)
_EPOCH_BAR = re.compile(r"^\s*epochs?\b[^|]{0,40}\|", re.IGNORECASE)
# "Epoch 3:", "Epoch: [3]", "Train: 3 [", "Train Epoch: 3 ["
_EPOCH = re.compile(
    r"\b(?:epoch(?:\(train\))?[\s:\[(]{0,4}|train(?:ing)?:\s{0,2})(\d{1,6})(?=\s{0,4}[\]:\[,|])",
    re.IGNORECASE,
)
# "{'loss': 0.53, 'learning_rate': 2e-05}", "lm loss: 6.5E+00", "loss 0.53"; not "val_loss: 0.6"
_LOSS = re.compile(
    r"(?<![a-z])(?<!val[_ /])(?<!eval[_ /])(?<!test[_ /])(?<!valid[_ /])(?<!validation[_ /])"
    r"(?:train[_ ]?)?loss['\"]?\s{0,4}[:= ]\s{0,4}"
    r"(-?\d{1,15}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)",
    re.IGNORECASE,
)
# Bars of something else than training.
_ASIDE = re.compile(
    r"\b(?:map|filter|load|download|fetch|tokeni[sz]|generat|resolv|extract|eval|valid|sanity|"
    r"test|predict|upload|sav)\w*",
    re.IGNORECASE,
)
_ASIDE_UNITS = re.compile(r"(?:[kKMGT]i?)?B/s|\b(?:ex|examples|files?)/s", re.ASCII)
_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


class Seen(NamedTuple):
    """What the newest lines with progress say."""

    step: float
    total: float | None
    loss: float | None


class _Count(NamedTuple):
    step: float
    total: float


def read(tail: str) -> Seen | None:
    """The newest progress in the end of a log; None if there is none."""
    segments = [part[:_SEGMENT_MAX] for part in re.split(r"[\r\n]+", tail) if part.strip()]
    segments.reverse()
    counted = _steps(segments)
    if counted is None:
        return _without_steps(segments, _newest_loss(segments))
    count, place = counted
    # A line that has both a step and a loss is of one moment.
    loss = _loss(segments[place])
    loss = _newest_loss(segments) if loss is None else loss
    within = _count(_EPOCH_OF.search(segments[place]))
    if within is None and _EPOCH.search(segments[place]):
        epoch = float(_EPOCH.search(segments[place])[1])  # type: ignore[index]
        return Seen(epoch * count.total + count.step, None, loss)
    epochs = within or _epochs_around(segments[place:])
    if epochs is not None:
        step = (epochs.step - 1) * count.total + count.step
        return Seen(max(0.0, step), epochs.total * count.total, loss)
    return Seen(count.step, count.total, loss)


def _without_steps(segments: list[str], loss: float | None) -> Seen | None:
    """Epochs alone, or a count without its end."""
    for part in segments:
        epochs = _count(_EPOCH_OF.search(part)) or _epoch_bar(part)
        if epochs is not None:
            return Seen(epochs.step, epochs.total, loss)
        alone = _STEP_ALONE.search(part)
        if alone is not None and (step := _number(alone[1])) is not None:
            return Seen(step, None, loss)
    return None


def _steps(segments: list[str]) -> tuple[_Count, int] | None:
    """The newest count of the most steps, and where it stands.

    Around the steps of training there are bars of evaluations, which have fewer, and before them
    some of preparations, which are known by their names and units.
    """
    best: tuple[_Count, int] | None = None
    for place, part in enumerate(segments):
        count = _counted(part)
        if count is not None and (best is None or count.total > best[0].total):
            best = (count, place)
    return best


def _counted(part: str) -> _Count | None:
    bar = _BAR.search(part)
    if bar is not None:
        aside = _ASIDE.search(part[: bar.start()]) or _ASIDE_UNITS.search(bar[5])
        if aside or (_EPOCH_BAR.search(part[: bar.start() + 1]) and not _within_epoch(part)):
            return None
        return _made(_scaled(bar[1], bar[2]), _scaled(bar[3], bar[4]))
    return _count(_KERAS.search(part)) or _count(_STEP.search(_EPOCH_OF.sub("", part)))


def _within_epoch(part: str) -> bool:
    """Whether a bar that begins with "Epoch" counts the steps of one."""
    return bool(_EPOCH_OF.search(part.partition("%")[0]) or _EPOCH.search(part.partition("%")[0]))


def _epochs_around(segments: list[str]) -> _Count | None:
    """The newest word about epochs, if it is not of the same line."""
    for part in segments[1:]:
        bar = _epoch_bar(part)
        if bar is not None:
            return _Count(bar.step + 1, bar.total) if bar.step < bar.total else bar
        if (epochs := _count(_EPOCH_OF.search(part))) is not None:
            return epochs
    return None


def _epoch_bar(part: str) -> _Count | None:
    bar = _BAR.search(part)
    if bar is None or not _EPOCH_BAR.search(part[: bar.start() + 1]) or _within_epoch(part):
        return None
    return _made(_scaled(bar[1], bar[2]), _scaled(bar[3], bar[4]))


def _count(found: re.Match[str] | None) -> _Count | None:
    return None if found is None else _made(_number(found[1]), _number(found[2]))


def _made(step: float | None, total: float | None) -> _Count | None:
    if step is None or total is None or not 0 < total < 1e15 or not 0 <= step <= total:
        return None
    return _Count(step, total)


def _newest_loss(segments: list[str]) -> float | None:
    return next((found for part in segments if (found := _loss(part)) is not None), None)


def _loss(part: str) -> float | None:
    found = _LOSS.search(part)
    return None if found is None else _number(found[1])


def _scaled(digits: str, unit: str) -> float | None:
    value = _number(digits.replace(",", ""))
    return None if value is None else value * _SCALE[unit]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
