"""The command line's clock: the time, pauses, and moments as text."""

import time


def now_at() -> float:
    """Seconds since 1970."""
    return time.time()


def stopwatch_s() -> float:
    """Seconds since an arbitrary moment; setting the system clock has no effect."""
    return time.monotonic()


def pause(seconds: float) -> None:
    time.sleep(seconds)


def moment_text(moment_at: float, now: float) -> str:
    """The local time of day, with the date if that is another day than today."""
    then, today = time.localtime(moment_at), time.localtime(now)
    same = then[:3] == today[:3]  # year, month, day
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", then)


def moment_of(text: str, now: float) -> float | None:
    """Seconds since 1970 of a local date, a date with a time, or a time of today; else None."""
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%H:%M", "%H:%M:%S"):
        try:
            found = time.strptime(text.replace("T", " ").strip(), form)
        except ValueError:
            continue
        today = time.localtime(now)
        day = today[:3] if form.startswith("%H") else found[:3]
        return time.mktime((*day, *found[3:6], 0, 0, -1))
    return None


def date_text(moment_at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment_at))
