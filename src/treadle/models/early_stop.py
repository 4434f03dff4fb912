"""Advice to stop a job early, from its loss curve.

In the Philly study most jobs ran on for the last 0.1 % of their loss. Advice is given if a curve
that does well on held-out losses predicts that the loss will not fall by more than a given share
before the job's end. It is only advice: no job is stopped.
"""

from dataclasses import dataclass

from treadle.models.losses import GOOD, Fit

LEAST = 0.001  # of the loss now: what the study counts as no improvement
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class StopAdvice:
    """What stopping now costs in loss and saves in device-hours."""

    gain: float  # predicted further fall, as a share of the current loss
    least: float  # the share below which advice is given
    iterations: float  # that need not be run
    device_h: float

    @property
    def sentence(self) -> str:
        return (
            f"its loss will not fall by more than {100 * self.least:g} % before its end "
            f"(estimate: {100 * self.gain:.2g} %); stopping now saves "
            f"{self.device_h:.3g} GPU-hours"
        )


def stop_advice(
    fit: Fit,
    *,
    done: float,
    end: float,
    iterations_per_s: float,
    size: int,
    least: float = LEAST,
) -> StopAdvice | None:
    """Advice to stop a job after `done` iterations; None if it should continue.

    Also None if the curve does badly on held-out losses.
    """
    if not (end > done and iterations_per_s > 0 and fit.held_out_error <= GOOD):
        return None
    now, last = fit.curve.at(done), fit.curve.at(end)
    gain = max(1.0 - last / now, 0.0)
    if gain > least:
        return None
    left = end - done
    return StopAdvice(gain, least, left, left / iterations_per_s * size / _HOUR_S)
