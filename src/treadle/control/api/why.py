"""The answer to `why`: the reason of a job, when it starts or ends, and what would help."""

from treadle.control.api.context import Context
from treadle.control.api.estimates import Forecast, forecast
from treadle.control.api.job_progress import end_of, expectation, length_of, progress_of
from treadle.control.api.nodes_away import on_drained
from treadle.control.api.queue_order import STOPPING, in_queue, position
from treadle.control.api.reasons import NEVER, because
from treadle.control.api.remedies import alternatives
from treadle.control.api.sentences import Said, advice
from treadle.control.api.why_ended import how_it_ended
from treadle.control.api.why_holding import beside, holding
from treadle.control.api.why_waiting import stalled, waiting
from treadle.control.jobs import JobRecord, name_by_default
from treadle.control.loop import wall
from treadle.core.job import Job
from treadle.core.lifecycle import Phase
from treadle.core.reasons import Reason
from treadle.core.wording import share, span
from treadle.policies.live.decide import remembered
from treadle.policies.live.reasons import patience_of
from treadle.policies.wrappers.wrapper import keeps_order
from treadle.wire.jobs import Why

# No job is started, or it cannot be before an admin or a node acts.
_NOT_DECIDED = ("daemon-draining", "store", "policy", "machine", "away", "bound-away")
_FOR_DEVICES = ("devices", "type", "rank", "fragmentation", "preempted")
ENDING = because("ending")

Details = tuple[tuple[str, str], ...]


def reason(context: Context, record: JobRecord, row: Job, *, whole: bool = True) -> Reason:
    """The dominant reason for where a job stands; whole: as in why_waiting."""
    if row.phase is not Phase.WAITING:
        return holding(context, record, row)
    return waiting(context, record, row, whole=whole)


def why(context: Context, record: JobRecord, *, verbose: bool = False) -> Why:
    """The whole answer about a job, ended or not; verbose: with what else was tried."""
    row, said = context.row(record.id), Said(context)
    state = context.jobs.shown_state(record)
    if row is None and state.ended:
        return how_it_ended(record)
    if row is None:
        text, name = said.sentence(ENDING), said.name(record.id)
        return Why(id=record.id, name=name, state=state, code=ENDING.code, sentence=text)
    found = reason(context, record, row)
    queued = in_queue(context.scheduler, record.id)
    decided = queued and found.code not in _NOT_DECIDED
    ahead = forecast(context, record.id) if decided or _follows(context, record, found) else None
    sharing = _sharing(context, record, row) if found.code in _FOR_DEVICES else ()
    known = length_of(expectation(context, record, row), row.spec, record.time_limit_s)
    return Why(
        id=record.id,
        name=said.name(record.id),
        state=record.state,
        code=found.code,
        numbers=dict(found.numbers),
        sentence=said.sentence(found),
        details=(*_told(found, ahead, said), *_details(context, record, row, said), *sharing),
        change=advice(found, record.id),
        never=found.code in NEVER,
        position=position(context.scheduler, record.id),
        waiting=len(context.scheduler.ranking.queue) if queued else 0,
        estimate=None if ahead is None else ahead.start,
        freed_by=_freed_by(ahead, said),
        length=None if row.phase in STOPPING else known,
        end=end_of(context, record, row),
        beside=beside(context, row),
        alternatives=_more(context, row, said) if verbose and decided else (),
    )


def _told(found: Reason, ahead: Forecast | None, said: Said) -> Details:
    """What supports the reason; no moment where lengths that it depends on are not known."""
    if ahead is not None and ahead.start.unknown:
        numbers = {name: value for name, value in found.numbers.items() if name != "in_s"}
        found = Reason(found.code, numbers)
    return said.details(found)


def _more(context: Context, row: Job, said: Said) -> Details:
    """What would start it now, and when devices are reserved for it."""
    scheduler = context.scheduler
    tried = alternatives(context, row, said)
    if keeps_order(scheduler.policy):
        return tried
    last, snapshot = remembered(scheduler.state.memory), scheduler.snapshot(context.clock.now())
    patience = patience_of(context.belief, last, snapshot, row)
    return (*tried, ("patience", said.sentence(patience)))


def _follows(context: Context, record: JobRecord, found: Reason) -> bool:
    """Whether simulations let it through when what it waits for has happened."""
    gated = found.code in ("dependency", "array") and not found.numbers.get("fails")
    return gated and stalled(context, record) is None


def _freed_by(ahead: Forecast | None, said: Said) -> tuple[str, ...]:
    """The jobs whose ends free the devices that it will be given."""
    if ahead is None or ahead.typical is None:
        return ()
    return tuple(map(said.label, ahead.typical.freed_by))


def _details(context: Context, record: JobRecord, row: Job, said: Said) -> Details:
    """What is true of the job whatever its reason is."""
    found = []
    progress, runs = progress_of(context, record, row), row.phase is Phase.RUNNING
    if progress is not None and progress.total:
        done = min(1.0, progress.step / progress.total)
        kept = not runs and row.spec.resumable and record.safe < done
        found.append(("done", share(done) + (f", {share(record.safe)} saved" if kept else "")))
    if record.preempted_at is not None and row.phase is Phase.WAITING:
        whom = f" for job {said.label(record.preempted_for)}" if record.preempted_for else ""
        found.append(("preempted", f"{span(wall() - record.preempted_at)} ago{whom}"))
    if row.only_because and row.phase is Phase.WAITING:
        found.append(("files", row.only_because))
    found += [("node", text) for text in (on_drained(context, row),) if text]
    found += [("stuck", text) for text in (context.stuck(row.id),) if runs and text]
    return tuple(found)


def _sharing(context: Context, record: JobRecord, row: Job) -> Details:
    """Why a job that waits for devices shares none; nothing if it may, or its user said so."""
    if record.exclusive or not context.scheduler.policy.shares:
        return ()
    if row.spec.exclusive:
        return (("sharing", f"no: {record.alone_because}"),) if record.alone_because else ()
    if row.spec.profile.busy is not None:
        return ()
    return (("sharing", f"not yet: {name_by_default(record.command)} has not been measured"),)
