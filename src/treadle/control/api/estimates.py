"""When a waiting job would start, as a range: the live scheduler, simulated onward from now."""

from treadle.control.jobs.desk import Desk
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.sim.start_estimate import starts_in
from treadle.wire.jobs import StartEstimate

HORIZON_S = 30 * 86_400.0
STEPS = 60_000  # of one simulation, divided by how many jobs wait: a decision looks at them all
SPEND_S = 0.15  # about how long one simulation may take, while everybody else waits for it
STRETCHES = (0.5, 1.0, 2.0)  # what is left of jobs may be so many times what is believed


def estimate(desk: Desk, job: JobId, scheduler: Scheduler | None = None) -> StartEstimate:
    """A range, with the sentence that says what it rests on."""
    scheduler = scheduler or desk.scheduler
    now = desk.clock.now()
    steps = max(20, STEPS // (1 + len(scheduler.ranking.queue)))
    if desk.decider.last_s > 0:
        steps = max(3, min(steps, int(SPEND_S / desk.decider.last_s)))
    place = desk.place(job)
    if place is not None and place > steps * desk.cluster.device_count:
        # Every step can free all devices, and still it would not be its turn.
        return StartEstimate(
            earliest_s=None,
            latest_s=None,
            runs=0,
            sentence=f"{place - 1} jobs wait ahead of it, too many to simulate",
        )
    answers: list[float | None] = []
    for stretch in STRETCHES:
        try:
            answers.append(
                starts_in(
                    scheduler,
                    desk.belief,
                    job,
                    now=now,
                    stretch=stretch,
                    horizon_s=HORIZON_S,
                    steps_max=steps,
                )
            )
        except Exception:  # A third party's policy may raise anything; that is told elsewhere.
            answers.append(None)
    known = [answer for answer in answers if answer is not None]
    sentence = (
        f"from {len(STRETCHES)} simulations that go on from now under {desk.decider.policy}, with "
        "what is left of every job at half, once and twice what is believed, and nobody new"
    )
    return StartEstimate(
        earliest_s=min(known, default=None),
        latest_s=max(known) if len(known) == len(answers) else None,
        runs=len(answers),
        sentence=sentence,
    )
