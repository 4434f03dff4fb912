"""Counts, lengths of time, waits and figures as text."""

from math import inf, nan

import pytest

from treadle.core import wording as w

TEXTS = [
    # Counts and names.
    (w.several(0, "job"), "0 jobs"),
    (w.several(1, "job"), "1 job"),
    (w.several(1234, "job"), "1,234 jobs"),
    (w.several(2, "entry", "entries"), "2 entries"),
    (w.jobs(1, "waits", "wait"), "1 job waits"),
    (w.jobs(2, "waits", "wait"), "2 jobs wait"),
    ([w.times(n) for n in (0, 1, 2, 3)], ["0 times", "once", "twice", "3 times"]),
    ([w.ordinal(n) for n in (1, 2, 3, 4)], ["1st", "2nd", "3rd", "4th"]),
    ([w.ordinal(n) for n in (11, 12, 13, 21)], ["11th", "12th", "13th", "21st"]),
    ([w.ordinal(n) for n in (112, 1001, 1011)], ["112th", "1,001st", "1,011th"]),
    ([w.listed("abc"[:n], 2) for n in range(4)], ["", "a", "a, b", "a, b and 1 more"]),
    ([w.sizes(n) for n in ([2], [1, 2], [2, 4], [3, 4, 5])], ["2", "1..2", "2,4", "3..5"]),
    (w.named_jobs(["a"], 2), "job a"),
    (w.named_jobs(["a", "b", "c"], 2), "jobs a, b and 1 more"),
    (w.too_large(2048, 1024), "it asks for 2,048 devices and the cluster has 1,024"),
    # Memory.
    (w.gib_texts((0.0, 64.0), " of "), "0 of 64 GiB"),
    (w.gib_texts((0.0977, 16.0), " of "), "100 MiB of 16 GiB"),
    (w.gib_texts((0.0, 0.0), " of "), "0 MiB of 0 MiB"),
    # Words that are like a known one.
    (w.did_you_mean("cnacel", ["cancel", "ps"]), "; did you mean cancel?"),
    (w.did_you_mean("zzz", ["cancel", "ps"]), ""),
    (w.did_you_mean("shortest", ["srtf"]), ""),
    (w.did_you_mean("shortest", ["srtf"], similar=0.4), "; did you mean srtf?"),
    (w.closest("a" * 60 + "z" * 10_000, ["a" * 60], similar=1.0), "a" * 60),
    # Lengths of time in a sentence: two digits of the largest unit that fits.
    ([w.span(s) for s in (0.99, 1.0, 60.0, 90.0)], ["a moment", "1 s", "1 min", "1.5 min"]),
    ([w.span(s) for s in (594.0, 3599.0, 3600.0)], ["9.9 min", "60 min", "1 h"]),
    ([w.span(s) for s in (86_399.0, 86_400.0, 187_200.0)], ["24 h", "1 day", "2.2 days"]),
    # In a column: two units, never rounded up.
    ([w.short_span(s) for s in (None, -1.0, 1.0, 59.6)], ["", "0s", "1s", "1m"]),
    ([w.short_span(s) for s in (3599.0, 3660.0, 86_399.0)], ["59m", "1h01m", "23h59m"]),
    ([w.short_span(s) for s in (86_400.0, 172_799.0)], ["1d00h", "1d23h"]),
    ([w.ago(at, 100.0) for at in (40.0, None)], ["1m ago", ""]),
    # As a range, which never says zero seconds nor less than it knows.
    (w.from_to(0.1, 0.4), "less than 1s"),
    (w.from_to(None, 0.0), "less than 1s"),
    (w.from_to(0.2, 12.0), "up to 12s"),
    (w.from_to(None, 119.0), "at most 1m59s"),
    (w.from_to(0.9, 1.2), "about 1s"),
    # Measured, in the unit that a person would choose; together in one unit.
    ([w.duration(s) for s in (None, inf, nan)], [None, None, None]),
    ([w.duration(s) for s in (0.0, -1.0, 119.0)], ["0.00 s", "-1.00 s", "119 s"]),
    ([w.duration(s) for s in (120.0, 7200.0, 172_799.0)], ["2.00 min", "2.00 h", "48.0 h"]),
    ([w.duration(s) for s in (172_800.0, 86_400e6)], ["2.00 d", "1,000,000 d"]),
    (w.durations([120.0, 60_000.0]), ["2.00 min", "1,000 min"]),
    (w.durations([None, 0.0, inf, -30.0]), [None, "0.00 s", None, "-30.0 s"]),
    (w.durations([0.0, 7200.0]), ["0.00 h", "2.00 h"]),
    # Figures: three digits, or as many as the whole part has.
    ([w.digits(n) for n in (0.0, 9.5, 9.995, 99.95)], ["0.00", "9.50", "10.0", "100"]),
    ([w.digits(n) for n in (12_345.0, 1e9, nan, inf)], ["12,345", "1e+09", "-", "-"]),
    (w.short_number(1234.5, ",.1f"), "1,234.5"),
    ([w.share(n) for n in (None, 0.0, 0.256, 1.0)], ["", "0%", "26%", "100%"]),
    ([w.percent(n) for n in (None, 0.0, 0.256, 1e8)], [None, "0.0%", "25.6%", "1e+10%"]),
]


@pytest.mark.parametrize(("found", "text"), TEXTS)
def test_the_text_is_this(found: object, text: object) -> None:
    assert found == text
