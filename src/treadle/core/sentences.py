"""What a reason says to people: the one place in which codes and numbers become words.

The sentence of a job that waits follows "is waiting: ". That of a job that holds devices stands
alone. `ps`, `why`, events, the page and the API all have theirs from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from treadle.core.reasons import Number, Reason
from treadle.core.wording import are, gib_text, gib_texts, listed, named_jobs, several, span, times

_NAMED_MAX = 3  # jobs or nodes in a sentence
_LINES_MAX = 3  # supporting lines

Line = tuple[str, str]  # a label and one fact


def sentence(reason: Reason, unit: str = "device", names: Mapping[str, str] | None = None) -> str:
    """The answer, in under twelve words where it can be.

    unit: what a device is called here, such as GPU or slot. names: what jobs are called.
    """
    return _SENTENCES[reason.code](_Said(reason.numbers, unit, names or {}))


def details(reason: Reason, unit: str = "device") -> tuple[Line, ...]:
    """What supports the answer, one fact a line."""
    lines = _DETAILS.get(reason.code)
    return tuple(lines(_Said(reason.numbers, unit, {})))[:_LINES_MAX] if lines else ()


@dataclass(frozen=True, slots=True)
class _Said:
    """The numbers of a reason, with their types, and how things are called."""

    numbers: Mapping[str, Number]
    unit: str
    names: Mapping[str, str]

    def number(self, name: str) -> float:
        found = self.numbers.get(name, 0)
        return found if isinstance(found, int | float) else 0

    def count(self, name: str) -> int:
        return int(self.number(name))

    def text(self, name: str) -> str:
        return str(self.numbers.get(name, ""))

    def all(self, name: str) -> tuple[str, ...]:
        found = self.numbers.get(name, ())
        return tuple(map(str, found)) if isinstance(found, tuple) else (str(found),)

    def devices(self, name: str) -> str:
        """So many GPUs."""
        return several(self.count(name), self.unit)

    def some(self, name: str) -> str:
        """A GPU, 2 GPUs."""
        return f"a {self.unit}" if self.count(name) == 1 else self.devices(name)

    def span(self, name: str) -> str:
        return span(self.number(name))

    def known(self, name: str) -> bool:
        """Whether a moment or a length of time is known."""
        return name in self.numbers and isfinite(self.number(name))

    def job(self, name: str) -> str:
        """By its name where it has one."""
        identity = self.text(name)
        return self.names.get(identity) or f"job {identity}"

    def jobs(self, name: str) -> str:
        found = self.all(name)
        if len(found) == 1 and found[0] in self.names:
            return self.names[found[0]]
        return named_jobs(found, _NAMED_MAX)

    def nodes(self, name: str) -> str:
        return listed(self.all(name), _NAMED_MAX)


# -- jobs that wait -------------------------------------------------------------------------------


def _busy(said: _Said, unit: str = "") -> str:
    """That too few devices are free. unit: what those that it may use are called."""
    free, total, asked = said.count("free"), said.count("total"), said.count("asked")
    unit = unit or said.unit
    if not total:
        return f"no {unit} is available"
    if free:
        needs = several(asked, unit)
        return f"needs {needs}, {free:,} of {total:,} {are(free)} free"
    all_of = f"the only {unit} is" if total == 1 else f"all {total:,} {unit}s are"
    if len(holders := said.all("holders")) != 1:
        return f"{all_of} busy"
    name = said.names.get(holders[0], "")
    return f"{all_of} busy (job {holders[0]}{f', {name}' if name else ''})"


def _typed(said: _Said) -> str:
    """What the devices are called that a job may use: GPU, CPU slot, h200 GPU, 80 GiB GPU."""
    words = [word.lower() for word in said.all("words")]
    plain = {"gpu": "GPU", "cpu": "CPU slot"}
    unit = plain.get(words[0]) if len(words) == 1 else None
    unit = unit or " ".join(filter(None, (" or ".join(said.all("words")), said.unit)))
    memory = said.number("memory_gib")
    return f"{gib_text(memory)} {unit}" if memory else unit


def _host(said: _Said) -> str:
    flags = []
    if memory := said.number("memory_gib"):
        flags.append(f"--memory {_flag_gib(memory)}")
    if cores := said.number("cores"):
        flags.append(f"--cpus {cores:g}")
    return f"every node that fits {' '.join(flags)} is full"


def _flag_gib(gib: float) -> str:
    """As it is typed: 512M, 50G."""
    return f"{1024 * gib:.4g}M" if gib < 1 else f"{gib:.4g}G"


def _dedicated(said: _Said) -> str:
    free, usable = said.count("free"), said.count("usable")
    if said.count("asked") >= said.count("large"):
        return f"needs {said.devices('asked')} on empty nodes, too few are empty"
    if not usable:
        return f"all {said.devices('free')} free are on nodes of larger jobs"
    return f"{free - usable:,} of {free:,} free {said.unit}s are on nodes of larger jobs"


def _tries(said: _Said) -> str:
    where = ("together", "in one rack", "anywhere")[said.count("level")]
    return f"no {said.devices('asked')} free {where}, next try in {said.span('in_s')}"


def _patience(said: _Said) -> str:
    after = several(said.count("most"), "later job has", "later jobs have")
    often = f"after {after} started ({said.count('overtakes')} so far)"
    parts = [often] if said.count("most") else []
    parts += [f"in {said.span('in_s')}"] if said.known("in_s") else []
    return f"gets a reservation {', or '.join(parts)}"


def _quota(said: _Said) -> str:
    quota = several(int(said.number("quota")), said.unit)
    if said.number("quota") % 1:
        quota = f"{said.number('quota'):.3g} {said.unit}s"
    whose = f"tenant {said.text('tenant')}" if said.text("tenant") else "its tenant"
    return f"{whose} uses {said.number('used'):g} of its quota of {quota}"


def _rank(said: _Said) -> str:
    ahead = said.count("ahead")
    return f"{several(ahead, 'job is', 'jobs are')} ahead of it" if ahead else "next in line"


def _reservation(said: _Said) -> str:
    count = said.count("devices")
    if count == 1:
        return f"1 {said.unit} is reserved for it, still busy"
    busy = count - said.count("free")
    return f"{said.devices('devices')} are reserved for it, {busy:,} still busy"


def _leaving(said: _Said, how: str) -> str:
    return f"{how}, still has {said.devices('size')}" if said.count("size") else how


_SENTENCES: Mapping[str, Callable[[_Said], str]] = {
    "never-fits": lambda said: f"can never run here: {said.text('because')}",
    "hold": lambda said: f"on hold: {', '.join(said.all('reasons'))}",
    "backoff": lambda said: (
        f"failed {times(said.count('failures'))}, next try in {said.span('in_s')}"
    ),
    "host": _host,
    "avoids": lambda said: (
        f"failed on {said.nodes('nodes')}, waits up to {said.span('in_s')} for another node"
    ),
    "type": lambda said: _busy(said, _typed(said)),
    "bound": lambda said: (
        f"must run on {said.nodes('nodes')}: "
        f"needs {said.devices('asked')}, {said.count('free'):,} {are(said.count('free'))} free"
    ),
    "quota": _quota,
    "not-lent": lambda said: f"the free {said.unit}s are in others' quotas, and it cannot resume",
    "reserved": lambda said: f"the free {said.unit}s are reserved for {said.job('for_job')}",
    "reservation": _reservation,
    "priority": lambda said: (
        f"{several(said.count('count'), 'job', 'jobs')} of higher priority go first"
        if said.count("count") > 1
        else "a job of higher priority goes first"
    ),
    "order": lambda said: (
        f"{said.job('first_job')} is first in line and needs {said.devices('asked')}"
    ),
    "overtaking": lambda said: f"would delay {said.job('first_job')}, which is first in line",
    "fragmentation": lambda said: (
        f"needs {said.devices('asked')} together, "
        f"at most {said.count('most'):,} {are(said.count('most'))} free on one node"
    ),
    "devices": _busy,
    "dedicated": _dedicated,
    "locality": lambda said: (
        f"waits up to {said.span('in_s')} for {said.devices('asked')} "
        f"on {several(said.count('fewest'), 'node')}"
    ),
    "tries": _tries,
    "set-aside": lambda said: (
        f"{said.count('have'):,} of {said.devices('asked')} are set aside for it"
    ),
    "trial-queue": lambda said: (
        f"waits for a trial on 1 {said.unit} "
        f"({said.count('trials')} of {said.count('most')} in use)"
    ),
    "cost": lambda said: f"preempting {said.jobs('jobs')} for it does not pay yet",
    "rank": _rank,
    "patience": _patience,
    "preempted": lambda said: (
        f"preempted {said.span('since_s')} ago"
        + (f" for {said.job('for_job')}" if said.text("for_job") else "")
    ),
    # Jobs that hold devices.
    "starting": lambda said: f"starting on {said.devices('size')}",
    "stopping": lambda said: _leaving(said, "stopping"),
    "cancelling": lambda said: _leaving(said, "being cancelled"),
    "running": lambda said: f"running on {said.devices('size')}",
    "shares": lambda said: f"shares {said.some('size')} with {said.jobs('jobs')}",
    "shrunk": lambda said: f"shrunk to {said.devices('size')} for {said.job('for_job')}",
    "could-grow": lambda said: (
        f"running on {said.devices('size')}, growing to {said.count('next'):,} does not pay yet"
    ),
    "trial": lambda said: (
        f"on trial on 1 {said.unit}, gets {said.count('asked'):,} in {said.span('in_s')}"
    ),
}


# -- supporting lines -----------------------------------------------------------------------------


def _node_lines(said: _Said) -> list[Line]:
    """What each node lacks: host memory, cores or devices."""
    found, nodes = [], said.numbers.get("nodes", ())
    for row in nodes if isinstance(nodes, tuple) else ():
        assert isinstance(row, tuple), "a node and what it has"
        name, *rest = row
        left_gib, left_cores, gib, cores, free, total = map(float, map(str, rest))
        if gib and left_gib < said.number("memory_gib"):
            fact = f"{gib_texts((max(0.0, left_gib), gib), ' of ')} free"
        elif cores and left_cores < said.number("cores"):
            fact = f"{max(0.0, left_cores):g} of {cores:g} cores free"
        else:
            fact = f"{free:g} of {several(int(total), said.unit)} free"
        found.append((str(name), fact))
    return found


def _weighed(said: _Said) -> list[Line]:
    lines = [("costs", f"about {said.span('cost_s')}")]
    if said.number("gain_s") > 0:
        lines.append(("gains", f"about {said.span('gain_s')}"))
    if said.known("in_s"):
        lines.append(("pays", f"in {said.span('in_s')} if nothing changes"))
    return lines


def _expected(said: _Said) -> list[Line]:
    lines = [("expected", f"in {said.span('in_s')}")] if said.known("in_s") else []
    if said.all("holders"):
        lines.append(("in use", f"by {said.jobs('holders')}"))
    return lines


_DETAILS: Mapping[str, Callable[[_Said], list[Line]]] = {
    "host": _node_lines,
    "cost": _weighed,
    "could-grow": _weighed,
    "reservation": _expected,
    "reserved": lambda said: [("until", f"in {said.span('in_s')}")] if said.known("in_s") else [],
    "devices": lambda said: (
        [("in use", f"by {said.jobs('holders')}")] if len(said.all("holders")) > 1 else []
    ),
    "overtaking": lambda said: [
        ("needs", f"about {said.span('takes_s')}"),
        (said.job("first_job"), f"could start in {said.span('in_s')}"),
    ],
    "running": lambda said: (
        [("sizes", f"{said.count('least'):,} to {said.devices('most')}")]
        if said.count("least") < said.count("most")
        else []
    ),
}
