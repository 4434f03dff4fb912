"""Counts, lengths of time and waits as text: the words that every listing and sentence shares.

`ps`, `why`, `explain`, the reports and the API all use these, so no sentence says "1 devices" or
"0.51234 s", and one wait reads the same everywhere. A length of time has three forms: `span` for
sentences (1.5 h), `short_span` for columns of a list (1h30m), `duration` for measured figures with
three digits (1.53 h).
"""

import re
from collections.abc import Iterable, Sequence
from math import inf, isfinite

_SPAN_UNITS = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))
# Name, length, and the length from which the next unit reads better.
_DURATION_UNITS = (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, inf))
_PLAIN_MAX = 1e9  # larger numbers are read as powers of ten
_UNKNOWN = "-"
YEAR_S = 365 * 86_400.0  # an estimate beyond it says no more than that
_WORD_MAX = 60  # characters of a mistyped word that are compared; comparing takes their square

# -- counts -----------------------------------------------------------------------------------


def several(number: int, noun: str, plural: str = "") -> str:
    """1 job, 2 jobs; 1 job waits, 2 jobs wait."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def devices(count: int) -> str:
    return several(count, "device")


def jobs(count: int, one: str, many: str) -> str:
    """A number of jobs and their verb: "1 job waits", "2 jobs wait"."""
    return several(count, f"job {one}", f"jobs {many}")


def are(count: int) -> str:
    """The verb behind a count, where other words stand between the two."""
    return "is" if count == 1 else "are"


def too_large(size: int, total: int) -> str:
    """Why a job of this size can never start on a cluster with `total` devices."""
    return f"it asks for {devices(size)} and the cluster has {total:,}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if 10 <= number % 100 <= 20 else ending}"


def listed(names: Sequence[str], most: int) -> str:
    """The first few names, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def named_jobs(names: Sequence[str], most: int) -> str:
    """job a; jobs a, b and 2 more."""
    return f"{'job' if len(names) == 1 else 'jobs'} {listed(names, most)}"


def gib_text(gib: float) -> str:
    """Memory in the unit that leaves a number between 1 and 1,023."""
    if gib < 1.0:
        return f"{1024 * gib:.3g} MiB"
    if gib < 1000.0:
        return f"{gib:.3g} GiB"
    return f"{gib:,.0f} GiB" if gib < 1024.0 else f"{gib / 1024:,.1f} TiB"


def gib_flag(gib: float) -> str:
    """As it is typed: 512M, 50G."""
    return f"{1024 * gib:.4g}M" if gib < 1 else f"{gib:.4g}G"


def gib_texts(amounts: Sequence[float], between: str) -> str:
    """Several amounts of memory, with the unit once where they have the same: 3 of 8 GiB."""
    if all(gib == 0 or 1.0 <= gib < 1000.0 for gib in amounts) and any(amounts):
        return between.join(f"{gib:.3g}" for gib in amounts) + " GiB"
    return between.join(map(gib_text, amounts))


def sizes(numbers: Sequence[int]) -> str:
    """1..4 if no number between is missing, otherwise 1,2,4."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}..{numbers[-1]}"
    return ",".join(str(number) for number in numbers)


def did_you_mean(word: str, known: Iterable[str], *, similar: float = 0.6) -> str:
    """The end of a sentence about an unknown word; empty if no known word is similar.

    similar: how alike two words must be, from 0 to 1 (difflib's ratio).
    """
    near = closest(word, known, similar=similar)
    return f"; did you mean {near}?" if near else ""


def closest(word: str, known: Iterable[str], *, similar: float = 0.6) -> str:
    """The known word that is most like this one; empty if none is similar."""
    # Only a mistyped word needs it, and importing it takes 2 of the 50 ms of `treadle --help`.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(word[:_WORD_MAX], list(known), n=1, cutoff=similar)
    return near[0] if near else ""


# -- lengths of time --------------------------------------------------------------------------


def span(seconds: float) -> str:
    """About how long, for a sentence: two digits of the largest unit that fits."""
    seconds = max(0.0, seconds)
    if seconds >= YEAR_S:
        return "more than a year"
    for unit_s, name in _SPAN_UNITS:
        if seconds >= unit_s:
            count = seconds / unit_s
            shown = f"{count:.0f}" if count >= 10 else f"{count:.1f}".removesuffix(".0")
            plural = "s" if name == "day" and shown != "1" else ""
            return f"{shown} {name}{plural}"
    return f"{seconds:.0f} s" if seconds >= 1 else "a moment"


def short_span(seconds: float | None) -> str:
    """A length of time for a column: 45s, 12m, 3h05m, 2d04h; empty if it is unknown."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def expected_span(seconds: float, *, ever: str = "more than a year") -> str:
    """An estimate: 45s, 1m30s, 12m, 3h05m, 2d04h. `ever`: beyond a year nothing is claimed."""
    if seconds >= YEAR_S:
        return ever
    whole = max(0, round(seconds))
    if 60 <= whole < 600:
        return f"{whole // 60}m{whole % 60:02}s" if whole % 60 else f"{whole // 60}m"
    unit_s = 1 if whole < 60 else 60 if whole < 86_400 else 3600
    return short_span(round(whole / unit_s) * unit_s)  # The nearest, and not the one below.


def ago(moment_at: float | None, now: float) -> str:
    return "" if moment_at is None else f"{short_span(now - moment_at)} ago"


def is_at_once(latest_s: float | None) -> bool:
    """Whether that is too soon to wait for."""
    return latest_s is not None and latest_s < 1


def from_to(low_s: float | None, high_s: float | None) -> str:
    """A range in words: "5m to 20m"; "unknown" if neither end is known."""
    if high_s is None:
        return "unknown" if low_s is None else f"{expected_span(low_s)} or more"
    if high_s < 1:
        return "less than 1s"
    if low_s is None:
        return f"at most {expected_span(high_s)}"
    low, high = expected_span(low_s), expected_span(high_s)
    if low_s >= YEAR_S:
        return low
    if low == high:
        return f"about {low}"
    return f"up to {high}" if low_s < 1 else f"{low} to {high}"


# -- measured figures -------------------------------------------------------------------------


def duration(seconds: float | None) -> str | None:
    """A measured length of time, in the unit that a person would choose."""
    if seconds is None or not isfinite(seconds):
        return None
    return _in_unit(seconds, *_unit(seconds))


def durations(values: Sequence[float | None]) -> list[str | None]:
    """Lengths of time in one unit, the shortest's, so that they compare at a glance."""
    known = [abs(value) for value in values if value and isfinite(value)]
    name, unit_s = _unit(min(known, default=0.0))
    return [
        None if value is None or not isfinite(value) else _in_unit(value, name, unit_s)
        for value in values
    ]


def share(part: float | None) -> str:
    """A fraction as whole percents; empty if it is unknown."""
    return "" if part is None else f"{100 * part:.0f}%"


def percent(part: float | None) -> str | None:
    """A fraction as percents with one decimal."""
    return None if part is None or not isfinite(part) else f"{short_number(100 * part, '.1f')}%"


def digits(value: float) -> str:
    """Three significant digits; more if the whole part needs them."""
    size = abs(value)
    return short_number(value, ".2f" if size < 9.995 else ".1f" if size < 99.95 else ",.0f")


def short_number(value: float, form: str) -> str:
    """A number in that format, or as a power of ten if it would fill the line."""
    if not isfinite(value):
        return _UNKNOWN
    return format(value, form if abs(value) < _PLAIN_MAX else ".3g")


def _unit(seconds: float) -> tuple[str, int]:
    return next(
        (name, unit_s) for name, unit_s, until_s in _DURATION_UNITS if abs(seconds) < until_s
    )


def _in_unit(seconds: float, name: str, unit_s: int) -> str:
    return f"{digits(seconds / unit_s)} {name}"


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "names with values",
    "null": "nothing",
}


def mismatch(problem: str) -> str:
    """What a decoder says of a value of the wrong form, with its place first and in plain words."""
    said, _, place = " ".join(problem.split()).partition(" - at `$")
    words = re.sub(
        r"`([^`]*)`",
        lambda found: " or ".join(_TYPES.get(one, one) for one in found[1].split(" | ")),
        said,
    )
    words = words.replace(", got ", ", found ").replace("Object contains ", "")
    words = words.replace("Object missing required field", "missing field")
    place = place.strip("`.")
    return f"{place}: {words[:1].lower()}{words[1:]}" if place else words
