"""The time span that charts show at first, without a long tail.

One job that runs for months after all others turns every chart over time into a spike and a line.
So charts end when 99 % of the device time is over, or when from then on at most a tenth of the
devices in use at the peak were in use. The reader can show the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.reports.comparison import Comparison

_DONE_SHARE = 0.99  # of device time
_THIN_SHARE = 0.1  # of the devices in use at the peak
_CUT_MIN = 0.25  # of the whole span; a shorter tail is not cut


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """The time span that charts show at first, and what they leave out."""

    length_s: float  # since the first submission
    cut_s: float  # length of the tail left out; 0: nothing
    cut_devices: int  # most devices in use in the tail
    cut_share: float  # the tail's share of device time, in the run where it is largest


def chart_span(comparison: Comparison) -> ChartSpan:
    """The whole span, or the span without a long tail of few devices."""
    from_at, end_at = comparison.span()
    series = [run.recorder.series for run in comparison.runs]
    done_at = max((_done_at(one.at, one.busy) for one in series if one.at), default=end_at)
    span_s = end_at - from_at
    length_s = (done_at - from_at) * 1.03  # a margin shows that the main part is over
    if span_s <= 0.0 or length_s <= 0.0 or span_s - length_s < _CUT_MIN * span_s:
        return ChartSpan(span_s, 0.0, 0, 0.0)
    rest = [_rest(one.at, one.busy, from_at + length_s) for one in series]
    devices, shares = zip(*rest, strict=True)
    return ChartSpan(length_s, span_s - length_s, int(max(devices)), max(shares))


def _done_at(at: Sequence[float], busy: Sequence[float]) -> float:
    """Walk back from the end while either rule holds."""
    thin = _THIN_SHARE * max(busy)
    spare_s = (1.0 - _DONE_SHARE) * _device_s(at, busy)
    for index in range(len(at) - 2, -1, -1):
        past_s = at[index + 1] - at[index]
        spare_s -= past_s * busy[index]
        if spare_s < 0.0 and busy[index] > thin:
            # Part of this interval may still be cut.
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
