"""Whether printed ranges hold: traces replayed in time order through the learner.

    python benchmarks/calibration.py TRACES_FOLDER [TRACE ...] [--jobs N] [--starts N]
        [--policy NAME] [--processes N]
    python benchmarks/calibration.py --use [JOURNAL]    a recorded hour of real jobs (real_use/)

At its submission, at its start and at some ages while it runs, each job is given an 80 % range of
its end. Only what had ended by then is known. Counted are jobs of tenants of which ten jobs have
ended before. Beside the share of ranges that held stands how wide they were (the median of
high - low), and how wide the 10 to 90 % range of everything that had ended by then was, at the same
age. The learner's ranges are about the narrowest with 80 %, which alone makes them narrower:
`narrowest` is the ratio to overall ranges that are the narrowest, too.

Ranges of starts are printed for jobs that wait, and rest on the queue: so the first `--starts` jobs
queue under `--policy` on a cluster that is simulated (queued_starts.py). `overall` is then the
range of all earlier waits of jobs that did not start at once. How often it held is printed below,
as it may be narrow because it does not hold: so the ratio to overall ranges that hold as often
stands beside that, these being widened, or narrowed, for the whole trace until they do. `with
hindsight`: ranges that rest on all waits of the trace, later ones too (hindsight.py). `if lengths
were known`: the same ranges from one simulation with the true lengths, which says what is lost by
not knowing them.

Where a trace has no starts, jobs are taken to start at their submission. Chronus' tenants are drawn
at random, and ITP has none: all its jobs are one tenant's. A TRACE is a file of any format that
`treadle simulate` reads, in the folder or anywhere, with or without `.csv` or `.csv.gz`.
"""

import argparse
import csv
import gzip
import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from heapq import heappop, heappush
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import NamedTuple, TextIO

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec
from treadle.models.learning.commands import Arguments, parsed
from treadle.models.learning.expectation import COVERAGE, remaining
from treadle.models.learning.kinds import Likeness
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome
from treadle.models.learning.start_errors import Range
from treadle.models.lengths.coverage import AGES_S
from treadle.models.lengths.distribution import SHORT_SHARES, Span
from treadle.models.scaling import ScalingModel
from treadle.policies.live import naming as live
from treadle.traces.load import GENERATE, load

# Started as a file, this folder is not a package.
sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.hindsight import with_hindsight
from benchmarks.queued_starts import QueuedJob, Record, live_policy, parts_of, recorded
from benchmarks.real_use.replay import HOUR
from benchmarks.real_use.replay import report as report_of_use
from benchmarks.start_ranges import Judged, Shown, judged

ENDED_MIN = 10  # jobs of a tenant, before its ranges are counted
HEADER_MAX = 10_000  # characters
ALONE = ScalingModel()
SHARES = tuple(percent / 100 for percent in range(50, 101))  # that overall ranges may span
EIGHTY = SHARES.index(COVERAGE)


class TraceJob(NamedTuple):
    submit_at: float
    tenant: str
    size: int
    ran_s: float
    model: str = ""
    wait_s: float | None = None  # None: the trace does not say
    arguments: Arguments = ()  # of its command line

    @property
    def likeness(self) -> Likeness:
        kinds = (f"{self.tenant}/{self.model}/~{self.size}", f"{self.tenant}/", "*")
        return Likeness(kinds, self.arguments)


Row = dict[str, str]
Reader = Callable[[Row], TraceJob | None]


def _philly(row: Row) -> TraceJob | None:
    return TraceJob(
        float(row["submit_s"]), row["vc"], int(row["num_gpus"]), float(row["duration_s"])
    )


def _openb(row: Row) -> TraceJob | None:
    if not row["scheduled_time"] or not row["deletion_time"]:
        return None
    created, begun = float(row["creation_time"]), float(row["scheduled_time"])
    shape = f"{row['qos']} {row['cpu_milli']} {row['memory_mib']} {row['gpu_milli']}"
    ran_s = float(row["deletion_time"]) - begun
    return TraceJob(created, shape, max(1, int(row["num_gpu"])), ran_s, wait_s=begun - created)


def _chronus(row: Row) -> TraceJob | None:
    at, ran_s = 60.0 * float(row["submit_time"]), 60.0 * float(row["duration"])
    arguments = (("iterations", row["iterations"]),)
    size = max(1, int(row["num_gpu"]))
    return TraceJob(at, row["user"], size, ran_s, row["model_name"], arguments=arguments)


def _itp(row: Row) -> TraceJob | None:
    at, ran_s = float(row["submission_time"]), float(row["duration"])
    return TraceJob(at, "all", int(row["num_gpu"]), ran_s)


def _elasticflow(row: Row) -> TraceJob | None:
    at, ran_s = float(row["submission_time"]), float(row["duration"])
    names = ("batch_size", "num_iteration")
    arguments = tuple((name, row[name]) for name in names)
    return TraceJob(at, "all", int(row["num_gpu"]), ran_s, row["model_name"], arguments=arguments)


# The columns that tell formats apart which say more here than in a simulation.
READERS: tuple[tuple[frozenset[str], Reader], ...] = (
    (frozenset({"submit_s", "vc", "num_gpus", "duration_s"}), _philly),
    (
        frozenset(
            {"creation_time", "scheduled_time", "deletion_time", "num_gpu"}
            | {"qos", "cpu_milli", "memory_mib", "gpu_milli"}
        ),
        _openb,
    ),
    (
        frozenset({"submit_time", "duration", "iterations", "num_gpu", "user", "model_name"}),
        _chronus,
    ),
    (
        frozenset({"submission_time", "duration", "num_gpu"})
        | {"num_iteration", "batch_size", "model_name"},
        _elasticflow,
    ),
    (frozenset({"submission_time", "duration", "num_gpu"}), _itp),
)
DEFAULT = (
    "philly_dev_aug14_oct31",
    "openb_pod_list_default",
    "openb_pod_list_gpuspec33",
    "chronus_MIX1",
    "itp_raw_cluster01",
    "itp_raw_cluster02",
    "elasticflow_sim_cluster01",
)


def find(folder: Path, name: str) -> Path:
    """The file of a trace, by its name with or without its ending."""
    tried = [folder / f"{name}{ending}" for ending in ("", ".csv.gz", ".csv")]
    for path in tried:
        if path.is_file():
            return path
    raise InvalidInputError(f"there is no trace {name} in {folder}; expected NAME.csv or .csv.gz")


def read(source: str, count: int) -> list[TraceJob]:
    """The first jobs of a trace, in the order of their submission."""
    make = None if source.startswith(GENERATE) else _reader(Path(source))
    if make is None:
        found = [_of_spec(spec) for spec in load(source).jobs]
    else:
        found = _rows(Path(source), make)
    return sorted(job for job in found if job.ran_s > 0)[:count]


def _reader(path: Path) -> Reader | None:
    """The reader for the columns of a file; None: it is for `load` to read or to refuse."""
    try:
        with _opened(path) as file:
            columns = {name.strip() for name in file.readline(HEADER_MAX).split(",")}
    except (OSError, EOFError):
        return None
    return next((make for needed, make in READERS if needed <= columns), None)


def _rows(path: Path, make: Reader) -> list[TraceJob]:
    found: list[TraceJob] = []
    with _opened(path) as file:
        rows = csv.DictReader(file)
        try:
            found += [job for row in rows if (job := make(row)) is not None]
        except (ValueError, TypeError, csv.Error) as error:
            raise InvalidInputError(f"{path} line {rows.line_num}: {error}") from None
    return found


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", errors="replace") if packed else path.open(errors="replace")


def _of_spec(spec: JobSpec) -> TraceJob:
    """A job of any other format, as it would run alone."""
    ran_s = spec.iterations / ALONE.alone(spec, spec.asked)
    tenant = spec.owner or spec.tenant or "all"
    model, arguments = spec.profile.model, parsed(spec.command).arguments
    return TraceJob(spec.submit_at, tenant, spec.asked, ran_s, model, arguments=arguments)


@dataclass(slots=True)
class Tally:
    """Ranges of one sort."""

    widths: list[float] = field(default_factory=list)
    overall: list[float] = field(default_factory=list)
    narrowest: list[float] = field(default_factory=list)  # the same, chosen as the learner does
    held: int = 0
    by_tenant: dict[str, list[bool]] = field(default_factory=dict)

    def count(
        self, tenant: str, span: Span, overall: "Overall", *, truth: float, age_s: float = 0.0
    ) -> None:
        held = span.low_s <= truth <= span.high_s
        self.add(tenant, span.high_s - span.low_s, held=held)
        self.overall.append(overall.width_s(age_s, 0.5))
        self.narrowest.append(min(overall.width_s(age_s, below) for below in SHORT_SHARES))

    def add(self, tenant: str, width_s: float, *, held: bool) -> None:
        self.held += held
        self.by_tenant.setdefault(tenant, []).append(held)
        self.widths.append(width_s)


class Overall:
    """The lengths of everything that has ended, or of all waits that are over."""

    def __init__(self) -> None:
        self._ended: list[float] = []

    @property
    def count(self) -> int:
        return len(self._ended)

    def add(self, seconds: float) -> None:
        insort(self._ended, seconds)

    def by_share(self) -> list[Range]:
        """The middle of all, for each of SHARES."""
        return [self._between(0, 0.5, share) for share in SHARES]

    def width_s(self, age_s: float, below: float) -> float:
        """Of the 80 % range of those that were longer than this; it leaves out a share `below` of
        what it leaves out at the short end."""
        first = bisect_right(self._ended, age_s)
        if first == len(self._ended):
            return 2.0 * age_s
        low_s, high_s = self._between(first, below, COVERAGE)
        return high_s - low_s

    def _between(self, first: int, below: float, share: float) -> Range:
        left, out = len(self._ended) - first, 1.0 - share
        ends = (out * below, 1.0 - out * (1.0 - below))
        low_s, high_s = (self._ended[first + min(left - 1, int(left * end))] for end in ends)
        return Range(low_s, high_s)


class Replay:
    """One trace, in time order."""

    def __init__(self, jobs: list[TraceJob]) -> None:
        self.jobs = jobs
        self.lengths = Knowledge()
        self.tallies: dict[str, Tally] = {}
        self.unknown = 0
        self._overall = Overall()
        self._ended: Counter[str] = Counter()
        self._moments: list[tuple[float, int, int, int]] = []

    def run(self) -> "Replay":
        for number, job in enumerate(self.jobs):
            heappush(self._moments, (job.submit_at, _SUBMIT, number, 0))
        while self._moments:
            at, what, number, which = heappop(self._moments)
            job = self.jobs[number]
            self.lengths.advance(at)
            match what:
                case 0:
                    self._end(number, job)
                case 1:
                    self._submit(number, job)
                case 2:
                    self._start(number, job, at)
                case _:
                    self._judge(f"end, after {AGES_S[which] / 60:g} min", job, AGES_S[which])
        return self

    def _submit(self, number: int, job: TraceJob) -> None:
        if not self._judge("end, at submission", job, 0.0):
            self.unknown += 1
        begun_at = job.submit_at + (job.wait_s or 0.0)
        heappush(self._moments, (begun_at, _START, number, 0))

    def _start(self, number: int, job: TraceJob, at: float) -> None:
        self.lengths.begin(str(number), job.likeness, job.size, now=at)
        heappush(self._moments, (at + job.ran_s, _END, number, 0))
        for which, age_s in enumerate(AGES_S):
            if age_s < job.ran_s:
                heappush(self._moments, (at + age_s, _LOOK, number, which))

    def _judge(self, when: str, job: TraceJob, age_s: float) -> bool:
        """Make a range of a job of this age, and count it; whether there is one."""
        expected = self.lengths.expect(job.likeness, job.size)
        if expected.known and self._ended[job.tenant] >= ENDED_MIN:
            tally = self.tallies.setdefault(when, Tally())
            span = remaining(expected, age_s).span
            tally.count(job.tenant, span, self._overall, truth=job.ran_s - age_s, age_s=age_s)
        return expected.known

    def _end(self, number: int, job: TraceJob) -> None:
        outcome = Outcome(job.size, job.ran_s, whole=True)
        self.lengths.observe(job.likeness, outcome, name=str(number))
        self._overall.add(job.ran_s)
        self._ended[job.tenant] += 1


# Sorts of moments; at the same time, ends come first.
_END, _SUBMIT, _START, _LOOK = range(4)


class Starts:
    """A record of starts that is being made by several processes."""

    def __init__(self, pool: Executor, jobs: Sequence[TraceJob], policy: str) -> None:
        self.jobs = len(jobs)
        self.policy = policy
        queued = [
            QueuedJob(job.submit_at, job.size, job.ran_s, job.likeness, job.tenant) for job in jobs
        ]
        parts = parts_of(queued)
        self._parts = [pool.submit(recorded, queued, policy, part, parts) for part in range(parts)]

    def judged(self) -> Judged:
        records = [part.result() for part in self._parts]
        return judged(reduce(Record.with_answers, records), Overall(), ended_min=ENDED_MIN)


def tally_of(shown: Sequence[Shown]) -> Tally:
    tally = Tally()
    for one in shown:
        tally.add(one.tenant, one.high_s - one.low_s, held=_held(one, one))
        low_s, high_s = one.overall[EIGHTY]
        tally.overall.append(high_s - low_s)
        tally.narrowest.append(one.narrowest_s)
    return tally


def as_often(shown: Sequence[Shown]) -> int:
    """Which of SHARES overall ranges must span to hold as often as those shown; the last, if even
    the range from the shortest to the longest of all earlier waits does not."""
    wanted = sum(_held(one, one) for one in shown)
    return next(
        (place for place in range(len(SHARES)) if overall_held(shown, place) >= wanted),
        len(SHARES) - 1,
    )


def overall_held(shown: Sequence[Shown], place: int) -> int:
    return sum(_held(one, one.overall[place]) for one in shown)


def _held(shown: Shown, said: Shown | Range) -> bool:
    """Printed times are rounded to seconds."""
    return said.low_s - 1.0 <= shown.waited_s <= said.high_s + 1.0


def table(name: str, replay: Replay) -> Iterator[str]:
    yield f"\n{name}: {len(replay.jobs):,} jobs; {replay.unknown} submitted while all was unknown"
    head = f"  {'range':24}{'ranges':>8}{'held':>7}{'width':>9}{'overall':>9}"
    yield f"{head}{'ratio':>7}{'narrowest':>10}  tenants that hold 75-90 %"
    for when, tally in sorted(replay.tallies.items()):
        yield _line(when, tally)


def starts_table(queue: Judged, jobs: int, policy: str) -> Iterator[str]:
    shown, known = queue.learned.shown, queue.known.shown
    if shown:
        yield _line("start, of jobs that wait", tally_of(shown))
        yield from _against_overall(shown)
        if len(shown) > 1:
            yield _hindsight_line(shown)
    if known:
        yield _line("  if lengths were known", tally_of(known))
    yield (
        f"  {queue.waits:,} of the first {jobs:,} jobs waited on {queue.devices:,} devices "
        f"under {policy}; without a range: {queue.learned.unsure}"
    )


def _against_overall(shown: Sequence[Shown]) -> Iterator[str]:
    yield f"  {'  overall ranges':32}{overall_held(shown, EIGHTY) / len(shown):7.1%}"
    place = as_often(shown)
    width = median(one.high_s - one.low_s for one in shown)
    overall = median(one.overall[place].high_s - one.overall[place].low_s for one in shown)
    yield (
        f"  {f'    that span {SHARES[place]:.0%} of waits':32}"
        f"{overall_held(shown, place) / len(shown):7.1%}{'':9}{overall:9,.0f}"
        f"{width / overall if overall else 0.0:7.2f}"
    )


def hindsight_of(shown: Sequence[Shown]) -> tuple[float, float]:
    """The share of its ranges that held, and how wide they were."""
    ranges = with_hindsight([(one.simulated_s, one.waited_s) for one in shown])
    held = sum(_held(one, said) for one, said in zip(shown, ranges, strict=True))
    return held / len(shown), median(high_s - low_s for low_s, high_s in ranges)


def _hindsight_line(shown: Sequence[Shown]) -> str:
    held, width = hindsight_of(shown)
    overall = median(one.overall[EIGHTY].high_s - one.overall[EIGHTY].low_s for one in shown)
    return (
        f"  {'  with hindsight':32}{held:7.1%}{width:9,.0f}{overall:9,.0f}"
        f"{width / overall if overall else 0.0:7.2f}"
    )


def _line(when: str, tally: Tally) -> str:
    width, overall = median(tally.widths), median(tally.overall)
    shares = [sum(held) / len(held) for held in tally.by_tenant.values() if len(held) >= 50]
    good = sum(0.75 <= share <= 0.9 for share in shares)
    ratio = width / overall if overall else 0.0
    narrowest = median(tally.narrowest)
    like = width / narrowest if narrowest else 0.0
    return (
        f"  {when:24}{len(tally.widths):8,}{tally.held / len(tally.widths):7.1%}"
        f"{width:9,.0f}{overall:9,.0f}{ratio:7.2f}{like:10.2f}  {good} of {len(shares)}"
    )


def report(name: str, jobs: list[TraceJob]) -> str:
    """What is printed of the ends of one trace."""
    return "\n".join(table(name, Replay(jobs).run()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("traces", nargs="*", default=DEFAULT)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--starts", type=int, default=3_000, help="jobs that queue; 0: none")
    parser.add_argument("--policy", default=live.DEFAULT, help="under which they queue")
    parser.add_argument("--processes", type=int, default=1, help="at a time")
    parser.add_argument("--use", type=Path, nargs="?", const=HOUR, help="a journal (record.py)")
    chosen = parser.parse_args()
    if chosen.use is not None:
        print(report_of_use(chosen.use))
        return
    if chosen.folder is None:
        parser.error("expected the folder of traces, or --use")
    if chosen.processes < 1:
        parser.error(f"--processes must be 1 or more, not {chosen.processes}")
    try:
        live_policy(chosen.policy, ALONE)
        traces = [(name, read(_source(chosen.folder, name), chosen.jobs)) for name in chosen.traces]
    except InvalidInputError as error:
        parser.error(str(error))
    with ProcessPoolExecutor(chosen.processes) as pool:
        ends = [pool.submit(report, name, jobs) for name, jobs in traces]
        queues = [
            Starts(pool, jobs[: chosen.starts], chosen.policy)
            for _, jobs in traces
            if chosen.starts and jobs
        ]
        for end, queue in zip_longest(ends, queues):
            print(end.result(), flush=True)
            if queue is not None:
                print(
                    "\n".join(starts_table(queue.judged(), queue.jobs, chosen.policy)), flush=True
                )


def _source(folder: Path, name: str) -> str:
    return name if name.startswith(GENERATE) else str(find(folder, name))


if __name__ == "__main__":
    main()
