"""The columns of Treadle's own CSV: one table, by which files are read, checked and written.

Every field of a JobSpec and of its Profile has a column. An empty cell, like a column that a file
does not have, stands for the default. docs/trace-csv.md has the same table.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

from treadle.core.allocation import Pause
from treadle.core.errors import InvalidInputError
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.traces.collector import SUBMIT_MAX_S
from treadle.traces.table import AMOUNT_MAX, COUNT_MAX

Item = TypeVar("Item")

PRIORITY_MAX = 10**9
SIZE_MAX = 10**12
RANGE_MAX = 4096  # devices in a range such as 1..8, which stands for every size in it
BETWEEN = "|"  # the words of one cell; a name of a device type may have spaces
_FLAGS = {"1": True, "0": False, "yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a cell is read and written."""

    expected: str  # as an error and the docs call it
    read: Callable[[str], Any]  # raises ValueError, or InvalidInputError that says more
    write: Callable[[Any], str] = str
    exact: bool = False  # spaces around the text belong to it


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the file."""

    name: str
    field: str  # of a JobSpec; behind `profile.` of its profile; STATUS: of neither
    kind: Kind
    about: str
    required: bool = False
    as_largest: bool = False  # empty stands for the largest of the job's sizes


def digits(value: float) -> str:
    """The shortest text that reads back to the same number, without a point if it is whole."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _number(unit: str, *, most: float = SUBMIT_MAX_S, zero: bool = True) -> Kind:
    def read(text: str) -> float:
        value = float(text)
        if not (value > 0 or (zero and value == 0)):
            raise ValueError
        if value > most:
            raise InvalidInputError(f"at most {most:g}")
        return value

    return Kind(f"{unit} from 0" if zero else f"{unit} above 0", read, digits)


def _count(least: int) -> Kind:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError
        if value > COUNT_MAX:
            raise InvalidInputError(f"at most {COUNT_MAX:,}")
        return value

    return Kind(f"a whole number from {least:,}", read)


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError
    return _FLAGS[text.lower()]


def _sizes(text: str) -> tuple[int, ...]:
    low, dots, high = text.partition("..")
    words = [low, high] if dots else text.split()
    sizes = [int(word) for word in words if word.strip().isdecimal()]
    ascending = all(a < b for a, b in pairwise(sizes))
    if len(sizes) != len(words) or sizes[0] < 1 or not ascending or sizes[-1] > SIZE_MAX:
        raise ValueError
    if dots and sizes[1] > RANGE_MAX:
        raise InvalidInputError(f"a range goes up to {RANGE_MAX:,}")
    return tuple(range(sizes[0], sizes[1] + 1)) if dots else tuple(sizes)


def _curve(text: str) -> tuple[tuple[int, float], ...]:
    pairs = [pair.partition(":") for pair in text.split()]
    points = tuple((int(size), float(seconds)) for size, _, seconds in pairs)
    ascending = all(a[0] < b[0] for a, b in pairwise(points))
    if not ascending or not all(size > 0 and 0 < seconds < inf for size, seconds in points):
        raise ValueError
    return points


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(BETWEEN))
    if not all(words):
        raise ValueError
    return words


def _pauses(text: str) -> tuple[Pause, ...]:
    return tuple(map(Pause, dict.fromkeys(_words(text))))


def _factors(text: str) -> tuple[tuple[str, float], ...]:
    pairs = [word.rpartition(":") for word in _words(text)]
    factors = tuple((name.strip(), float(factor)) for name, _, factor in pairs)
    if not all(name and 0 < factor < inf for name, factor in factors):
        raise ValueError
    return factors


def _list(text: str) -> tuple[str, ...]:
    return tuple(_items(text, str))


def _plans(text: str) -> tuple[Plan, ...]:
    """Every job offers the default plan as well, so that policies without plans can run it."""
    try:
        plans = tuple(Plan(**fields) for fields in _items(text, dict))
    except TypeError as error:
        raise InvalidInputError(str(error)) from None
    return plans if DATA_PARALLEL in plans else (*plans, DATA_PARALLEL)


def _items(text: str, kind: type[Item]) -> list[Item]:
    """The items of a JSON list, all of one type."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("lists within lists") from None
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise ValueError(f"not a list of {kind.__name__}")
    return found


def _plans_text(plans: tuple[Plan, ...]) -> str:
    return json.dumps([asdict(plan) for plan in plans])


TEXT = Kind("text", str, exact=True)
FLAG = Kind("1, 0, yes or no", _flag, lambda flag: str(int(flag)))
SECONDS, GIB, CORES = _number("seconds"), _number("GiB"), _number("cores")
FACTOR, SHARE = _number("a factor"), _number("a share")
WORK = _number("iterations", most=AMOUNT_MAX, zero=False)
MORE_WORK = _number("iterations", most=AMOUNT_MAX)
SIZE, COUNT, PRIORITY = _count(1), _count(0), _count(-PRIORITY_MAX)
SIZES = Kind(
    "ascending whole numbers from 1, such as 1 2 4, or a range such as 1..8",
    _sizes,
    lambda sizes: " ".join(map(str, sizes)),
)
CURVE = Kind(
    "ascending size:seconds such as 1:2.5 2:1.3",
    _curve,
    lambda curve: " ".join(f"{size}:{seconds!r}" for size, seconds in curve),
)
WORDS = Kind(f"names such as a100, or a100{BETWEEN}h200", _words, BETWEEN.join)
PAUSES = Kind(f"frozen, suspended, or frozen{BETWEEN}suspended", _pauses, BETWEEN.join)
FACTORS = Kind(
    f"type:factor such as a100:1{BETWEEN}h200:1.8",
    _factors,
    lambda factors: BETWEEN.join(f"{name}:{factor!r}" for name, factor in factors),
)
LIST = Kind('a JSON list such as ["python"]', _list, json.dumps)
PLANS = Kind('a JSON list of plans such as [{"tensor": 4}]', _plans, _plans_text)

STATUS = "status"
COLUMNS = (
    Column("id", "id", TEXT, "the job's name; no two are equal", required=True),
    Column("submit_s", "submit_at", SECONDS, "when it is submitted", required=True),
    Column("sizes", "sizes", SIZES, "devices; several sizes make it elastic", required=True),
    Column(
        "iterations",
        "iterations",
        WORK,
        "the work; each takes 1 s unless times say more",
        required=True,
    ),
    Column("asked", "asked", COUNT, "the size that its user asks for", as_largest=True),
    # What it needs, and what may be done with it.
    Column("host_memory_gib", "host_memory_gib", GIB, "host memory on each node; 0: any"),
    Column("host_cores", "host_cores", CORES, "cores on each node; 0: any"),
    Column("device_memory_gib", "device_memory_gib", GIB, "memory of each GPU; 0: any"),
    Column("device_types", "device_types", WORDS, "types that it may use, or gpu, cpu, any"),
    Column("nodes", "nodes", WORDS, "the only nodes that it may use"),
    Column("resumable", "resumable", FLAG, "it may be stopped, resumed and resized"),
    Column("pauses", "pauses", PAUSES, "how it can be paused, with `--live`"),
    Column("preemptible", "preemptible", FLAG, "0: it keeps the devices that it starts on"),
    Column("exclusive", "exclusive", FLAG, "it shares its devices with no other job"),
    Column("trial", "trial", FLAG, "it may also be tried on one device"),
    # Whose it is.
    Column("owner", "owner", TEXT, "its user"),
    Column("tenant", "tenant", TEXT, "whose quota it counts against"),
    Column("guaranteed", "guaranteed", FLAG, "0: it may be preempted for guaranteed jobs"),
    Column("priority", "priority", PRIORITY, "higher goes first, with `--live`"),
    Column("deadline_s", "deadline_at", SECONDS, "when it should have ended"),
    Column("retries", "retries", COUNT, "how often it is started again after a failure"),
    Column("retry_unknown", "retry_unknown", FLAG, "retry failures of unknown cause too"),
    Column("estimate_s", "estimate_s", SECONDS, "how long its user says it takes; 0: unsaid"),
    Column("order_work", "order_work", MORE_WORK, "work to rank it by before it starts; 0: all"),
    Column("command", "command", LIST, "what it runs"),
    Column("kind", "kind", TEXT, "jobs of one kind are expected to behave alike"),
    Column("out_of_memory_with", "ousted_by", LIST, "jobs with which it did not fit a GPU"),
    # How it trains.
    Column("plans", "plans", PLANS, "the execution plans that it can use"),
    Column("load_s", "profile.load_s", SECONDS, "loading data, in one iteration"),
    Column("prepare_s", "profile.prepare_s", SECONDS, "work of the host, in one iteration"),
    Column("compute_s", "profile.compute_s", SECONDS, "work of the device, in one iteration"),
    Column("sync_s", "profile.sync_s", SECONDS, "exchange between devices, in one iteration"),
    Column("alone_s", "profile.alone_s", SECONDS, "one iteration alone; 0: the sum of those"),
    Column("measured_size", "profile.size", SIZE, "the size of these times", as_largest=True),
    Column("serial", "profile.serial", SHARE, "the work that more devices do not speed up"),
    Column("curve", "profile.curve", CURVE, "an iteration's seconds at other sizes"),
    Column("measured_sizes", "profile.measured", SIZES, "sizes of the curve that were measured"),
    Column("across_nodes", "profile.across_nodes", FACTOR, "speed across nodes; 0: unknown"),
    Column("across_racks", "profile.across_racks", FACTOR, "speed across racks; 0: unknown"),
    Column("by_type", "profile.by_type", FACTORS, "speed by device type; the first has 1"),
    Column("restart_s", "profile.restart_s", SECONDS, "a restart, with `--restart-cost profile`"),
    Column("resize_s", "profile.resize_s", SECONDS, "the stall of a live resize, for `--live`"),
    Column("suspend_s", "profile.suspend_s", SECONDS, "a pause that moves its memory to the host"),
    Column("resume_s", "profile.resume_s", SECONDS, "until it goes on after such a pause"),
    Column("memory_gib", "profile.memory_gib", GIB, "memory used of each GPU; 0: unknown"),
    Column("busy", "profile.busy", SHARE, "time in which its devices work"),
    Column("memory_busy", "profile.memory_busy", SHARE, "time in which their memory is used"),
    Column("cores_used", "profile.cores", CORES, "cores that it uses for each device"),
    Column("model", "profile.model", TEXT, "the network's name"),
    Column(STATUS, STATUS, TEXT, "how it ended, for statistics"),
)
