"""Engines that charge every running job a restart at every event.

For replications only. Several published simulators charge the restart cost this way: in each
interval between two events a running job first pays its start-up time and then makes progress,
whether or not anything about it changed; its predicted end ignores the cost of the interval to
come (Muri's artifact, SIGCOMM'22). Treadle's own default charges a cost where an allocation
changes, and nowhere else.
"""

from collections.abc import Sequence

from treadle.core.actions import Action
from treadle.core.events import Event, JobProgressed
from treadle.core.job import JobId
from treadle.sim.engine import Running, SimulatedEngine


class InterruptingEngine(SimulatedEngine):
    """Charges a job its own start-up time in every interval."""

    # Jobs that end together up to a rounding error make one event, and each job pays once.
    _as_good_as_now = 1.0 + 1e-9
    _interrupted_at = 0.0

    def due(self, now: float) -> list[Event]:
        events = super().due(now)
        if now > self._interrupted_at:
            self._interrupted_at = now
            self._heap.clear()  # Every end is predicted again, and every job reports.
            events = [event for event in events if type(event) is not JobProgressed]
            for identity, run in self._runs.items():
                if run.speed:  # 0 on a node that was just lost.
                    self._settle(run, now)
                    self._expect_end(run, now)
                    events.append(JobProgressed(identity, run.action, run.done, run.speed))
        return events

    def _restart_s(self, run: Running, starts: int) -> float:  # noqa: ARG002
        return 0.0  # Charged as time passes, not as a delay before the start.

    def _settle(self, run: Running, now: float) -> None:
        """Progress since the last event, less what the interval cost at its beginning."""
        past_s = max(now - run.from_at - self._interval_cost_s(run), 0.0)
        run.done = min(run.done + run.speed * past_s, run.spec.iterations)
        run.from_at = now

    def _interval_cost_s(self, run: Running) -> float:
        return self._cost.seconds(run.spec, run.allocation.size)


class GroupInterruptingEngine(InterruptingEngine):
    """Charges each job in a group the start-up times of all its members."""

    _costs: dict[JobId, float] = {}  # noqa: RUF012  # replaced at every event, never changed

    def due(self, now: float) -> list[Event]:
        ends_interval = now > self._interrupted_at
        events = super().due(now)
        if ends_interval:
            self._costs = {}
        return events

    def carry_out(self, actions: Sequence[Action], now: float) -> None:
        super().carry_out(actions, now)
        if actions or not self._costs:
            self._charge()

    def _charge(self) -> None:
        """The costs of the next interval. Members of a group share all their devices."""
        costs: dict[JobId, float] = {}
        seconds = self._cost.seconds
        for identity, run in self._runs.items():
            if identity not in costs:
                ring = self._ring(run)
                cost_s = seconds(run.spec, run.allocation.size)
                for spec, held in ring:
                    cost_s += seconds(spec, held.size)
                costs[identity] = cost_s
                for spec, _ in ring:
                    costs[spec.id] = cost_s
        self._costs = costs

    def _interval_cost_s(self, run: Running) -> float:
        return self._costs.get(run.spec.id, 0.0)
