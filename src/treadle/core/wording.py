"""Counts and spans of time in words, so that no sentence says "1 devices" or "0.51234 s"."""

_UNITS = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))


def devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def free_of(free: int, total: int) -> str:
    """How many of all devices are free, as the end of a sentence."""
    if free == 0:
        return "the only device is taken" if total == 1 else f"all {total} are taken"
    return f"{free} of {total} {'is' if free == 1 else 'are'} free"


def jobs(count: int, one: str, many: str) -> str:
    """So many jobs, and what they do: "1 job waits", "2 jobs wait"."""
    return f"1 job {one}" if count == 1 else f"{count} jobs {many}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def span(seconds: float) -> str:
    """About how long: two digits of the largest unit that fits."""
    seconds = max(0.0, seconds)
    for unit_s, name in _UNITS:
        if seconds >= unit_s:
            count = seconds / unit_s
            shown = f"{count:.0f}" if count >= 10 else f"{count:.1f}".removesuffix(".0")
            plural = "s" if name == "day" and shown != "1" else ""
            return f"{shown} {name}{plural}"
    return f"{seconds:.0f} s" if seconds >= 1 else "a moment"


def listed(names: list[str], most: int) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
