"""Which part of the time is worth looking at first.

One job that runs for months after all others turns every chart over time into a spike and a line.
A run is therefore taken as done when 99 % of its device time is, or when from then on only a tenth
of the devices that it used at its peak were in use; the rest can be shown, but is not at first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.reports.comparison import Comparison

_DONE_SHARE = 0.99  # of device time
_THIN_SHARE = 0.1  # of the devices in use at the peak
_CUT_MIN = 0.25  # of the whole span; to cut less would not be worth a word


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """The time up to which charts are drawn at first, and what is left out by that."""

    length_s: float  # since the first submission
    cut_s: float  # nothing is left out where this is zero
    cut_devices: int  # in use at most in what is left out
    cut_share: float  # of the device time of the run that has most of it there


def chart_span(comparison: Comparison) -> ChartSpan:
    """The whole span, or the part of it without a long and thin end."""
    from_at, end_at = comparison.span()
    series = [run.recorder.series for run in comparison.runs]
    done_at = max((_done_at(one.at, one.busy) for one in series if one.at), default=end_at)
    span_s = end_at - from_at
    length_s = (done_at - from_at) * 1.03  # a little of what follows shows that it is over
    if span_s <= 0.0 or length_s <= 0.0 or span_s - length_s < _CUT_MIN * span_s:
        return ChartSpan(span_s, 0.0, 0, 0.0)
    rest = [_rest(one.at, one.busy, from_at + length_s) for one in series]
    devices, shares = zip(*rest, strict=True)
    return ChartSpan(length_s, span_s - length_s, int(max(devices)), max(shares))


def _done_at(at: Sequence[float], busy: Sequence[float]) -> float:
    """Walk back from the end while either rule lets us."""
    thin = _THIN_SHARE * max(busy)
    spare_s = (1.0 - _DONE_SHARE) * _device_s(at, busy)
    for index in range(len(at) - 2, -1, -1):
        past_s = at[index + 1] - at[index]
        spare_s -= past_s * busy[index]
        if spare_s < 0.0 and busy[index] > thin:
            # A part of this stretch may still be spared.
            return at[index + 1] - max(spare_s + past_s * busy[index], 0.0) / busy[index]
    return at[0]


def _rest(at: Sequence[float], busy: Sequence[float], from_at: float) -> tuple[float, float]:
    """Most devices in use after a moment, and the share of device time there."""
    whole_s = _device_s(at, busy)
    most = rest_s = 0.0
    for index in range(len(at) - 2, -1, -1):
        if at[index + 1] <= from_at:
            break
        most = max(most, busy[index])
        rest_s += (at[index + 1] - max(at[index], from_at)) * busy[index]
    return most, rest_s / whole_s if whole_s else 0.0


def _device_s(at: Sequence[float], busy: Sequence[float]) -> float:
    return sum((at[index + 1] - at[index]) * busy[index] for index in range(len(at) - 1))
