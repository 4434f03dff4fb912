"""Whether a run went as it must, from what was written down. Pure; nothing wrong gives nothing."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.on_ray.chaos_plan import Plan, Work
from tests.on_ray.chaos_rank import LOST_PEERS
from tests.on_ray.chaos_records import RankRecord, Span
from treadle.wire.jobs import AttemptView, JobDetail

# What may end an attempt from outside; a loss and a stop need a reason.
NEEDS_REASON = ("lost", "stopped")


def double_booked(spans: Iterable[Span]) -> list[str]:
    """Two attempts on one device at a time."""
    by_device: dict[tuple[str, int], list[Span]] = defaultdict(list)
    for span in spans:
        for device in span.devices:
            by_device[span.node, device].append(span)
    wrong = []
    for (node, device), own in sorted(by_device.items()):
        last: Span | None = None
        for span in sorted(own, key=lambda each: each.since):
            other = last is not None and (last.job, last.attempt) != (span.job, span.attempt)
            if last is not None and other and span.since < last.until:
                wrong.append(f"{node}:{device} had two at a time: {last} and {span}")
            if last is None or span.until >= last.until:
                last = span
    return wrong


def outlived(spans: Iterable[Span]) -> list[str]:
    """Attempts that went on, anywhere, when a later one of the same job had begun."""
    by_job: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        by_job[span.job][span.attempt].append(span)
    wrong = []
    for attempts in by_job.values():
        last: Span | None = None  # of the earlier attempts, the one that went on longest
        for number in sorted(attempts):
            first = min(attempts[number], key=lambda each: each.since)
            if last is not None and first.since <= last.until:
                wrong.append(f"a survivor of {last} went on beside {first}")
            longest = max(attempts[number], key=lambda each: each.until)
            last = longest if last is None or longest.until > last.until else last
    return wrong


def misplaced(ranks: Iterable[RankRecord], details: Mapping[str, JobDetail]) -> list[str]:
    """Ranks that are elsewhere than on the devices that their attempt has on record."""
    wrong = []
    for record in ranks:
        span = record.span
        place = f"{span.node}:{span.devices[0]}"
        attempts = {each.number: each for each in details[span.job].attempts}
        attempt = attempts.get(span.attempt)
        if attempt is None:
            wrong.append(f"{span}: the attempt is not on record")
        elif place not in attempt.devices:
            wrong.append(f"{span}: the attempt has {attempt.devices} on record")
    started = Counter((*record.key, record.rank) for record in ranks)
    wrong += [f"{key} was started {count} times" for key, count in started.items() if count > 1]
    return wrong


def ended_rightly(
    work: Work, detail: JobDetail, ranks: Collection[RankRecord], lost: Collection[str]
) -> list[str]:
    """The final state of one job, its exit code, what was charged, and what it went on from.

    lost: nodes that were lost, or may have been.
    """
    view, wrong = detail.job, []
    if view.state.value != work.state:
        wrong.append(f"it is {view.state.value} and should be {work.state}: {view.because}")
    charged = []
    for attempt in detail.attempts:
        wrong += _attempt_wrong(work, attempt, ranks, lost)
        if attempt.told == "" and attempt.code:
            charged.append(attempt.number)
    if view.failures != len(charged):
        wrong.append(f"{view.failures} failures were charged, and attempts {charged} failed")
    if work.state == "FAILED" and (len(charged) != work.retries + 1 or view.code != work.code):
        wrong.append(f"it failed {len(charged)} times with {work.retries} retries: {view.code}")
    if work.state == "SUCCEEDED":
        wrong += _unfinished(work, ranks)
    wrong += _gone_back(work, ranks)
    return [f"{work.name} ({view.id}): {sentence}" for sentence in wrong]


def _attempt_wrong(
    work: Work, attempt: AttemptView, ranks: Collection[RankRecord], lost: Collection[str]
) -> list[str]:
    said = f"attempt {attempt.number} ended as {attempt.told or 'exited'} {attempt.code}"
    if attempt.ended_at is None:
        return [f"attempt {attempt.number} has no end"]
    if attempt.told in NEEDS_REASON:
        nodes = {device.partition(":")[0] for device in attempt.devices}
        cancelled = work.cancel_at is not None and attempt.told == "stopped"
        # One that had not begun when its agent or controller died may be given up: nothing is lost.
        began = any(each.span.attempt == attempt.number for each in ranks)
        explained = cancelled or nodes & set(lost) or not began
        return [] if explained else [f"{said}, and no node of {nodes} was lost"]
    if attempt.told:
        return [said]
    own = [each for each in ranks if each.span.attempt == attempt.number]
    codes = {each.code for each in own if each.code is not None}
    expected = {0, *({work.code} if work.fails else ()), *([LOST_PEERS] if work.patience_s else ())}
    if attempt.code not in expected or attempt.code not in {*codes, LOST_PEERS}:
        return [f"{said}, and its ranks with {codes}"]
    return []


def _unfinished(work: Work, ranks: Collection[RankRecord]) -> list[str]:
    last = max((each.span.attempt for each in ranks), default=0)
    done = {each.rank for each in ranks if each.span.attempt == last and each.code == 0}
    if done != set(range(work.devices)):
        return [f"it succeeded, and of attempt {last} only ranks {sorted(done)} came to their end"]
    return []


def _gone_back(work: Work, ranks: Collection[RankRecord]) -> list[str]:
    """Attempts that did not go on from where the checkpoint was."""
    first = sorted((e for e in ranks if e.rank == 0), key=lambda each: each.span.attempt)
    wrong, safe = [], 0
    for record in first:
        expected = safe if work.resumable else 0
        # A rank may be killed between a checkpoint and the line about it.
        if not expected <= record.first_step <= expected + work.resumable:
            wrong.append(f"{record.span} began at step {record.first_step}, not at {expected}")
        safe = max(safe, record.last_step)
    return wrong


def judged(
    plan: Plan,
    details: Mapping[str, JobDetail],
    ranks: Sequence[RankRecord],
    agents: Sequence[Span],
    lost: Collection[str],
) -> list[str]:
    """Everything about jobs. details: by id, of all jobs of the plan."""
    wrong = []
    by_name = {detail.job.name: detail for detail in details.values()}
    for work in plan.works:
        own = [record for record in ranks if record.name == work.name]
        wrong += ended_rightly(work, by_name[work.name], own, lost)
    spans = [record.span for record in ranks]
    wrong += double_booked(spans) + double_booked(agents)
    wrong += outlived([*spans, *agents])
    wrong += misplaced(ranks, details)
    # Each rank is within what the agent of its node says of its attempt.
    covered = {(span.job, span.attempt, span.node) for span in agents}
    wrong += [
        f"{span}: the agent of its node knows of no such attempt"
        for span in spans
        if (span.job, span.attempt, span.node) not in covered
    ]
    return wrong
