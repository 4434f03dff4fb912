"""How far behind a controller is while jobs end and others start: a part of fleet_scale.py.

Lags are taken from both sides. Agents note when an attempt ended, when they were asked again, and
when an order came. The journal says when the controller had decided, and when it gave the order.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from benchmarks.fleet_site import Site, Spread, timed

from treadle.engines.agent.grants import DOUBTED_AFTER_S

DECIDED_MAX_S = 10.0  # a job of ten minutes leaves its devices idle for less than 2 % of that
ORDER_MAX_S = 5.0
QUIET_MAX_S = DOUBTED_AFTER_S / 2
ANSWER_MAX_S = 5.0
MEAN_S = 600.0  # of a job
SIZES = {1: 0.5, 2: 0.2, 4: 0.15, 8: 0.12, 16: 0.03}  # shares of jobs, by devices
AT_ONCE = 500  # jobs of one submission
REPLACED = 25  # the same, of jobs that take the place of those that have ended
SETTLED_S = 3.0  # without an order
SETTLE_MAX_S = 60.0


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one size, in one window of time."""

    agents: int
    devices: int
    jobs: int
    seconds: float
    up_s: float
    fill_s: float  # until all jobs were submitted
    busy: float  # share of a core of the daemon
    agents_busy: float  # the same of the agents' process
    ends: int
    orders: int
    decisions: int
    decision_s: float  # CPU time of one
    beside_s: float  # CPU time of all else, for each round of heartbeats
    decided: Spread  # from the end of an attempt to the next decision
    ordered: Spread  # from an order's line in the journal until it was with the agent
    taken: Spread  # from a fact until the controller had it
    quiet: Spread  # from an answer of an agent until it was asked again
    answered: Spread  # requests for the status
    refill: Spread  # from the end of an attempt until its devices had another: the policy's too
    memory_mib: float
    calls: dict[str, int]

    @property
    def late(self) -> list[str]:
        """In what the controller does not keep up."""
        limits = (
            ("decisions", self.decided.p99, DECIDED_MAX_S),
            ("orders", self.ordered.p99, ORDER_MAX_S),
            ("heartbeats", self.quiet.p99, QUIET_MAX_S),
            ("requests", self.answered.p99, ANSWER_MAX_S),
        )
        return [name for name, found, most in limits if found > most]


class _End(msgspec.Struct):
    how: str
    ended_at: float | None = None


class _Start(msgspec.Struct):
    id: int


class Lines:
    """The newest lines of the journal, as they come."""

    def __init__(self, folder: Path) -> None:
        self._link = sqlite3.connect(f"file:{folder / 'treadle.db'}?mode=ro", uri=True)
        self._last: int = self._link.execute("SELECT max(id) FROM journal").fetchone()[0]
        self._ends: list[tuple[float, int]] = []  # when, and how many decisions there were before
        self._decided: list[float] = []
        self.given: dict[int, float] = {}  # orders

    def read(self) -> None:
        query = (
            "SELECT id, wall_at, kind, body FROM journal WHERE id > ? "
            "AND kind IN ('AttemptEnded', 'Decided', 'Start') ORDER BY id"
        )
        for number, at, kind, body in self._link.execute(query, (self._last,)):
            self._last = number
            if kind == "Decided":
                self._decided.append(at)
            elif kind == "Start":
                self.given[msgspec.json.decode(body, type=_Start).id] = at
            else:
                end = msgspec.json.decode(body, type=_End)
                if end.how == "exited" and end.ended_at is not None:
                    self._ends.append((end.ended_at, len(self._decided)))

    def decided_s(self, now: float) -> Iterator[float]:
        """From each end to the next decision; those that have none yet count as decided now."""
        for ended_at, before in self._ends:
            yield (self._decided[before] if before < len(self._decided) else now) - ended_at

    def close(self) -> None:
        self._link.close()


def fill(here: Site, jobs: int) -> float:
    """Submit so many jobs, wait until no more are started; how long the submissions took."""
    begun = time.monotonic()
    for size, share in SIZES.items():
        left = round(jobs * share)
        while left > 0:
            here.submit(size, min(AT_ONCE, left), MEAN_S)
            left -= AT_ONCE
    took = time.monotonic() - begun
    until = time.monotonic() + SETTLE_MAX_S
    while (now := time.monotonic()) < until:
        time.sleep(1.0)
        if now - here.seen().last_order_at > SETTLED_S:
            break
    return took


def window(here: Site, jobs: int, seconds: float, fill_s: float) -> Window:
    """Jobs that end are replaced; the rest is watching."""
    with closing(Lines(here.folder / "state")) as lines:
        start, metrics = here.seen(new=True), decisions(here)
        cpu, begun, replaced = here.cpu_s(), time.monotonic(), 0
        answered: list[float] = []
        while (passed := time.monotonic() - begun) < seconds:
            time.sleep(1.0)
            answered.append(timed(here.client.status))
            lines.read()
            while here.seen().ends >= replaced + REPLACED:
                here.submit(1, REPLACED, MEAN_S)
                replaced += REPLACED
        spent, seen = here.cpu_s() - cpu, here.seen()
        made, thought = (now - was for now, was in zip(decisions(here), metrics, strict=True))
        lines.read()
        came = {int(order): at for order, at in seen.ordered_at.items()}
        return Window(
            agents=here.agents,
            devices=here.agents * here.options.devices,
            jobs=jobs,
            seconds=passed,
            up_s=here.up_s,
            fill_s=fill_s,
            busy=spent / passed,
            agents_busy=(seen.cpu_s - start.cpu_s) / passed,
            ends=seen.ends,
            orders=seen.orders,
            decisions=round(made),
            decision_s=thought / max(1, made),
            beside_s=(spent - thought) * here.agents / max(1, seen.calls.get("facts", 0)),
            decided=spread(list(lines.decided_s(time.time()))),
            ordered=spread(
                [came[order] - at for order, at in lines.given.items() if order in came]
            ),
            taken=Spread(**seen.taken),
            quiet=Spread(**seen.quiet),
            answered=spread(answered),
            refill=Spread(**seen.refill),
            memory_mib=here.memory_mib(),
            calls=seen.calls,
        )


def decisions(here: Site) -> tuple[float, float]:
    """How many there were, and their CPU time."""
    metric = here.metric
    return metric("treadle_decisions_total"), metric("treadle_decision_cpu_seconds_total")


def spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)
    if not ordered:
        return Spread(0.0, 0.0, 0.0)
    middle, late = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
    return Spread(middle, late, ordered[-1])
