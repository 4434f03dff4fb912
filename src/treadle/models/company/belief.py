"""The live belief about sharing: measured profiles only, memory, and what became of company.

A job that was not seen alone shares with no job, and one whose device memory is not known does not
where devices say how much they have. Nothing is drawn or assumed.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import sqrt

from treadle.core.cluster import Cluster
from treadle.core.company import (
    CORES_SLACK,
    CROWD_MAX,
    cores_of_device,
    cores_suffice,
    kept_in_crowd,
    needed_gib,
    no_company,
    smallest_device_gib,
)
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.sighting import WATCHED_S
from treadle.models.company.predictor import MEMBERS_MAX, doubt, predict
from treadle.models.company.record import CompanyRecord
from treadle.models.learning.kinds import by_command, by_model
from treadle.models.speeds_together import SpeedsTogether

PATIENCE_S = 20.0  # so long company must be bad before jobs are parted
LEAST_SUM = 1.0  # of a group that is together: below it, one after the other gets more done
SUM_MIN = 1.15  # what a group must get done to be formed, where 1 is one job after the other
FLOOR = 0.5  # no member is to keep less of its speed alone
# Of the doubt about two kinds, once they were seen together: the newest observation counts half.
SEEN_DOUBT = 0.5
# A job of which nothing is known is tried beside others as if it kept a device busy for this share
# of the time, and needed this share of its memory.
TRY_BUSY = 0.5
TRY_MEMORY = 0.4
UNSEEN = (
    "no run of its script with arguments like these was measured alone yet; that takes a few "
    "seconds in which it prints steps or uses its device"
)
SHORT = "it is expected to end too soon to see what it needs"
_REMEMBERED_MAX = 10_000  # groups


def kind_of(spec: JobSpec) -> str:
    """The kind by which company is remembered."""
    if spec.kind:
        return spec.kind
    if not spec.command:
        return by_model(spec).shape
    return _shape(spec.owner, spec.profile.model, spec.command)


@lru_cache(maxsize=4096)  # It is asked for every pair of jobs that might share.
def _shape(owner: str, model: str, command: tuple[str, ...]) -> str:
    return by_command(owner, model, command).shape


class CompanyBelief(SpeedsTogether):
    """Speeds alone as `base` says, speeds together by the predictor."""

    def __init__(
        self,
        base: PerformanceModel,
        cluster: Cluster,
        *,
        record: CompanyRecord | None = None,
        mps: bool = False,
        allowed: bool = True,
    ) -> None:
        super().__init__(base)
        self._cluster = cluster
        self._device_gib = smallest_device_gib(cluster)
        self._cores = max((node.cores for node in cluster.nodes), default=0)
        self.record = CompanyRecord() if record is None else record
        self.mps = mps
        self._allowed = allowed
        self._bad_since: dict[frozenset[JobId], float] = {}  # groups worse than they may be
        self._parting: set[frozenset[JobId]] = set()
        self._at_work: frozenset[JobId] = frozenset()  # of those that share
        self._known: dict[tuple[Hashable, ...], tuple[float, ...]] = {}
        self._known_at = self.revision

    def apart(self) -> "CompanyBelief":
        """The same where sharing is switched off."""
        twin = CompanyBelief(self._base, self._cluster, record=self.record, allowed=False)
        twin.mps = self.mps
        return twin

    @property
    def revision(self) -> tuple[int, bool]:
        """Changes when answers about the same jobs may have changed."""
        return self.record.revision, self.mps

    # -- whether --------------------------------------------------------------------------------

    def may_share(self, spec: JobSpec) -> str | None:
        """Why this job shares with no other, or None if it may."""
        if not self._allowed:
            return "sharing is switched off (share=off)"
        if spec.ousted_by:
            return f"it ran out of GPU memory beside job {' and job '.join(spec.ousted_by)}"
        if spec.exclusive:
            return "it is exclusive (--exclusive)"
        if spec.profile.busy is None:
            return SHORT if spec.iterations < WATCHED_S else UNSEEN
        if self._device_gib and not needed_gib(spec):
            return "its GPU memory is not known: --gpu-memory says it"
        if self.record.faulty(kind_of(spec)):
            return "a job of its kind ended the jobs that it shared with"
        return None

    def assumed(self, spec: JobSpec) -> JobSpec:
        """The job as it is tried beside others, if its needs are unknown: as a usual one."""
        if spec.profile.busy is not None:
            return spec
        needs_gib = needed_gib(spec) or TRY_MEMORY * self._device_gib
        profile = replace(spec.profile, busy=TRY_BUSY, memory_gib=needs_gib)
        return replace(spec, profile=profile)

    def refuses(
        self,
        specs: Sequence[JobSpec],
        *,
        device_gib: float | None = None,
        cores: float | None = None,
        sum_min: float = SUM_MIN,
        floor: float = FLOOR,
    ) -> str | None:
        """Why these jobs are not to share, or None.

        device_gib: of the devices meant; None: of the smallest there are. cores: of their node, for
        each of the devices that the jobs have there; None: of the largest node, for one.
        """
        cores = self._cores if cores is None else cores
        for spec in specs:
            wrong = self.may_share(spec)
            if wrong is not None:
                return wrong if spec is specs[0] else f"job {spec.id} cannot share: {wrong}"
        wrong = no_company(specs, self._device_gib if device_gib is None else device_gib)
        wrong = wrong or _too_few_cores(specs, cores) or self._ran_out(specs)
        if wrong is not None:
            return wrong
        shares = self.relative(specs, cores)
        if sum(shares) < sum_min:
            crowd = _crowd(specs, cores)
            return f"the sum of {sum(shares):.2f} is below {sum_min:.2f}{crowd}"
        least = min(range(len(shares)), key=shares.__getitem__)
        if shares[least] < floor:
            return (
                f"job {specs[least].id} would keep {shares[least]:.2f} of its speed alone, "
                f"below {floor:.2f}"
            )
        return None

    def _ran_out(self, specs: Sequence[JobSpec]) -> str | None:
        """That jobs of two of these kinds ran out of memory together before."""
        for one, other in combinations(specs, 2):
            if self.record.apart(kind_of(one), kind_of(other)):
                return f"jobs like {one.id} and {other.id} ran out of GPU memory together"
        return None

    # -- what became of it ----------------------------------------------------------------------

    def measured(
        self, group: Mapping[JobId, tuple[JobSpec, float | None]], now: float, *, mps: bool
    ) -> str | None:
        """Jobs that share were seen to keep these shares of their speeds alone, under MPS or not.

        A member that prints no steps has no share. The others are still held to their floors.

        Answers why they are to be parted, once: when they were worse than they may be for a while.
        That is remembered of their kinds. Call it every few seconds for every group of which a
        speed is known; what it learns is about company and says nothing of speeds alone.
        """
        names = frozenset(group)
        kept = {job: share for job, (_, share) in group.items() if share is not None}
        together = sum(kept.values()) if len(kept) == len(group) else None
        wrong = _worse(kept, together, mps=mps)
        if wrong is None:
            self._bad_since.pop(names, None)
            return None
        since = self._bad_since.setdefault(names, now)
        if now - since < PATIENCE_S or names in self._parting:
            return None
        self._parting.add(names)
        specs = [spec for spec, _ in group.values()]
        shares = dict(zip(group, self._relative(specs, mps=mps), strict=True))
        # It was bad for a while: no noise. The member that lost most counts, since the sum may
        # be good while one is below its floor; else they would be put together again.
        ratio = min(share / max(shares[job], 1e-9) for job, share in kept.items())
        kinds = [kind_of(spec) for spec in specs]
        self.record.observe(kinds, 1.0, ratio, mps=mps, weight=1.0, together=together)
        return wrong

    def ended(self, group: Mapping[JobId, tuple[JobSpec, float | None]], *, mps: bool) -> None:
        """The company is over, or is to be: learn from what each kept, if that is known."""
        specs = [spec for spec, _ in group.values()]
        kept = [share for _, share in group.values() if share is not None]
        if len(kept) < len(specs):
            return
        together = sum(kept)
        kinds = [kind_of(spec) for spec in specs]
        predicted = sum(self._relative(specs, mps=mps))
        self.record.observe(kinds, predicted, together, mps=mps, together=together)

    def to_part(self, jobs: Iterable[JobId]) -> bool:
        """Whether these jobs share and are to be parted."""
        return frozenset(jobs) in self._parting

    def at_work(self, job: JobId) -> bool:
        """Whether a job that shares has loaded its libraries, and slows the others."""
        return job in self._at_work

    def present(self, groups: Sequence[frozenset[JobId]], at_work: Iterable[JobId]) -> None:
        """Only these groups are still together; forget the others."""
        self._parting &= set(groups)
        self._bad_since = {group: at for group, at in self._bad_since.items() if group in groups}
        self._at_work = frozenset(at_work)

    # -- how fast -------------------------------------------------------------------------------

    def relative(self, specs: Sequence[JobSpec], cores: float | None = None) -> tuple[float, ...]:
        """The share of its speed alone that each job would keep.

        cores: of their node, for each of their devices; None: of the largest node, for one.
        """
        if len(specs) < 2:
            return (1.0,) * len(specs)
        if self._known_at != self.revision or len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
            self._known_at = self.revision
        key = (cores, *(self.kind(spec) for spec in specs))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._relative(specs, mps=self.mps, cores=cores)
        return known

    def doubt(self, specs: Sequence[JobSpec]) -> float:
        """By how much to lower each share for the sum of them to be cautious.

        What each other member costs a job is off in either direction, so that a share is off by
        the root of their number, and of equal jobs those in larger groups are off by more. Of kinds
        that were all seen together more is known.
        """
        pairs = combinations([kind_of(spec) for spec in specs], 2)
        known = all(self.record.knows(one, other, mps=self.mps) for one, other in pairs)
        return doubt(mps=self.mps) * (SEEN_DOUBT if known else 1.0) * sqrt((len(specs) - 1) / 2)

    def _relative(
        self, specs: Sequence[JobSpec], *, mps: bool, cores: float | None = None
    ) -> tuple[float, ...]:
        if len(specs) > MEMBERS_MAX:
            return (1.0 / len(specs),) * len(specs)
        crowd = kept_in_crowd(_cores_of(specs), self._cores if cores is None else cores)
        loads = [(s.profile.busy, s.profile.memory_busy, needed_gib(s)) for s in specs]
        kinds = [kind_of(spec) for spec in specs]
        return tuple(
            share
            * crowd
            * min(
                self.record.factor(kinds[member], other, mps=mps)
                for place, other in enumerate(kinds)
                if place != member
            )
            for member, share in enumerate(predict(loads, mps))
        )

    def kind(self, spec: JobSpec) -> Hashable:
        profile = spec.profile
        return (
            kind_of(spec),
            profile.busy,
            profile.memory_busy,
            needed_gib(spec),
            cores_of_device(spec),
            spec.exclusive,
        )

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        """The sum of speeds relative to alone; 0 for jobs that are not to share."""
        if len(specs) > 1 and self.refuses(specs) is not None:
            return 0.0
        return super().efficiency(specs)


def _cores_of(specs: Sequence[JobSpec]) -> float:
    """What the jobs use together beside each device that they share."""
    return sum(cores_of_device(spec) for spec in specs)


def _crowd(specs: Sequence[JobSpec], cores: float) -> str:
    """That the jobs slow each other since they use more cores than there are; empty: not so."""
    needed = _cores_of(specs)
    if cores_suffice(needed, cores, 1.0):
        return ""
    return f", since they use {needed:.3g} cores and there are {cores:.3g}"


def _worse(kept: Mapping[JobId, float], together: float | None, *, mps: bool) -> str | None:
    """What is wrong with company at this moment, in words; together: if all are known."""
    if together is not None and together < LEAST_SUM:
        return f"together they get {together:.2f} times as much done as one alone"
    for job, share in sorted(kept.items()):
        if share < FLOOR - doubt(mps=mps):
            return f"job {job} keeps {share:.2f} of its speed alone; at least {FLOOR:.2f} was meant"
    return None


def _too_few_cores(specs: Sequence[JobSpec], cores: float) -> str | None:
    """That a node with so many cores, and nothing else on it, has too few for these jobs."""
    needed = _cores_of(specs)
    # A job that asks for cores is to have them.
    most = CORES_SLACK if any(spec.host_cores for spec in specs) else CROWD_MAX
    if cores_suffice(needed, cores, most):
        return None
    return f"they use {needed:.3g} cores together, and there are {cores:.3g} for them"
