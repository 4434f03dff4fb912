"""The small notations of a job description: devices, arrays, durations, priorities, signals.

Each function takes the text as a person wrote it and the name to call it by in the sentence that
refuses it. Whatever the text, the answer is a value or an InvalidInputError.
"""

import re
import signal
from typing import NamedTuple

from treadle.core.errors import InvalidInputError

DEVICES_MAX = 4096
ARRAY_MEMBERS_MAX = 10_000
DEVICE_TYPES_MAX = 8
ARRAY_INDEX_MAX = 9_999_999
DURATION_MAX_S = 10 * 365 * 86_400.0
PRIORITY_MAX = 1_000_000
PRIORITIES = {"low": -10, "normal": 0, "high": 10, "urgent": 100}
RANKS = ("auto", "device", "one")
MOMENTS = START, END, FAIL, PREEMPT = ("start", "end", "fail", "preempt")
_MOMENTS_OF_SLURM = {"begin": START, "requeue": PREEMPT, "time_limit": FAIL}
# What a command needs to find the programs and libraries that it finds where it was typed.
CARRIED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "CUDA_HOME",
    "LANG",
    "LC_ALL",
)

_IDENTITY = re.compile(r"[0-9]{1,12}(_[0-9]{1,9})?", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})", re.ASCII)
_DEVICE_TYPE = re.compile(r"[a-z0-9][a-z0-9 ._+()/-]{0,62}", re.ASCII)
_MEMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_PARTS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(d|h|m|s)\s*", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?", re.ASCII)
_UNIT_S = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SIZE = re.compile(
    r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(?:(k|m|g|t)(?:ib|b)?)?", re.ASCII | re.IGNORECASE
)
_UNIT_GIB = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10}
MEMORY_MIN_GIB, MEMORY_MAX_GIB = 2.0**-6, 2.0**20  # 16 MiB: a rank is launched in it
CPUS_MIN, CPUS_MAX = 0.01, 65_536.0
_SHOWN_MAX = 60


class Members(NamedTuple):
    """The numbers of an array, ascending, and how many may run at once."""

    numbers: tuple[int, ...]
    at_once_max: int | None


def shown(text: str) -> str:
    """A text as an error quotes it: on one line, not too long, nothing a terminal would obey."""
    cut = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
    return '"' + "".join(mark if mark.isprintable() else "?" for mark in cut) + '"'


def devices(text: str, what: str = "devices") -> str:
    """`4`, `2..8` or `1,2,4`, in the one way it is sent."""
    stripped = text.strip()
    between = _RANGE.fullmatch(stripped)
    if between:
        low, high = int(between[1]), int(between[2])
        if low > high:
            raise InvalidInputError(
                f"{what} is {shown(text)}; a range must go up, such as {high}..{low}"
            )
        sizes = [low, high]
    else:
        parts = [part.strip() for part in stripped.split(",")]
        if not all(_NUMBER.fullmatch(part) for part in parts):
            raise InvalidInputError(
                f"{what} is {shown(text)}; expected a number such as 4, a range such as 2..8, "
                "or sizes such as 1,2,4"
            )
        sizes = sorted({int(part) for part in parts})
    if sizes[0] < 1:
        raise InvalidInputError(f"{what} is {shown(text)}; expected 1 or more")
    if sizes[-1] > DEVICES_MAX:
        raise InvalidInputError(f"{what} is {shown(text)}; expected at most {DEVICES_MAX}")
    if between and sizes[0] < sizes[1]:
        return f"{sizes[0]}..{sizes[1]}"
    return ",".join(str(size) for size in sorted(set(sizes)))


def sizes_of(text: str, what: str = "devices") -> tuple[int, ...]:
    """The sizes that such a text allows, ascending."""
    low, dots, high = devices(text, what).partition("..")
    if dots:
        return tuple(range(int(low), int(high) + 1))
    return tuple(int(part) for part in low.split(","))


def device_type(text: str, what: str = "device type") -> str:
    """`h200`, `A100, H200`, `gpu`, `cpu`, `any`: as it is kept, in small letters."""
    words = [" ".join(word.lower().split()) for word in text.split(",")]
    if len(words) > DEVICE_TYPES_MAX or not all(_DEVICE_TYPE.fullmatch(word) for word in words):
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected parts of names of types, such as h200 or "
            "a100,h200, or gpu, cpu or any"
        )
    return ",".join(dict.fromkeys(words))


def device_types_of(text: str) -> tuple[str, ...]:
    """The words of such a text."""
    return tuple(device_type(text).split(",")) if text else ()


def array(text: str, what: str = "array") -> Members:
    """`0-99%8`, `1,3,5-9`, `0-10:2`: the members' numbers, and how many may run at once."""
    stripped = "".join(text.split())
    listed, percent, limit = stripped.partition("%")
    at_once_max: int | None = None
    if percent:
        if not _NUMBER.fullmatch(limit) or int(limit) < 1:
            raise InvalidInputError(
                f"{what} is {shown(text)}; after % comes how many may run at once, such as 0-99%8"
            )
        at_once_max = int(limit)
    numbers: set[int] = set()
    for part in listed.split(","):
        more = _part(part, text, what)
        if len(more) + len(numbers) > ARRAY_MEMBERS_MAX:
            raise InvalidInputError(
                f"{what} is {shown(text)}; expected at most {ARRAY_MEMBERS_MAX:,} members"
            )
        twice = numbers.intersection(more)
        if twice:
            raise InvalidInputError(f"{what} is {shown(text)}; {min(twice)} is listed twice")
        numbers.update(more)
    return Members(tuple(sorted(numbers)), at_once_max)


def array_text(text: str, what: str) -> str:
    """An array as it is sent, once it is known to be one."""
    array(text, what)
    return "".join(text.split())


def _part(part: str, text: str, what: str) -> range:
    """One number or range of an array."""
    found = _MEMBERS.fullmatch(part)
    if not found:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected numbers such as 0-99, 0-99%8, 1,3,5-9 or 0-10:2"
        )
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    step = int(found[3]) if found[3] else 1
    if last < first:
        raise InvalidInputError(
            f"{what} is {shown(text)}; a range must go up, such as {last}-{first}"
        )
    if step < 1:
        raise InvalidInputError(f"{what} is {shown(text)}; the step must be at least 1")
    if last > ARRAY_INDEX_MAX:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected numbers up to {ARRAY_INDEX_MAX:,}"
        )
    return range(first, last + 1, step)


def duration(text: str, what: str) -> float:
    """`90s`, `45m`, `12h`, `2d`, `1h30m`, seconds as a number, or Slurm's `1-12:00:00`, `30:00`."""
    stripped = text.strip()
    if _SECONDS.fullmatch(stripped):
        return _bounded(float(stripped), text, what)
    if _whole(stripped):
        parts = _PARTS.findall(stripped)
        return _bounded(
            sum(float(number) * _UNIT_S[unit.lower()] for number, unit in parts), text, what
        )
    clock_s = _clock_s(stripped)
    if clock_s is None:
        raise _no_duration(text, what)
    return _bounded(clock_s, text, what)


def slurm_duration(text: str, what: str) -> float | None:
    """As Slurm reads it: a number alone is minutes, and UNLIMITED is no limit."""
    stripped = text.strip()
    if stripped.lower() in ("unlimited", "infinite", "0"):
        return None
    clock_s = _clock_s(stripped)
    if clock_s is None:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a time as Slurm writes it, such as 90, 12:00:00 or "
            "1-12:00:00"
        )
    return _bounded(clock_s, text, what)


def _whole(text: str) -> bool:
    """Whether all of it is numbers with units, each unit once."""
    position = 0
    units: set[str] = set()
    while position < len(text):
        found = _PARTS.match(text, position)
        if not found or found[2].lower() in units:
            return False
        units.add(found[2].lower())
        position = found.end()
    return bool(units)


def _clock_s(text: str) -> float | None:
    """Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:...]."""
    found = _CLOCK.fullmatch(text)
    if not found:
        return None
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, minutes, seconds = [0, *numbers, 0][:3]
    return float(int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds)


def _bounded(seconds: float, text: str, what: str) -> float:
    if not 0 < seconds <= DURATION_MAX_S:
        raise InvalidInputError(f"{what} is {shown(text)}; expected more than 0 and up to 10 years")
    return seconds


def _no_duration(text: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what} is {shown(text)}; expected a duration such as 90s, 45m, 12h, 2d, 1h30m or "
        "1-12:00:00"
    )


def priority(text: str, what: str = "priority") -> int:
    """A whole number, or one of four words."""
    stripped = text.strip().lower()
    if stripped in PRIORITIES:
        return PRIORITIES[stripped]
    found = re.fullmatch(r"([+-]?)([0-9]{1,4000})", stripped, re.ASCII)
    if not found:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a whole number, or {', '.join(PRIORITIES)}"
        )
    number = int(found[2]) * (-1 if found[1] == "-" else 1)
    if abs(number) > PRIORITY_MAX:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected -{PRIORITY_MAX:,} to {PRIORITY_MAX:,}"
        )
    return number


def count(text: str, what: str, *, most: int) -> int:
    """A whole number from 0 to the most that makes sense."""
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped) or int(stripped) > most:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a whole number from 0 to {most}"
        )
    return int(stripped)


def memory(text: str, what: str = "memory") -> float:
    """`16G`, `512M`, `1.5T`, with or without iB; in GiB. A unit is needed."""
    found = _SIZE.fullmatch(text.strip())
    if not found or not found[2]:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected an amount with a unit such as 512M, 16G or 1.5T"
        )
    return _memory(float(found[1]) * _UNIT_GIB[found[2].lower()], text, what)


def slurm_memory(text: str, what: str) -> float | None:
    """As Slurm reads it: a number alone is MiB, and 0 is no limit."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected memory as Slurm writes it, such as 16G or 4096"
        )
    amount = float(found[1]) * _UNIT_GIB[(found[2] or "m").lower()]
    return _memory(amount, text, what) if amount else None


def _memory(amount_gib: float, text: str, what: str) -> float:
    if not MEMORY_MIN_GIB <= amount_gib <= MEMORY_MAX_GIB:
        raise InvalidInputError(f"{what} is {shown(text)}; expected 16M to {MEMORY_MAX_GIB:,.0f}G")
    return amount_gib


def cpus(text: str, what: str = "cpus") -> float:
    """A number of cores, such as `4` or `0.5`."""
    stripped = text.strip()
    if not _SECONDS.fullmatch(stripped) or not CPUS_MIN <= float(stripped) <= CPUS_MAX:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a number of cores such as 4 or 0.5"
        )
    return float(stripped)


def stop_signal(text: str, what: str = "stop_signal") -> str:
    """The full name of a signal that a process can catch."""
    name = text.strip().upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name in ("SIGKILL", "SIGSTOP"):
        raise InvalidInputError(
            f"{what} is {shown(text)}, which a process cannot catch; expected one such as SIGTERM, "
            "SIGINT or SIGUSR1"
        )
    if name not in signal.Signals.__members__:
        raise InvalidInputError(
            f"{what} is {shown(text)}; expected a signal such as SIGTERM, SIGINT or SIGUSR1"
        )
    return name


def ranks(text: str, what: str = "ranks") -> str:
    stripped = text.strip().lower()
    if stripped not in RANKS:
        raise InvalidInputError(f"{what} is {shown(text)}; expected {', '.join(RANKS)}")
    return stripped


def elastic(text: str, what: str = "elastic") -> str:
    stripped = text.strip().lower()
    if stripped not in ("auto", "no"):
        raise InvalidInputError(f"{what} is {shown(text)}; expected auto or no")
    return "" if stripped == "no" else stripped


def moments(text: str, what: str = "notify") -> str:
    """When a user is told of a job; Slurm's words mean the same. Empty: as configured."""
    words = [_MOMENTS_OF_SLURM.get(word, word) for word in text.lower().replace(",", " ").split()]
    if unknown := [word for word in words if word not in (*MOMENTS, "none", "all")]:
        raise InvalidInputError(
            f"{what} is {shown(unknown[0])}; expected some of {', '.join(MOMENTS)}, or none"
        )
    if "none" in words:
        return "none"
    return ",".join(MOMENTS if "all" in words else dict.fromkeys(words))


def identities(text: str, what: str) -> tuple[str, ...]:
    """Ids or names of jobs, with commas or colons between them."""
    parts = tuple(part.strip() for part in re.split(r"[,:]", text))
    if not all(re.fullmatch(r"[\w.\-\[\]]{1,128}", part) for part in parts):
        raise InvalidInputError(f"{what} is {shown(text)}; expected ids of jobs such as 12,13")
    return parts


def is_identity(word: str) -> bool:
    """Whether a word is taken for the id of a job or array: 12, 12_3."""
    return bool(_IDENTITY.fullmatch(word))


def job_name(text: str, what: str) -> str:
    if is_identity(text):
        raise InvalidInputError(
            f"{what} is {text}, which would be taken for a job's id; choose another name"
        )
    return text
