"""What a reason says to people: the one place in which codes and numbers become words.

The sentence of a job that waits follows "is waiting: ". That of a job that holds devices stands
alone. `ps`, `why`, events, the page and the API all have theirs from here.
"""

from collections.abc import Callable, Mapping

from treadle.core import job_sentences
from treadle.core.numbers_in_words import Line, Numbers
from treadle.core.reasons import Reason
from treadle.core.wording import are, gib_flag, gib_text, gib_texts, several

_LINES_MAX = 3  # supporting lines


def sentence(reason: Reason, unit: str = "device", names: Mapping[str, str] | None = None) -> str:
    """The answer, in under twelve words where it can be.

    unit: what a device is called here, such as GPU or slot. names: what jobs are called.
    """
    return _SENTENCES[reason.code](Numbers(reason.numbers, unit, names or {}))


def details(
    reason: Reason, unit: str = "device", names: Mapping[str, str] | None = None
) -> tuple[Line, ...]:
    """What supports the answer, one fact a line."""
    lines = _DETAILS.get(reason.code)
    return tuple(lines(Numbers(reason.numbers, unit, names or {})))[:_LINES_MAX] if lines else ()


# -- jobs that wait -------------------------------------------------------------------------------


def _busy(n: Numbers, one: str = "", many: str = "") -> str:
    """That too few devices are free. one, many: what those that it may use are called."""
    free, total, asked = n.count("free"), n.count("total"), n.count("asked")
    one, many = one or n.unit, many or f"{n.unit}s"
    if not total:
        return f"no {one} is available"
    if free:
        return f"needs {several(asked, one, many)}, {free:,} of {total:,} {are(free)} free"
    all_of = f"the only {one} is" if total == 1 else f"all {total:,} {many} are"
    if len(holders := n.all("holders")) != 1:
        return f"{all_of} busy"
    name = n.names.get(holders[0], "")
    return f"{all_of} busy (job {holders[0]}{f', {name}' if name else ''})"


def _type(n: Numbers) -> str:
    """The same of those that it may use: GPU, CPU slot, h200 GPU, GPU with 80 GiB."""
    words = [word for word in n.all("words") if word != "any"]
    plain = {"gpu": "GPU", "cpu": "CPU slot"}
    unit = plain.get(words[0].lower()) if len(words) == 1 else None
    unit = unit or " ".join(filter(None, (" or ".join(words), n.unit)))
    memory = n.number("memory_gib")
    least = f" with {gib_text(memory)}" if memory else ""
    return _busy(n, f"{unit}{least}", f"{unit}s{least}")


def _host(n: Numbers) -> str:
    flags = []
    if memory := n.number("memory_gib"):
        flags.append(f"--memory {gib_flag(memory)}")
    if cores := n.number("cores"):
        flags.append(f"--cpus {cores:g}")
    return f"every node that fits {' '.join(flags)} is full"


def _dedicated(n: Numbers) -> str:
    free, usable = n.count("free"), n.count("usable")
    if n.count("asked") >= n.count("large"):
        return f"needs {n.devices('asked')} on empty nodes, too few are empty"
    if not usable:
        return f"all {n.devices('free')} free are on nodes of larger jobs"
    return f"{free - usable:,} of {free:,} free {n.unit}s are on nodes of larger jobs"


def _tries(n: Numbers) -> str:
    where = ("together", "in one rack", "anywhere")[n.count("level")]
    return f"no {n.devices('asked')} free {where}, next try in {n.span('in_s')}"


def _patience(n: Numbers) -> str:
    after = several(n.count("most"), "later job has", "later jobs have")
    often = f"after {after} started ({n.count('overtakes')} so far)"
    parts = [often] if n.count("most") else []
    parts += [f"in {n.span('in_s')}"] if n.known("in_s") else []
    return f"gets a reservation {', or '.join(parts)}"


def _quota(n: Numbers) -> str:
    quota = several(int(n.number("quota")), n.unit)
    if n.number("quota") % 1:
        quota = f"{n.number('quota'):.3g} {n.unit}s"
    whose = f"tenant {n.text('tenant')}" if n.text("tenant") else "its tenant"
    return f"{whose} uses {n.number('used'):g} of its quota of {quota}"


def _rank(n: Numbers) -> str:
    ahead = n.count("ahead")
    return f"{several(ahead, 'job is', 'jobs are')} ahead of it" if ahead else "next in line"


def _reservation(n: Numbers) -> str:
    count = n.count("devices")
    if count == 1:
        return f"1 {n.unit} is reserved for it, still busy"
    busy = count - n.count("free")
    return f"{n.devices('devices')} are reserved for it, {busy:,} still busy"


def _limit(n: Numbers) -> str:
    who, most = n.text("who"), n.count("most")
    whose = f"tenant {who[1:]}" if who.startswith("@") else who
    if n.text("what") == "jobs":
        return f"{whose} may run at most {several(most, 'job', 'jobs')} at once"
    return f"{whose} may have at most {n.devices('most')} at once"


def _leaving(n: Numbers, how: str) -> str:
    return f"{how}, still has {n.devices('size')}" if n.count("size") else how


_SENTENCES: Mapping[str, Callable[[Numbers], str]] = {
    **job_sentences.CLAUSES,
    "host": _host,
    "avoids": lambda n: (
        f"failed on {n.listed('nodes')}, waits up to {n.span('in_s')} for another node"
    ),
    "type": _type,
    "bound": lambda n: (
        f"{job_sentences.bound(n)}: "
        f"needs {n.devices('asked')}, {n.count('free'):,} {are(n.count('free'))} free"
    ),
    "quota": _quota,
    "not-lent": lambda n: f"the free {n.unit}s are in others' quotas, and it cannot resume",
    "reserved": lambda n: f"the free {n.unit}s are reserved for {n.job('for_job')}",
    "reservation": _reservation,
    "share": lambda n: (
        f"{n.text('user')} has had a fair share, jobs of {n.listed('others')} go first"
    ),
    "limit": _limit,
    "priority": lambda n: (
        f"{several(n.count('count'), 'job', 'jobs')} of higher priority go first"
        if n.count("count") > 1
        else "a job of higher priority goes first"
    ),
    "order": lambda n: f"{n.job('first_job')} is first in line and needs {n.devices('asked')}",
    "overtaking": lambda n: f"would delay {n.job('first_job')}, which is first in line",
    "fragmentation": lambda n: (
        f"needs {n.devices('asked')} together, "
        f"at most {n.count('most'):,} {are(n.count('most'))} free on one node"
    ),
    "devices": _busy,
    "dedicated": _dedicated,
    "locality": lambda n: (
        f"waits up to {n.span('in_s')} for {n.devices('asked')} "
        f"on {several(n.count('fewest'), 'node')}"
    ),
    "tries": _tries,
    "set-aside": lambda n: f"{n.count('have'):,} of {n.devices('asked')} are set aside for it",
    "trial-queue": lambda n: (
        f"waits for a trial on 1 {n.unit} ({n.count('trials')} of {n.count('most')} in use)"
    ),
    "cost": lambda n: f"preempting {n.jobs('jobs')} for it does not pay yet",
    "rank": _rank,
    "patience": _patience,
    "preempted": lambda n: f"preempted {n.span('since_s')} ago{n.job('for_job', ' for ')}",
    # Jobs that hold devices.
    "starting": lambda n: f"starting on {n.devices('size')}",
    "stopping": lambda n: _leaving(n, "stopping"),
    "cancelling": lambda n: _leaving(n, "being cancelled"),
    "running": lambda n: f"running on {n.devices('size')}",
    "shares": lambda n: f"shares {n.some('size')} with {n.jobs('jobs')}",
    "shrunk": lambda n: f"shrunk to {n.devices('size')} for {n.job('for_job')}",
    "could-grow": lambda n: (
        f"running on {n.devices('size')}, growing to {n.count('next'):,} does not pay yet"
    ),
    "not-grown": lambda n: f"running on {n.devices('size')}, could not grow",
    "trial": lambda n: f"on trial on 1 {n.unit}, gets {n.count('asked'):,} in {n.span('in_s')}",
}


# -- supporting lines -----------------------------------------------------------------------------


def _node_lines(n: Numbers) -> list[Line]:
    """What each node lacks: host memory, cores or devices."""
    found = []
    for name, *rest in n.rows("nodes"):
        left_gib, left_cores, gib, cores, free, total = map(float, map(str, rest))
        if gib and left_gib < n.number("memory_gib"):
            fact = f"{gib_texts((max(0.0, left_gib), gib), ' of ')} free"
        elif cores and left_cores < n.number("cores"):
            fact = f"{max(0.0, left_cores):g} of {cores:g} cores free"
        else:
            fact = f"{free:g} of {several(int(total), n.unit)} free"
        found.append((str(name), fact))
    return found


def _weighed(n: Numbers) -> list[Line]:
    lines = [("costs", f"about {n.span('cost_s')}")]
    if n.number("gain_s") > 0:
        lines.append(("gains", f"about {n.span('gain_s')}"))
    if n.known("in_s"):
        lines.append(("pays", f"in {n.span('in_s')} if nothing changes"))
    return lines


def _expected(n: Numbers) -> list[Line]:
    lines = [("expected", f"in {n.span('in_s')}")] if n.known("in_s") else []
    if n.all("holders"):
        lines.append(("in use", f"by {n.jobs('holders')}"))
    return lines


_DETAILS: Mapping[str, Callable[[Numbers], list[Line]]] = {
    **job_sentences.DETAILS,
    "host": _node_lines,
    "cost": _weighed,
    "could-grow": _weighed,
    "not-grown": lambda n: [
        ("because", n.text("because")),
        ("again", f"in {n.span('in_s')} at the earliest"),
    ],
    "reservation": _expected,
    "reserved": lambda n: [("until", f"in {n.span('in_s')}")] if n.known("in_s") else [],
    "devices": lambda n: (
        [("in use", f"by {n.jobs('holders')}")] if len(n.all("holders")) > 1 else []
    ),
    "overtaking": lambda n: [
        ("needs", f"about {n.span('takes_s')}"),
        (n.job("first_job"), f"could start in {n.span('in_s')}"),
    ],
    "running": lambda n: (
        [("sizes", f"{n.count('least'):,} to {n.devices('most')}")]
        if n.count("least") < n.count("most")
        else []
    ),
}
