"""Which jobs share devices: groups of equal size that use them well together.

Jobs are matched in pairs of greatest total efficiency, pairs are matched again, and so on up to the
largest group: Muri's multi-round grouping (Zhao et al., SIGCOMM'22). Pairs are really merged only
while there are more jobs than devices; sharing is a means, not an end. So it matters which pairs
are merged first: those of the best rank, as Muri's authors do, or of the last, so that the jobs
that should end soonest have their devices to themselves.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from treadle.core.company import needed_gib, no_company
from treadle.core.job import JobId, JobSpec
from treadle.core.ports import InterleavingModel
from treadle.models.company.pairing import Solved, Weights, pair_counts, weights_of

Group = tuple[JobSpec, ...]
_SCALE = 10**6  # the matching takes whole numbers
# Every pair of kinds has to be weighed. Where more than so many meet, jobs are matched only among
# so many neighbours in rank.
_KINDS_MAX = 64
_NEIGHBOURS = 4
_REMEMBERED_MAX = 10_000  # matchings; they come again while the same jobs are about
_WEIGHTS_MAX = 1_000_000

_Kind = tuple[int, ...]  # of a group: the kinds of its members, sorted
_Known = tuple[_Kind, Group]
Home = Callable[[JobId], Hashable]  # a device that a job holds, or None
_Wanted = dict[_Kind, dict[_Kind, int]]  # how many pairs of two kinds, entered both ways


class Grouping:
    """Groups for buckets of jobs, one bucket for each size."""

    def __init__(
        self, model: InterleavingModel, *, largest: int, matching: bool, last_first: bool = False
    ) -> None:
        self._model = model
        self.largest = largest
        self._matching = matching
        self._last_first = last_first  # merge those of the last rank first
        self._numbers: dict[Hashable, int] = {}  # of kinds of jobs
        self._of_job: dict[JobId, _Known] = {}
        self._weights: dict[tuple[_Kind, _Kind], int] = {}
        # Weights by kinds on both sides, and what was solved under them.
        self._tables: dict[tuple[_Kind, ...], tuple[Weights, Solved]] = {}
        self._matched: dict[tuple[tuple[_Kind, int], ...], _Wanted] = {}
        # What the tables are written for: the devices' memory and the state of the belief.
        self._for: tuple[float, object] = (0.0, None)

    def form(
        self,
        buckets: Sequence[Sequence[JobSpec]],
        devices: int,
        home: Home,
        device_gib: float = 0.0,
    ) -> list[Group]:
        """Groups of every bucket, merged until they fit the devices or can be merged no more.

        Of jobs that are alike, those are matched that share a device already. device_gib: the
        memory of the smallest device that a group could be given; 0: not known.
        """
        present = (device_gib, getattr(self._model, "revision", None))
        if present != self._for:
            self._forget()
            self._for = present
        demand = sum([spec.asked for bucket in buckets for spec in bucket])
        if not self._matching:
            return self._in_blocks(buckets, demand - devices)
        if demand <= devices:
            return [(spec,) for bucket in buckets for spec in bucket]
        if max(len(self._of_job), len(self._numbers)) >= _REMEMBERED_MAX:
            self._forget()  # Only here: a number must mean the same from end to end.
        groups = [[self._alone(spec) for spec in bucket] for bucket in buckets]
        for _ in range(self.largest):
            if demand <= devices:
                break
            demand = self._merge(groups, demand, devices, home)
        return [group for bucket in groups for _, group in bucket]

    def _merge(self, buckets: list[list[_Known]], demand: int, devices: int, home: Home) -> int:
        """One round: match within each bucket, and merge pairs while there is too much demand."""
        for place in self._in_merge_order(range(len(buckets))):
            if demand <= devices:
                break
            size = buckets[place][0][1][0].asked
            matched = list(self._match(buckets[place], home))
            pairs = [index for index, (_, other) in enumerate(matched) if other is not None]
            too_many = -(-(demand - devices) // size)  # of groups
            merging = set(self._in_merge_order(pairs)[:too_many])
            demand -= size * len(merging)
            buckets[place] = [
                group
                for index, (one, other) in enumerate(matched)
                for group in _merged(one, other, together=index in merging)
            ]
        return demand

    def _in_merge_order(self, ranked: Sequence[int]) -> Sequence[int]:
        return ranked[::-1] if self._last_first else ranked

    def _match(
        self, groups: Sequence[_Known], home: Home
    ) -> Iterator[tuple[_Known, _Known | None]]:
        """Pairs and those left alone, each where its later member stands."""
        if len(groups) == 1:
            yield groups[0], None
            return
        examples = dict(groups)
        if len(examples) > _KINDS_MAX:
            for start in range(0, len(groups), _NEIGHBOURS):
                yield from self._match(groups[start : start + _NEIGHBOURS], home)
            return
        kinds = [kind for kind, _ in groups]
        wanted = self._pairs(kinds, examples)
        partner = _housemates(kinds, wanted, [home(group[0].id) for _, group in groups])
        _add_partners(kinds, wanted, partner)
        for index, group in enumerate(groups):
            other = partner.get(index)
            if other is None:
                yield group, None
            elif other < index:
                yield groups[other], group

    def _pairs(self, kinds: Sequence[_Kind], examples: Mapping[_Kind, Group]) -> _Wanted:
        """How many pairs of each two kinds of groups are best."""
        counts = dict.fromkeys(sorted(examples), 0)
        for kind in kinds:
            counts[kind] += 1
        key = tuple(counts.items())
        known = self._matched.get(key)
        if known is None:
            if len(self._matched) >= _REMEMBERED_MAX:
                self._matched.clear()
                self._tables.clear()
            known = self._matched[key] = self._best(counts, examples)
        return {kind: others.copy() for kind, others in known.items()}

    def _best(self, counts: Mapping[_Kind, int], examples: Mapping[_Kind, Group]) -> _Wanted:
        kinds = tuple(counts)
        if kinds not in self._tables:
            table = weights_of(kinds, lambda one, other: self._weight(one, other, examples))
            self._tables[kinds] = (table, {})
        wanted: _Wanted = {}
        for (one, other), count in pair_counts(list(counts.values()), *self._tables[kinds]).items():
            wanted.setdefault(kinds[one], {})[kinds[other]] = count
            wanted.setdefault(kinds[other], {})[kinds[one]] = count
        return wanted

    def _weight(self, one: _Kind, other: _Kind, examples: Mapping[_Kind, Group]) -> int:
        """How well two groups would use their devices together; 0 if they are too many."""
        if len(one) + len(other) > self.largest:
            return 0
        known = self._weights.get((one, other))
        if known is None:
            if len(self._weights) >= _WEIGHTS_MAX:
                self._weights.clear()
                self._tables.clear()
            known = self._worth(examples[one] + examples[other])
            self._weights[one, other] = self._weights[other, one] = known
        return known

    def _worth(self, group: Group) -> int:
        """The weight of a group; 0 if its members may not share a device."""
        if no_company(group, self._for[0]) is not None:
            return 0
        return round(_SCALE * self._model.efficiency(group))

    def _alone(self, spec: JobSpec) -> _Known:
        """A group of one; its kind is a small number."""
        known = self._of_job.get(spec.id)
        if known is None or known[1][0] is not spec:
            kind = (self._model.kind(spec), needed_gib(spec), spec.exclusive)
            number = self._numbers.setdefault(kind, len(self._numbers))
            known = self._of_job[spec.id] = ((number,), (spec,))
        return known

    def _forget(self) -> None:
        """Begin again: numbers mean nothing without the tables that are written in them."""
        for table in (self._of_job, self._numbers, self._weights, self._tables, self._matched):
            table.clear()

    def _in_blocks(self, buckets: Sequence[Sequence[JobSpec]], excess: int) -> list[Group]:
        """Without matching: neighbours in rank share, block by block, while there is an excess."""
        blocks = [
            bucket[start : start + self.largest]
            for bucket in buckets
            for start in range(0, len(bucket), self.largest)
        ]
        groups: dict[int, list[Group]] = {}
        for place in self._in_merge_order(range(len(blocks))):
            head, *others = blocks[place]
            block: Group = (head,)
            alone: list[Group] = []
            for spec in others:
                if excess > 0 and self._worth((*block, spec)):
                    block += (spec,)
                    excess -= spec.asked
                else:
                    alone.append((spec,))
            groups[place] = [*alone, block]
        return [group for place in range(len(blocks)) for group in groups[place]]


def _merged(one: _Known, other: _Known | None, *, together: bool) -> list[_Known]:
    """A pair as one group, or each for itself."""
    if other is None:
        return [one]
    if not together:
        return [one, other]
    return [(tuple(sorted(one[0] + other[0])), one[1] + other[1])]


def _housemates(
    kinds: Sequence[_Kind], wanted: _Wanted, homes: Sequence[Hashable]
) -> dict[int, int]:
    """Pairs of those who share a home and are of kinds that are wanted together."""
    partner: dict[int, int] = {}
    at_home: dict[Hashable, list[int]] = {}
    for index, home in enumerate(homes):
        if home is None:
            continue
        others = at_home.setdefault(home, [])
        for other in others:
            if wanted.get(kinds[index], {}).get(kinds[other]):
                partner[index], partner[other] = other, index
                for a, b in {(kinds[index], kinds[other]), (kinds[other], kinds[index])}:
                    wanted[a][b] -= 1
                others.remove(other)
                break
        else:
            others.append(index)
    return partner


def _add_partners(kinds: Sequence[_Kind], wanted: _Wanted, partner: dict[int, int]) -> None:
    """Pair the rest, two kinds at a time: the first of one with the first of the other."""
    waiting: dict[_Kind, deque[int]] = {}
    for index, kind in enumerate(kinds):
        if index not in partner:
            waiting.setdefault(kind, deque()).append(index)
    for one in sorted(wanted):
        for other, count in sorted(wanted[one].items()):
            if other >= one:
                for _ in range(count):
                    index, found = waiting[one].popleft(), waiting[other].popleft()
                    partner[index], partner[found] = found, index
