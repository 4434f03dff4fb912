"""Losses that simulated jobs report, and predictions of their ends from these losses.

A job's losses are hidden truth: a curve drawn from the seed, the family and the job, which ends
when the job does. The model's name gives the family: "predictable-17" falls as
1 / (β0·k + β1) + β2; "unpredictable-3" stays level and then drops, or swings, or diverges until its
owner gives up. Jobs of a family share their curve within 5 %. Any other job declares its steps and
reports no losses.

Policies use `LossForecasts`. It sees the losses up to the iteration that a job has reached, and
what its owner declared: the loss to reach, and a generous limit of steps. Between two refits it
answers from the last one.

`trusting` is the same for Optimus (Peng et al., EuroSys'18), which has no notion of predictability:
it fits one form of curve to every job and believes it. If the curve does not reach the target in
time, or there are too few losses for a curve, the authors' code expects 20 more epochs of at most
100; that is a fifth of the declared limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf
from typing import Literal

import numpy as np

from treadle.core.job import Job, JobId, JobSpec
from treadle.models.forecasts import Forecast
from treadle.models.losses import POINTS_MIN as CURVE_POINTS_MIN
from treadle.models.losses import Fit, Numbers, fit, fit_inverse
from treadle.models.predictability import POINTS_MIN, Evidence, Standing
from treadle.models.seeded_random import draw_normals, draw_numbers

Kind = Literal["predictable", "plateau", "oscillation", "divergence"]
UNPREDICTABLE: tuple[Kind, ...] = ("plateau", "oscillation", "divergence")
REPORTS = 200  # losses within the declared limit of steps
REFIT = 1.3  # times as many losses as at the last refit
REFIT_SETTLED = 1.6  # the same for a predictable job; with 2, a divergence may never be noticed
TRUSTED_REST = 0.2  # of the limit: what Optimus expects to be left without a usable curve
_LIMIT = (1.2, 3.0)  # declared steps over true ones
_FAMILY_SPREAD = 0.05


@dataclass(frozen=True, slots=True)
class Stream:
    """The losses of one job."""

    kind: Kind
    end: float  # iterations after which the job ends, whatever its loss
    limit: float  # of iterations, as declared
    begin_loss: float
    gap: float  # the gap to the floor at the end, as a share of the gap at the start
    floor: float  # over the gap that is left
    turn: float  # share of the run at which it drops or turns, or swings a run
    swing: float
    noise: float
    seed: int

    @property
    def interval(self) -> float:
        """Iterations between two losses."""
        return self.limit / REPORTS

    @property
    def target(self) -> float:
        """The loss that the owner waits for."""
        return float(self._smooth(np.array([1.0]))[0]) if self.kind != "divergence" else self._low

    def count(self, iterations: float) -> int:
        """The number of losses reported after this many iterations."""
        return int(iterations / self.interval + 1e-9)

    def losses(self, count: int) -> tuple[Numbers, Numbers]:
        """The first `count` iterations and losses."""
        iterations = self.interval * np.arange(1, count + 1, dtype=np.float64)
        noise = np.exp(self.noise * draw_normals(self.seed, count))
        return iterations, self._smooth(iterations / self.end) * noise

    @property
    def _low(self) -> float:
        return self.begin_loss * self.gap * (1.0 + self.floor)

    def _smooth(self, share: Numbers) -> Numbers:
        """The loss without noise at shares of the run."""
        begin, low = self.begin_loss, self._low
        if self.kind == "plateau":
            level = begin * (1.0 - 0.02 * share)
            fall = np.clip((share - self.turn) / (1.0 - self.turn), 0.0, 1.0)
            return np.asarray(level * (low / begin) ** fall, dtype=np.float64)
        first = 1.0 / (begin * (1.0 - self.gap * self.floor))
        last = 1.0 / (begin * self.gap)
        falling = 1.0 / (first + (last - first) * share) + begin * self.gap * self.floor
        if self.kind == "oscillation":
            swings = 4.0 + 8.0 * self.turn
            return np.asarray(
                falling * (1.0 + self.swing * np.sin(2.0 * np.pi * swings * share)),
                dtype=np.float64,
            )
        if self.kind == "divergence":
            turn = self.turn / 3.0
            return np.asarray(
                falling * np.exp(3.0 * np.maximum(0.0, share - turn)), dtype=np.float64
            )
        return np.asarray(falling, dtype=np.float64)


def stream(spec: JobSpec, seed: int) -> Stream | None:
    """The losses of a job, or None if it declares its steps instead."""
    family = spec.profile.model.removeprefix("cpu-")
    if not family.startswith(("predictable-", "unpredictable-")):
        return None
    drawn = draw_numbers(_hashed(f"{seed}/{family}"), 8)
    own = _hashed(f"{seed}/{family}/{spec.id}")
    near = 1.0 + _FAMILY_SPREAD * (2.0 * draw_numbers(own, 3) - 1.0)
    kind: Kind = "predictable"
    if family.startswith("unpredictable-"):
        kind = UNPREDICTABLE[int(drawn[6] * len(UNPREDICTABLE))]
    return Stream(
        kind,
        spec.iterations,
        spec.iterations * _between(*_LIMIT, drawn[7]),
        begin_loss=_between(1.0, 6.0, drawn[0]) * near[0],
        gap=_between(0.05, 0.3, drawn[1]) * near[1],
        floor=_between(0.2, 1.0, drawn[2]) * near[2],
        turn=_between(0.6, 0.95, drawn[3]),
        swing=_between(0.3, 0.6, drawn[4]),
        noise=_between(0.01, 0.03, drawn[5]),
        seed=own,
    )


class _Refit:
    """What is known after `count` losses."""

    __slots__ = ("count", "due", "end", "fit", "standing")

    def __init__(self, stream: Stream, count: int, before: Standing) -> None:
        iterations, losses = stream.losses(count)
        self.count = count
        self.fit: Fit = fit(iterations, losses)
        self.end = self.fit.curve.reaches(stream.target)
        end = self.end if self.end <= stream.limit else inf
        done = count / REPORTS
        self.standing = before.after(Evidence.of(self.fit, points=count, done=done, end=end))
        # After how many losses to fit again.
        self.due = int(count * (REFIT_SETTLED if self.standing.predictable else REFIT))


class LossForecasts:
    """Predicts the ends of jobs from the losses reported so far."""

    def __init__(self, jobs: Iterable[JobSpec], seed: int) -> None:
        found = ((spec.id, stream(spec, seed)) for spec in jobs)
        self._streams: dict[JobId, Stream] = {i: losses for i, losses in found if losses}
        # By job, in order; a refit stays valid even if a job falls back to a checkpoint.
        self._refits: dict[JobId, list[_Refit]] = {}
        # The last answer for each job: most queries are about waiting jobs, which do not change.
        self._asked: dict[JobId, tuple[float, Forecast]] = {}
        # By job: the last end predicted by Optimus' curve, and after how many losses.
        self._trusted: dict[JobId, tuple[int, float]] = {}

    def announced(self, spec: JobSpec) -> JobSpec:
        """The job as its owner declares it: with a step limit if its length is unknown."""
        losses = self._streams.get(spec.id)
        return spec if losses is None else replace(spec, iterations=losses.limit)

    def forecast(self, job: Job, now: float) -> Forecast:
        losses = self._streams.get(job.spec.id)
        if losses is None:
            return Forecast(job.remaining_at(now), predictable=True)
        done = job.iterations_at(now)
        known = self._asked.get(job.spec.id)
        if known is not None and known[0] == done:
            return known[1]
        refit, end, predictable = self._last(job.spec.id, losses, done), losses.limit, False
        if refit is not None:
            end, predictable = min(refit.end, losses.limit), refit.standing.predictable
        forecast = Forecast(max(end - done, losses.interval), predictable)
        self._asked[job.spec.id] = (done, forecast)
        return forecast

    def trusting(self, job: Job, now: float) -> float:
        losses = self._streams.get(job.spec.id)
        if losses is None:
            return job.remaining_at(now)
        done = job.iterations_at(now)
        count = _fitted_after(losses.count(done))
        if not count:
            return TRUSTED_REST * losses.limit
        known = self._trusted.get(job.spec.id)
        if known is None or known[0] != count:
            end = fit_inverse(*losses.losses(count)).reaches(losses.target)
            known = self._trusted[job.spec.id] = (count, end)
        if known[1] > losses.limit:
            return TRUSTED_REST * losses.limit
        return max(known[1] - done, losses.interval)

    def _last(self, identity: JobId, losses: Stream, done: float) -> _Refit | None:
        """The last refit of a job after this many iterations."""
        count = losses.count(done)
        if count < POINTS_MIN:
            return None
        refits = self._refits.setdefault(identity, [])
        if refits and refits[-1].count <= count < refits[-1].due:
            return refits[-1]
        while count >= (due := refits[-1].due if refits else POINTS_MIN):
            before = refits[-1].standing if refits else Standing()
            refits.append(_Refit(losses, due, before))
        return next((refit for refit in reversed(refits) if refit.count <= count), None)


def _fitted_after(count: int) -> int:
    """The largest loss count up to `count` at which Optimus' curve is refitted; 0 if none."""
    fitted, following = 0, CURVE_POINTS_MIN
    while following <= count:
        fitted, following = following, max(following + 1, int(following * REFIT))
    return fitted


def _between(low: float, high: float, share: float) -> float:
    return float(low + (high - low) * share)


def _hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
