"""What is said of a job outside the decision: its gates, its machines, its end; and what helps.

The tables are a part of those of `treadle.core.sentences`, which is the one to ask.
"""

from collections.abc import Callable, Mapping

from treadle.core.numbers_in_words import NAMED_MAX, Line, Numbers
from treadle.core.reasons import Reason
from treadle.core.wording import are, gib_flag, gib_text, listed, several, times

# What members of an array do in a state.
_MEMBERS = {
    "RUNNING": "running",
    "RESIZING": "resizing",
    "STARTING": "starting",
    "STOPPING": "stopping",
    "PAUSED": "paused",
    "PENDING": "waiting",
    "HELD": "on hold",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "TIMEOUT": "reached their time limit",
    "CANCELLED": "cancelled",
}
_OPENED = {  # how a closed device opens again, by what closed it
    "avoided": "treadle device {device} manage (for admins)",
    "excluded": "treadle device {device} manage (for admins)",
    "machine": "{device} opens once its machine can launch jobs",
    "unseen": "{device} opens once its driver answers",
    "silent": "node {node} is used again once its agent answers",
    "unconfirmed": "node {node} is used again once its cluster confirms it",
    "stuck": "{device} opens once that process is gone",
    "quarantined": "treadle device {device} unquarantine (for admins), once it is clean",
}
_OPENED_OTHERWISE = "{device} opens once the foreign process has left it"


# -- jobs that wait -------------------------------------------------------------------------------


def _held(n: Numbers) -> str:
    by_others = any(each != "user" for each in n.all("reasons"))
    return f"on hold: {', '.join(n.all('reasons'))}" if by_others else "on hold by its user"


def _dependency(n: Numbers) -> str:
    after = [f"{kind} {name} ({state})" for kind, name, state in n.rows("after")]
    return f"starts after {listed(after, NAMED_MAX) or 'jobs that are about to end'}"


def _array(n: Numbers) -> str:
    running = n.count("running")
    head = f"array {n.text('array')} may run {several(n.count('limit'), 'job')} at once"
    return head + (f", {running:,} {are(running)} running" if running else "")


def _array_details(n: Numbers) -> list[Line]:
    before = several(n.count("before"), "job of its array", "jobs of its array")
    found = [("before it", before)] if n.count("before") else []
    return [*found, ("on hold", f"{n.listed('held')}, and counts")] if n.all("held") else found


def _away(n: Numbers) -> str:
    words = {"drained": "drained", "lost": n.text("because") or "lost"}
    parts = [f"{n.listed(name)} ({word})" for name, word in words.items() if n.all(name)]
    nodes = "node" if len((*n.all("drained"), *n.all("lost"))) == 1 else "nodes"
    return f"needs {nodes} {', '.join(parts)}"


def _retry(n: Numbers) -> list[Line]:
    return [("retry", f"in {n.span('in_s')}")] if n.known("in_s") else []


# -- jobs that hold devices, or leave them --------------------------------------------------------


def _resizing(n: Numbers) -> str:
    how = "changing to" if n.of.get("live") else "restarting on"
    return n.text("stuck") or f"{how} {n.devices('size')}{n.job('for_job', ' for ')}"


def _leaving(n: Numbers) -> str:
    whose = {"user": "on hold by its user", "cancel": "cancelled"}
    text = whose.get(n.text("by")) or f"preempted{n.job('for_job', ' for ')}"
    if stuck := n.text("stuck"):
        return f"{text}; {stuck}"
    if n.number("in_s") > 0:
        return f"{text}; it has {n.span('in_s')} to stop"
    return f"{text}; its {n.number('grace_s'):g} s to stop are over, and it is killed"


def _pausing(n: Numbers, done: str) -> str:
    return f"{done}{n.text('by', ' by ')}{n.job('for_job', ' for ')}"


def _paused(n: Numbers) -> str:
    """Since when, and where its memory is."""
    if n.of.get("resumed"):
        return f"resumed, and waits for {n.listed('devices')}"
    text = f"{_pausing(n, 'paused')} {n.span('since_s')} ago"
    moved = n.text("how") == "suspended"
    return f"{text}, {n.unit} memory on the host" if moved else text


def _goes_on(n: Numbers) -> list[Line]:
    lines = [("devices", f"{n.listed('devices')}{n.jobs('jobs', ', in use by ')}")]
    if n.number("memory_gib"):
        there = "on the host" if n.text("how") == "suspended" else "stays there"
        lines.append(("memory", f"{gib_text(n.number('memory_gib'))}, {there}"))
    if n.text("closed"):
        lines.append(("closed", n.text("closed")))
    return [*lines, ("because", n.text("stuck"))] if n.text("stuck") else lines


def _node_lost(n: Numbers) -> str:
    were = "node {} was" if len(n.all("nodes")) == 1 else "nodes {} were"
    stuck = n.text("stuck") or "its other processes are being stopped"
    return f"{were.format(n.listed('nodes'))} lost; {stuck}"


def _runs_again(n: Numbers) -> list[Line]:
    point = "its last checkpoint" if n.of.get("resumable") else "the beginning"
    return [("then", f"runs again from {point}")] if n.text("by") == "policy" else []


# -- jobs that ended, and arrays -------------------------------------------------------------------


def _failed(n: Numbers) -> str:
    text = f"exit code {n.text('exit')}" if n.text("exit") else "no exit code"
    text += f" ({n.text('signal')})" if n.text("signal") else ""
    text += n.text("because", ": ")
    return text + (f" (tried {times(n.count('failures'))})" if n.count("failures") > 1 else "")


def _given_up(n: Numbers) -> list[Line]:
    most = n.count("most")
    said = {
        "repeats": f"none: the same failure {times(most)} in a row is not retried",
        "most": f"none: at most {most} such failures are retried",
    }
    return [("retry", said[n.text("given_up")])] if n.text("given_up") else []


def _members(n: Numbers) -> str:
    counts = {str(state): int(str(count)) for state, count in n.rows("states")}
    return ", ".join(
        f"{counts[each]:,} {word}" for each, word in _MEMBERS.items() if each in counts
    )


# -- a job and a device; a change ------------------------------------------------------------------


def _changed(n: Numbers) -> str:
    """Who asked for it, who let go, who gets what it had."""
    turn = "its reservation began" if n.of.get("turn") else ""
    others = (n.jobs("from_jobs", "taken from "), n.jobs("to_jobs", "for "))
    parts = [part for part in (turn, *n.all("asked"), *n.all("freed"), *others) if part]
    return "; ".join(dict.fromkeys(parts)) or n.text("policy", "the policy is now ")


def bound(n: Numbers) -> str:
    """What binds a job to nodes."""
    what = {
        "": "it may only use",
        "checkpoints": "its checkpoints are on",
        "one-node": "its checkpoints are confined to",
    }
    return f"{what.get(n.text('by'), 'its folder is only on')} {n.listed('nodes')}"


CLAUSES: Mapping[str, Callable[[Numbers], str]] = {
    "never-fits": lambda n: f"can never run here: {n.text('because')}",
    "broken": lambda n: f"can never start: {n.text('because')}",
    "capacity": lambda n: f"no node is large enough yet: {n.text('because')}",
    "held": _held,
    "dependency": _dependency,
    "array": _array,
    "launch": lambda n: f"could not be launched{n.text('because', ': ')}",
    "backoff": lambda n: f"failed {times(n.count('failures'))}, next try in {n.span('in_s')}",
    "daemon-draining": lambda _: "the daemon is draining and starts no jobs",
    "store": lambda n: f"the store cannot be written ({n.text('because')})",
    "machine": lambda n: n.text("because"),
    "policy": lambda n: f"the policy {n.text('policy')} fails: {n.text('because')}",
    "away": _away,
    "bound-away": lambda n: f"{bound(n)}, which {are(len(n.all('nodes')))} {n.text('away')}",
    "closed": lambda n: (
        f"needs {n.devices('asked')}, {n.count('open'):,} {are(n.count('open'))} open: "
        f"{n.text('because')}"
    ),
    "releasing": lambda n: f"waiting for {n.jobs('jobs')} to release {n.devices('size')}",
    "resizing": _resizing,
    "launching": lambda n: n.text("stuck"),
    "leaving": _leaving,
    "paused": _paused,
    "pausing": lambda n: _pausing(n, "being paused"),
    "node-lost": _node_lost,
    "over": lambda n: (
        f"it ended its training {n.span('since_s')} ago and "
        f"{'still runs' if n.of.get('late') else 'is about to end'}"
    ),
    "ending": lambda _: "it has ended; the store is being written",
    "succeeded": lambda _: "exit code 0",
    "failed": _failed,
    "cancelled": lambda n: f"cancelled{n.text('by', ' by ')}",
    "timeout": lambda n: f"reached its time limit of {n.number('limit_s'):g} s",
    "members": _members,
    "changed": _changed,
}
DETAILS: Mapping[str, Callable[[Numbers], list[Line]]] = {
    "dependency": lambda n: (
        [("risk", f"job {n.text('fails')} will probably reach its time limit first")]
        if n.text("fails")
        else []
    ),
    "array": _array_details,
    "launch": _retry,
    "node-lost": _runs_again,
    "paused": _goes_on,
    "failed": _given_up,
}


# -- what helps ------------------------------------------------------------------------------------


_ADVICE = {
    "held": "treadle release {job}",
    "broken": "treadle release {job} runs {them} anyway; treadle cancel {job} drops {them}",
    "daemon-draining": "treadle up, once it has stopped",
    "timeout": "submit it again with a longer --time-limit",
}


def advice(reason: Reason, job: str, them: str = "it") -> str:
    """What the reader can do, a command where there is one; empty: nothing. them: of several."""
    n = Numbers(reason.numbers, "", {})
    match reason.code:
        case "away" | "bound-away":
            return "; ".join(f"treadle nodes undrain {name}" for name in n.all("undrain"))
        case "closed":
            return "; ".join(dict.fromkeys(_opened(*row) for row in n.rows("opening")))
        case "policy":
            return f"treadle policy {'backfill' if n.text('policy') == 'fifo' else 'fifo'}"
        case "failed":
            return _after_failure(n, job)
        case "paused" if n.text("by"):
            return f"treadle resume {job}"
    return _ADVICE.get(reason.code, "").format(job=job, them=them)


def _opened(device: object, node: object, cause: object) -> str:
    return _OPENED.get(str(cause), _OPENED_OTHERWISE).format(device=device, node=node)


def _after_failure(n: Numbers, job: str) -> str:
    """Never a retry that was decided against."""
    match n.text("kind"):
        case "unknown":
            again = "; --retries tries it again" if n.of.get("retriable") else ""
            return f"treadle logs {job} shows what it printed{again}"
        case "deterministic":
            return "fix the cause, then submit it again"
        case "resource" if n.text("more") == "host memory" and n.number("memory_gib"):
            return f"submit it again with --memory {gib_flag(2 * n.number('memory_gib'))}"
        case "resource":
            return n.text("more", "submit it again with more ")
        case "transient" if n.text("given_up"):
            return f"find the cause first: it failed {times(n.count('failures'))}"
        case "transient":
            return "submit it again"
    return ""
