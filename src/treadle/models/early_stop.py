"""When the rest of a job is not worth its devices: advice from its loss curve.

In the Philly study most jobs ran to the end for a last tenth of a per cent of their loss. Advice is
given where a curve that has proved itself on held-out losses says that the loss will not fall by
more than a share before the job's end. Whether to follow it is the owner's business: nobody is
stopped by it.
"""

from dataclasses import dataclass

from treadle.models.losses import GOOD, Fit

LEAST = 0.001  # of the loss now: what the study counts as no improvement
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class StopAdvice:
    """Stopping now costs so much of the loss and saves so many device-hours."""

    gain: float  # by how much the loss would still fall, as a share of what it is
    least: float  # the share below which advice is given
    iterations: float  # that need not be run
    device_h: float

    @property
    def sentence(self) -> str:
        return (
            f"its loss will not fall by more than {100 * self.least:g} % before its end "
            f"(by {100 * self.gain:.2g} %, as it looks); stopping now saves "
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
    """Advice to stop a job that has done so many of its iterations; None if it should go on.

    Also None where the curve does badly on losses that it has not seen.
    """
    if not (end > done and iterations_per_s > 0 and fit.held_out_error <= GOOD):
        return None
    now, last = fit.curve.at(done), fit.curve.at(end)
    gain = max(1.0 - last / now, 0.0)
    if gain > least:
        return None
    left = end - done
    return StopAdvice(gain, least, left, left / iterations_per_s * size / _HOUR_S)
