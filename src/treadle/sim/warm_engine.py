"""An engine whose jobs grow without stopping, as CoDDL's do (Hwang et al., NSDI'21).

New workers load, build the model and warm up while the old ones train on; the switch itself takes
negligible time. So growing occupies the new devices for a while and does not slow the job,
shrinking is free, and only a start, a resume or a move to other devices stops the job.
"""

from treadle.core.actions import Change
from treadle.sim.engine import Running, SimulatedEngine


class WarmEngine(SimulatedEngine):
    """Charges starts and moves; growing jobs keep their speed until the new workers are ready."""

    def _change(self, action: Change, now: float) -> None:
        run = self._runs[action.job]
        before, after = set(run.allocation.devices), set(action.allocation.devices)
        if not (before <= after or after <= before):
            super()._change(action, now)
            return
        self._settle(run, now)
        self._vacate(action.job, run)
        run.allocation, run.action = action.allocation, action.id
        self._occupy(action.job, run)
        if after <= before:
            self._begun.append((run, 0.0))
        else:
            self._warm_up(run, now)

    def _warm_up(self, run: Running, now: float) -> None:
        ready_at = now + self._cost.seconds(run.spec, run.allocation.size)
        if run.speed and now + (run.spec.iterations - run.done) / run.speed <= ready_at:
            self._expect_end(run, now)  # It ends before the new workers are ready.
        else:
            self._expect(run, ready_at, "begin")
