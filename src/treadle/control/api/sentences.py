"""What every reason says to people: one clause, a few details, and what its reader can do.

Core's codes are rendered by `treadle.core.sentences`, the controller's here. A clause is what
follows "NAME is waiting:" and what `ps` shows. Nothing reads it back.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

from treadle.control.api.context import Context
from treadle.control.api.reasons import CODES
from treadle.control.jobs import given_name
from treadle.core import sentences as core
from treadle.core.cluster import CPU
from treadle.core.job import JobId
from treadle.core.reasons import Number, Reason
from treadle.core.wording import are, gib_text, listed, named_jobs, several, span, times

NAMED_MAX = 4
_JOBS = ("job", "jobs", "holders")  # how the names of numbers end that are jobs


class _Numbers(NamedTuple):
    """The numbers of a reason, as text or as they are."""

    of: Mapping[str, Number]
    unit: str
    called: Mapping[JobId, str]  # names of jobs

    def text(self, name: str) -> str:
        return str(self.of.get(name, ""))

    def number(self, name: str) -> float:
        return cast("float", self.of.get(name, 0))

    def names(self, name: str) -> list[str]:
        return [str(each) for each in cast("tuple[Number, ...]", self.of.get(name, ()))]

    def rows(self, name: str) -> tuple[tuple[str, str, str], ...]:
        return cast("tuple[tuple[str, str, str], ...]", self.of.get(name, ()))

    def listed(self, name: str) -> str:
        return listed(self.names(name), NAMED_MAX)

    def jobs(self, name: str) -> str:
        return named_jobs([self.called.get(job, job) for job in self.names(name)], NAMED_MAX)

    def job(self, name: str) -> str:
        """By its name where it has one."""
        return self.called.get(self.text(name)) or f"job {self.text(name)}"

    def span(self, name: str) -> str:
        return span(self.number(name))

    def devices(self, name: str) -> str:
        return several(int(self.number(name)), self.unit)


class Said:
    """Sentences with the names that users gave their jobs."""

    def __init__(self, context: Context) -> None:
        self._records = context.jobs.records
        self._called: Counter[str] | None = None  # how many jobs have a name; counted when asked
        nodes = context.cluster.nodes
        slots = bool(nodes) and all(node.device_type == CPU for node in nodes)
        self.unit = "slot" if slots else "GPU"

    def name(self, job: JobId) -> str:
        """What its user calls it, if no other active job is called so; else empty."""
        return self._names((job,)).get(job, "")

    def label(self, job: JobId) -> str:
        return self.name(job) or job

    def sentence(self, reason: Reason) -> str:
        """The clause."""
        numbers = reason.numbers
        jobs = [value for name, value in numbers.items() if name.endswith(_JOBS)]
        names = self._names(each for value in jobs for each in _flat(value))
        own = _CLAUSES.get(reason.code)
        if own is None:
            return core.sentence(reason, self.unit, names)
        return own(_Numbers(numbers, self.unit, names))

    def details(self, reason: Reason) -> tuple[tuple[str, str], ...]:
        """Labels with one fact each."""
        return () if reason.code in CODES else core.details(reason, self.unit)

    def _names(self, jobs: Iterable[JobId]) -> dict[JobId, str]:
        """Of those that have one which no other active job has."""
        records = {job: self._records[job] for job in jobs if job in self._records}
        if self._called is None and any(record.name for record in records.values()):
            self._called = Counter(each.name for each in list(self._records.values()))
        called = self._called or Counter()
        own = {job: given_name(record) for job, record in records.items()}
        return {job: name for job, name in own.items() if name and called[name] == 1}


def _flat(value: Number) -> list[str]:
    if isinstance(value, tuple):
        return [name for each in value for name in _flat(each)]
    return [str(value)]


def clause(reason: Reason) -> str:
    """Of a reason of the controller that names no jobs."""
    return _CLAUSES[reason.code](_Numbers(reason.numbers, "GPU", {}))


def advice(reason: Reason, job: str, them: str = "it") -> str:
    """The command that helps, of reasons with which that is known; `them`: several jobs."""
    n = _Numbers(reason.numbers, "GPU", {})
    match reason.code:
        case "held":
            return f"treadle release {job}"
        case "broken":
            return f"treadle release {job} runs {them} anyway; treadle cancel {job} drops {them}"
        case "away" | "bound-away":
            return "; ".join(f"treadle nodes undrain {name}" for name in n.names("undrain"))
        case "closed":
            return "; ".join(dict.fromkeys(map(_opened, n.rows("opening"))))
        case "daemon-draining":
            return "treadle up, once it has stopped"
        case "policy":
            return f"treadle policy {'backfill' if n.text('policy') == 'fifo' else 'fifo'}"
        case "timeout":
            return "submit it again with a longer --time-limit"
    return ""


def _opened(row: tuple[str, str, str]) -> str:
    """How a closed device is opened again."""
    device, node, cause = row
    return _OPENED.get(cause, _FREED).format(device=device, node=node)


_FREED = "{device} opens once the foreign process has left it"
_OPENED = {
    "avoided": "treadle device {device} manage (for admins)",
    "excluded": "treadle device {device} manage (for admins)",
    "machine": "{device} opens once its machine can launch jobs",
    "unseen": "{device} opens once its driver answers",
    "silent": "node {node} is used again once its agent answers",
    "unconfirmed": "node {node} is used again once its cluster confirms it",
    "stuck": "{device} opens once that process is gone",
    "quarantined": "treadle device {device} unquarantine (for admins), once it is clean",
}


def _again(n: _Numbers) -> str:
    return f"; tried again in {n.span('in_s')}" if "in_s" in n.of else ""


def _dependency(n: _Numbers) -> str:
    after = [f"{kind} {name} ({state})" for kind, name, state in n.rows("after")]
    shown = listed(after, NAMED_MAX)
    text = f"starts after {shown}" if shown else "starts after jobs that are about to end"
    fails = n.text("fails")
    return f"{text}; job {fails} will probably reach its time limit first" if fails else text


def _array(n: _Numbers) -> str:
    limit = several(int(n.number("limit")), "job")
    text = f"array {n.text('array')} may run {limit} at once"
    counts = [(n.number("running"), "running"), (n.number("before"), "waiting before it")]
    parts = [f"{int(count):,} {word}" for count, word in counts if count]
    return f"{text} ({', '.join(parts)})" if parts else text


def _away(n: _Numbers) -> str:
    parts = [
        f"{'node' if len(n.names(name)) == 1 else 'nodes'} {n.listed(name)} {word}"
        for name, word in (("drained", "drained"), ("lost", n.text("because") or "lost"))
        if n.names(name)
    ]
    return f"the nodes that it needs are away: {', '.join(parts)}"


def _closed(n: _Numbers) -> str:
    few = several(int(n.number("open")), f"{n.unit} is", f"{n.unit}s are")
    return f"it needs {n.devices('asked')} and {few} open: {n.text('because')}"


def _leaving(n: _Numbers) -> str:
    text = {"user": "on hold by its user", "cancel": "cancelled"}.get(n.text("by"), "")
    if not text:
        text = f"preempted for {n.job('for_job')}" if n.text("for_job") else "preempted"
    if stuck := n.text("stuck"):
        return f"{text}; {stuck}"
    if n.number("in_s") > 0:
        return f"{text}; it has {n.span('in_s')} to stop"
    return f"{text}; its {n.number('grace_s'):g} s to stop are over, and it is killed"


def _resizing(n: _Numbers) -> str:
    if stuck := n.text("stuck"):
        return stuck
    how = "changing to" if n.of.get("live") else "restarting on"
    whom = f" for {n.job('for_job')}" if n.text("for_job") else ""
    return f"{how} {n.devices('size')}{whom}"


def _node_lost(n: _Numbers) -> str:
    names = n.names("nodes")
    were = "node {} was" if len(names) == 1 else "nodes {} were"
    text = f"{were.format(n.listed('nodes'))} lost"
    text += f"; {n.text('stuck') or 'what is left of it is being stopped'}"
    if n.text("by"):
        return text
    then = "from its last checkpoint" if n.of.get("resumable") else "from the beginning"
    return f"{text}; then it runs again {then}"


def _failed(n: _Numbers) -> str:
    code = n.text("exit")
    text = f"exit code {code}" if code else "no exit code"
    text += f": {n.text('because')}" if n.text("because") else ""
    if n.number("failures") > 1:
        text += f" (tried {times(int(n.number('failures')))}{n.text('given_up')})"
    return text


def _not_on(n: _Numbers) -> str:
    """Of a device that the job could have, and has not."""
    device, jobs = n.text("device"), n.names("jobs")
    text = f"{device} is busy ({n.jobs('jobs')})" if jobs else f"{device} is free"
    if jobs and n.of.get("exclusive"):
        text += "; the job is exclusive"
    return f"{text}; the job has {n.listed('devices')}" if "devices" in n.of else text


def _changed(n: _Numbers) -> str:
    """What led to a change: who asked, who let go, who gets what it had."""
    parts = [*(["its reservation began"] if n.of.get("turn") else []), *n.names("asked")]
    parts += n.names("freed")
    parts += [f"taken from {n.jobs('from_jobs')}"] if n.names("from_jobs") else []
    parts += [f"for {n.jobs('to_jobs')}"] if n.names("to_jobs") else []
    if not parts and n.text("policy"):
        return f"the policy is now {n.text('policy')}"
    return "; ".join(dict.fromkeys(parts))


_CLAUSES: Mapping[str, Callable[[_Numbers], str]] = {
    "broken": lambda n: f"can never start: {n.text('because')}",
    "capacity": lambda n: f"no node is large enough yet: {n.text('because')}",
    "held": lambda _: "on hold by its user",
    "dependency": _dependency,
    "array": _array,
    "launch": lambda n: f"it could not be launched{_colon(n)}{_again(n)}",
    "lost-early": lambda n: (
        f"its last {int(n.number('attempts'))} attempts were lost within seconds{_again(n)}"
    ),
    "daemon-draining": lambda _: "the daemon is draining and starts no jobs",
    "store": lambda n: f"the store cannot be written ({n.text('because')})",
    "machine": lambda n: n.text("because"),
    "policy": lambda n: f"the policy {n.text('policy')} fails: {n.text('because')}",
    "away": _away,
    "bound-away": lambda n: (
        f"its files are on {n.listed('nodes')}, which {are(len(n.names('nodes')))} {n.text('away')}"
    ),
    "closed": _closed,
    "releasing": lambda n: f"waiting for {n.jobs('jobs')} to release {n.devices('size')}",
    "resizing": _resizing,
    "launching": lambda n: n.text("stuck"),
    "leaving": _leaving,
    "node-lost": _node_lost,
    "over": lambda n: (
        f"it ended its training {n.span('since_s')} ago and "
        f"{'still runs' if n.of.get('late') else 'is about to end'}"
    ),
    "ending": lambda _: "it has ended; the store is being written",
    "succeeded": lambda _: "exit code 0",
    "failed": _failed,
    "cancelled": lambda n: f"cancelled by {n.text('by')}" if n.text("by") else "cancelled",
    "timeout": lambda n: f"reached its time limit of {n.number('limit_s'):g} s",
    "there": lambda n: f"it is on {n.text('device')}, {n.text('phase')} for {n.span('since_s')}",
    "device-closed": lambda n: f"{n.text('device')} takes no jobs: {n.text('because')}",
    "other-type": lambda n: (
        f"{n.text('device')} is of type {n.text('has')}, and the job asks for {n.text('asked')}"
    ),
    "other-memory": lambda n: (
        f"{n.text('device')} has {gib_text(n.number('has_gib'))}, and the job needs "
        f"{gib_text(n.number('asked_gib'))}"
    ),
    "files": lambda n: (
        f"its {'shell is' if n.of.get('shell') else 'files are'} on {n.listed('nodes')}"
    ),
    "elsewhere": _not_on,
    "not-yet": _not_on,
    "changed": _changed,
}


def _colon(n: _Numbers) -> str:
    return f": {n.text('because')}" if n.text("because") else ""
