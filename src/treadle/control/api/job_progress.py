"""How far a job is and when it ends: one answer, wherever it is shown.

Progress needs evidence: steps that the job reported or printed. The end is a range with a stated
coverage. It rests on the job's own steps, or on jobs like it; where there were none, on its time
limit, which is an upper bound and no estimate. What rests on nothing but a prior is unknown.
"""

from dataclasses import replace
from math import inf
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.queue_order import STOPPING, sharers
from treadle.control.jobs import (
    JobRecord,
    most_of_a_type,
    question_about,
    ran_until,
    records,
    worked_s,
)
from treadle.control.learning import CLOSE, Expectation
from treadle.core.attempt import LastProgress
from treadle.core.job import Job, JobSpec
from treadle.core.lifecycle import Phase
from treadle.core.wording import devices, share, span
from treadle.models.learning.commands import in_words
from treadle.models.learning.expectation import (
    COVERAGE,
    MEASURED,
    OWN_STEPS,
    Basis,
    Remaining,
    remaining,
)
from treadle.models.learning.kinds import Source
from treadle.models.lengths.distribution import Lengths, Span, as_shown
from treadle.policies.weave.weave import Weave
from treadle.policies.wrappers.wrapper import innermost
from treadle.wire.jobs import Estimate, Progress

LIMIT = "its time limit"
STEPS_DONE = "its steps are done; what follows them is not known"
SINCE_MAX_S = 4.0  # a job that has said nothing for longer may stand still
STILL_S = 30.0  # without a step: it stands still,
STILL_PAUSES = 3.0  # if that is this many times its longest pause before,
STILL_SHARE = 0.1  # and this share of what its steps leave: less hardly changes when it ends
MEDIAN = 0.5
BELIEVED = 1.6  # a speed at a size that was not measured may be off by such a factor
GAIN_MIN = 1.02  # a size that is not so much faster is no faster
OUTER = 0.15  # of ten draws, the second and the ninth: between the first and these a range ends


def progress_of(context: Context, record: JobRecord, row: Job) -> Progress | None:
    """What the job said; None if it said nothing."""
    said = _newest(context, record)
    if said is None:
        return None
    runs = row.phase is Phase.RUNNING
    left_s = None
    if runs and said.total and said.per_s:
        left_s = (said.total - said.step) / said.per_s
    return replace(said, per_s=said.per_s if runs else None, eta_s=left_s)


def done_and_saved(context: Context, record: JobRecord, row: Job) -> tuple[str, str]:
    """How much is done, and what a job whose attempt is over resumes from, where that is less."""
    progress = progress_of(context, record, row)
    if progress is None or not progress.total:
        return "", ""
    done, saved = share(min(1.0, progress.step / progress.total)), share(record.safe)
    over = not record.running or row.phase in STOPPING
    return done, saved if over and row.spec.resumable and saved != done else ""


def end_of(context: Context, record: JobRecord, row: Job) -> Estimate | None:
    """In how many seconds a running job ends; None if it does not run."""
    if row.phase is not Phase.RUNNING:
        return None
    expected = expectation(context, record, row)
    left = _left(context, record, row, expected)
    limit_s = limit_left_s(context, record)
    if not left.known:
        return _unknown(expected, limit_s)
    if unclear := _unclear(context, record, expected, left):
        return Estimate(high_s=None if limit_s is None else round(limit_s, 1), because=unclear)
    because, sooner = left.because, _if_grown(context, record, row)
    if sooner < 1.0:
        because += ", sooner if it grows"
    shown = as_shown(left.span.low_s * sooner, left.span.high_s, age_s=_age_s(context, record, row))
    if shown is None:
        return _unknown(expected, limit_s)
    return _ranged(*shown, because, limit_s)


def _unclear(context: Context, record: JobRecord, expected: Expectation, left: Remaining) -> str:
    """Why steps do not say when it ends, though it counts them; empty if they do."""
    own = left.basis in OWN_STEPS
    # Only runs of the same command say what follows the last step. What is known of its kind may be
    # the steps of this very run.
    same = expected.learned.source is Source.SAME_COMMAND and expected.learned.runs > 0
    if (own or not same) and _has_said_all(context, record):
        return STEPS_DONE
    if not own:
        return ""
    gauge = context.learner.gauge(record.id)
    if gauge is None or gauge.grew_at is None:
        return ""
    # While no controller listened, it is taken to have gone on.
    still_s = context.clock.now() - gauge.grew_at - context.learner.unheard_s(gauge.grew_at)
    enough_s = max(STILL_S, STILL_PAUSES * gauge.longest_s, STILL_SHARE * left.mean_s)
    return f"no step for {span(still_s)}" if still_s >= enough_s else ""


def _has_said_all(context: Context, record: JobRecord) -> bool:
    """Whether its last step is done: an evaluation or the writing of a model may follow."""
    said = context.learner.progress(record.id)
    return said is not None and bool(said.total) and said.step >= (said.total or 0.0)


def length_of(expected: Expectation, spec: JobSpec, limit_s: float | None) -> Estimate:
    """How long the whole job takes with the devices that it asks for."""
    if not expected.shown:
        return _unknown(expected, limit_s)
    left = _naming_size(remaining(expected.learned, 0.0), expected, spec)
    because = left.because
    if spec.elastic and expected.learned.source is not Source.ITS_USER:
        because += f", if it has {devices(spec.asked)} all the time"
    shown = as_shown(left.span.low_s, left.span.high_s)
    return _unknown(expected, limit_s) if shown is None else _ranged(*shown, because, limit_s)


def expectation(context: Context, record: JobRecord, row: Job) -> Expectation:
    """What is known of jobs like it."""
    return context.learner.profiles.ask(question_about(record, row.spec))


class Left(NamedTuple):
    """The seconds that are left of a job, to be drawn from.

    The draws are at least as far apart as the range that people are shown: a range from few runs is
    widened, and what is drawn must not claim to know more than it does.
    """

    lengths: Lengths
    low_s: float  # the range that is shown
    high_s: float
    limit_s: float = inf  # its time limit ends it then

    def at(self, share: float) -> float:
        """The seconds within which so large a share of such jobs ends."""
        drawn = self.lengths.quantile(share)
        if share < MEDIAN:
            out = min(1.0, (MEDIAN - share) / (MEDIAN - OUTER))
            drawn -= out * max(0.0, self.lengths.quantile(OUTER) - self.low_s)
        else:
            out = min(1.0, (share - MEDIAN) / (MEDIAN - OUTER))
            drawn += out * max(0.0, self.high_s - self.lengths.quantile(1.0 - OUTER))
        return min(self.limit_s, max(0.0, drawn))


def left_of(context: Context, record: JobRecord, row: Job) -> Left | None:
    """What is left of a job at its present or asked size; None: unknown.

    What a job says of its own steps comes first, as in `end_of`.
    """
    expected = expectation(context, record, row)
    left = _left(context, record, row, expected)
    if not left.known or _unclear(context, record, expected, left):
        return None
    if left.basis in OWN_STEPS or _counted(context, record, row):
        lengths = Lengths.exactly(left.mean_s)
    else:
        lengths = expected.learned.length.scaled(_slower(context, row)).after(
            _age_s(context, record, row)
        )
    limit_s = limit_left_s(context, record)
    return Left(lengths, left.span.low_s, left.span.high_s, inf if limit_s is None else limit_s)


def limit_left_s(context: Context, record: JobRecord) -> float | None:
    """Seconds until its time limit stops it, if it has one; it counts over all attempts."""
    if record.time_limit_s is None:
        return None
    return max(0.0, record.time_limit_s - record.ran_s - held_s(context, record))


def _left(context: Context, record: JobRecord, row: Job, expected: Expectation) -> Remaining:
    """What is left of it, before its time limit; known if people are shown it."""
    learned = expected.learned
    slower = _slower(context, row)
    if slower != 1.0:
        learned = replace(learned, length=learned.length.scaled(slower))
    said = _by_now(context, record) if row.phase is Phase.RUNNING else None
    left = remaining(learned, _age_s(context, record, row), said=said)
    if left.basis not in MEASURED and _counted(context, record, row):
        return _at_new_size(context, row)
    left = _naming_size(left, expected, row.spec)
    own = left.basis in (OWN_STEPS if expected.known else MEASURED)
    return left if expected.shown or own else replace(left, known=False)


def _naming_size(left: Remaining, expected: Expectation, spec: JobSpec) -> Remaining:
    """That runs like it had other sizes: it may be as fast as these, and its range holds both."""
    measured = expected.profile.measured
    if not measured or spec.asked in measured or left.basis in OWN_STEPS:
        return left
    if expected.learned.source not in CLOSE:
        return left
    return replace(left, because=f"{left.because}, none on {devices(spec.asked)}")


def _counted(context: Context, record: JobRecord, row: Job) -> bool:
    """Whether a running job said that steps are left, and the scheduler counts its work in them.

    A total that was predicted from its losses is for policies alone.
    """
    said = record.progress
    if said is None or not said.total or said.step >= said.total or _has_said_all(context, record):
        return False
    return row.phase is Phase.RUNNING and record.metered


def _at_new_size(context: Context, row: Job) -> Remaining:
    """Steps left at the speed that it is believed to have, of a job that is not measured yet.

    The scheduler counts its work in what the job said of its steps before it was resized.
    """
    speed = context.belief.alone(row.spec, row.spec.asked) / _slower(context, row)
    left_s = row.remaining_at(context.clock.now()) / speed
    either = Span(left_s / BELIEVED, left_s * BELIEVED, COVERAGE)
    return Remaining.by_steps(either, left_s, Basis.OTHER_SIZE)


def _if_grown(context: Context, record: JobRecord, row: Job) -> float:
    """What is left of its time if it were given the most devices now; 1 if it will not grow."""
    spec = row.spec
    most = most_of_a_type(spec.device_types, context.cluster, spec.device_memory_gib)
    may_change = spec.resumable or "size" in record.changes
    if not (may_change and context.scheduler.policy.resizes):
        return 1.0
    larger = [speed_at(context, spec, size) for size in spec.sizes if row.size < size <= most]
    now, most_then = speed_at(context, spec, row.size), max(larger, default=0.0)
    return now / most_then if 0 < now * GAIN_MIN < most_then else 1.0


def speed_at(context: Context, spec: JobSpec, size: int) -> float:
    """Its speed on that many devices, as the policy expects it: it may know where they would be."""
    policy = innermost(context.scheduler.policy)
    if isinstance(policy, Weave):
        return policy.curves.speed(spec, size)
    return context.belief.alone(spec, size)


def _by_now(context: Context, record: JobRecord) -> LastProgress | None:
    """What it said, and the steps that it has done since then, at that speed."""
    said, gauge = context.learner.progress(record.id), context.learner.gauge(record.id)
    if said is None or gauge is None or not said.total or not said.per_s:
        return said
    if gauge.total != said.total:
        return said  # It is not followed.
    # A job that could not be heard is taken to have gone on.
    unheard_s = context.learner.unheard_s(gauge.seen_at)
    since_s = min(SINCE_MAX_S + unheard_s, max(0.0, context.clock.now() - gauge.seen_at))
    return replace(said, step=min(said.total, said.step + said.per_s * since_s))


def _slower(context: Context, row: Job) -> float:
    """How many times as long it takes, shared as it is, as alone with what it asks for.

    A job that waits is taken to get what it asks for.
    """
    if row.allocation is None or row.allocation.paused:
        return 1.0
    rows = context.scheduler.jobs
    others = [rows[name] for name in sharers(context.scheduler, row)]
    ring = [(other.spec, other.allocation) for other in others if other.allocation is not None]
    if not ring and row.size == row.spec.asked and not row.spec.profile.by_type:
        return 1.0
    speed = context.belief.iterations_per_s(row.spec, row.allocation, ring)
    return context.belief.alone(row.spec, row.spec.asked) / speed if speed > 0 else 1.0


def _age_s(context: Context, record: JobRecord, row: Job) -> float:
    """How long it has run, of work that counts, at its present size.

    Work that is counted in steps ends with the last of them, and the job may go on.
    """
    now, gauge = context.clock.now(), context.learner.gauge(record.id)
    age_s = worked_s(row, now) * _slower(context, row)
    if record.metered and gauge is not None and gauge.grew_at and _has_said_all(context, record):
        age_s += max(0.0, now - gauge.grew_at)
    return age_s


def held_s(context: Context, record: JobRecord) -> float:
    """For how long its newest attempt has run so far."""
    if record.began_s is None:
        return 0.0
    return ran_until(record, context.clock.now() if record.lost_s is None else record.lost_s)


def _ranged(low_s: float, high_s: float, because: str, limit_s: float | None) -> Estimate:
    if limit_s is not None and limit_s <= low_s:
        # Only the limit counts, which is a bound and no estimate.
        return Estimate(high_s=round(limit_s, 1), because=LIMIT)
    if limit_s is not None and limit_s < high_s:
        because, high_s = f"{because} and {LIMIT}", limit_s
    return Estimate(
        low_s=round(low_s, 1 if low_s >= 1.0 else 2),
        high_s=round(high_s, 1),
        coverage=COVERAGE,
        known=True,
        because=because,
    )


def _unknown(expected: Expectation, limit_s: float | None) -> Estimate:
    if limit_s is not None:
        return Estimate(high_s=round(limit_s, 1), because=LIMIT)
    return Estimate(because=nothing_known(expected))


def nothing_known(expected: Expectation) -> str:
    """What would make the length known, in words."""
    learned = expected.learned
    if not expected.shown:
        # Of those that failed, shared or changed their size no length is known.
        return "no run of this script has ended here"
    if learned.doubted:
        return f"no run with this {in_words(learned.doubted)} has ended here"
    return "its runs took very different times"


def _newest(context: Context, record: JobRecord) -> Progress | None:
    """What it said a moment ago, which the record follows every few seconds."""
    said = context.learner.progress(record.id)
    return record.progress if said is None else records.progress_of(said)
