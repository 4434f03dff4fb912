"""When a waiting job would start, as a range: the live scheduler, simulated from now on.

A job of which no length is known is assumed not to end. If the job then starts all the same, the
estimate does not depend on it; otherwise the start is unknown.
"""

from collections.abc import Sequence

from treadle.control.api.context import Context
from treadle.control.api.queue_order import position
from treadle.control.loop import worked_for
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.core.wording import named_jobs
from treadle.sim.start_estimate import Effort, starts_in
from treadle.wire.jobs import StartEstimate

HORIZON_S = 30 * 86_400.0
STEPS = 60_000  # of one simulation, divided by how many jobs wait: a decision looks at them all
SPEND_S = 0.15  # of the processor, for one simulation
STRETCHES = (0.5, 1.0, 2.0)  # factors on the estimated remaining time of jobs


def estimate(context: Context, job: JobId, scheduler: Scheduler | None = None) -> StartEstimate:
    """A range, with the sentence that says what it is based on."""
    scheduler = scheduler or context.scheduler
    now = context.clock.now()
    steps = max(20, STEPS // (1 + len(scheduler.ranking.queue)))
    if context.charge.last_s > 0:
        steps = max(3, min(steps, int(SPEND_S / context.charge.last_s)))
    place = position(scheduler, job)
    if place is not None and place > steps * context.cluster.device_count:
        # Even if every step freed all devices, it would not be its turn.
        return _unknown(f"{place - 1:,} jobs are ahead of it, too many to simulate")
    endless = [name for name in scheduler.jobs if name != job and not _known(context, name)]
    answers: list[float | None] = []
    for stretch in STRETCHES:
        try:
            answers.append(
                starts_in(
                    scheduler,
                    context.belief,
                    job,
                    now=now,
                    stretch=stretch,
                    effort=Effort(HORIZON_S, steps, worked_for(SPEND_S)),
                    endless=endless,
                )
            )
        except Exception:  # A third party's policy may raise anything; status shows it.
            answers.append(None)
        if answers == [None]:
            break  # Not even with the shortest times: the others would come no further.
    known = [answer for answer in answers if answer is not None]
    if endless and not known:
        # The default length would give figures, and they would be invented.
        return _unknown(
            f"how long {named_jobs(_first(scheduler, endless), 1)} will run is not known"
        )
    sentence = (
        f"{len(STRETCHES)} simulations under {context.charge.policy}, assuming 0.5x, 1x and 2x the "
        "estimated remaining time and no new jobs"
    )
    if len(answers) < len(STRETCHES):
        sentence = (
            f"a simulation under {context.charge.policy} came to no start of it within its limits, "
            "assuming 0.5x the estimated remaining time and no new jobs"
        )
    return StartEstimate(
        earliest_s=min(known, default=None),
        latest_s=max(known) if len(known) == len(answers) else None,
        runs=len(answers),
        sentence=sentence,
    )


def _known(context: Context, job: JobId) -> bool:
    """Whether there is evidence of how long it takes, or its user said so."""
    record = context.jobs.records.get(job)
    return record is None or record.known


def _first(scheduler: Scheduler, endless: Sequence[JobId]) -> list[JobId]:
    """Of jobs of unknown length, those that hold devices; else those that wait."""
    holding = [name for name in endless if scheduler.jobs[name].allocation is not None]
    return holding or list(endless)


def _unknown(sentence: str) -> StartEstimate:
    return StartEstimate(earliest_s=None, latest_s=None, runs=0, sentence=sentence)
