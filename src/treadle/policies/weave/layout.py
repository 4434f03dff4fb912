"""Layouts of one decision: who shares which number of devices.

A layout is worth what its groups do in a second. The one that is there now goes on, with small
changes where something is new. A new one gives out sizes as if the cluster were larger, and is
folded onto the real one; that is done for a few such factors, the folds. Of the most valuable ones,
jobs that got nothing take what is left or join a group, and the best of all is taken.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from treadle.policies.weave.candidate import Candidate
from treadle.policies.weave.fold import Folding
from treadle.policies.weave.improve import Search
from treadle.policies.weave.places import Wanted
from treadle.policies.weave.seen import Devices, News
from treadle.policies.weave.sharing import Group, Kinds, SharedSpeeds
from treadle.policies.weave.values import Values

FOLDS = (1.0, 1.5, 2.2, 4.0)
_STAY = 0.02  # so much better another fold must be before all is regrouped
_COMPLETED = 2  # layouts
_SEARCHED_MAX = 60  # jobs of a new layout
_WAITING_MAX = 12  # unlike jobs that a search looks at, of those that are new and of the others
_JOINED_MAX = 64  # kinds of groups that a job may join are looked at


class Layout(NamedTuple):
    """Groups of jobs with their sizes."""

    groups: Sequence[Group]
    # What the last device that sharing saved has cost; None: no device was saved.
    marginal: float | None = None
    all_served: bool = False  # every job has the most that it can use

    @property
    def value(self) -> float:
        return sum([group.value for group in self.groups])

    @property
    def devices(self) -> int:
        return sum([group.size for group in self.groups])

    @property
    def served(self) -> set[Candidate]:
        """The jobs that get devices."""
        return {one for group in self.groups for one in group.members}


class Layouts:
    """What can be made of these jobs, in order, on so many devices."""

    def __init__(
        self, shared: SharedSpeeds, folding: Folding, jobs: Sequence[Candidate], supply: int
    ) -> None:
        self._shared = shared
        self._folding = folding
        self._jobs = jobs
        self._supply = supply
        self._holding = [one for one in jobs if one.held]
        self._values = Values(shared, jobs)  # of groups that were looked at

    def going_on(self, news: News) -> Layout:
        """What runs now goes on, but for what small changes make better where something is new."""
        current = self._current
        if not news and current.devices == self._supply:
            return current
        layout = self._complete(current)
        known = {group for group in current.groups if _devices(group) not in news.changed}
        changed = [group for group in layout.groups if group not in known]
        softer = [group for group in current.groups if _devices(group) in news.softer]
        served = layout.served
        waiting = [one for one in self._jobs if one not in served]
        came = _unlike([one for one in waiting if one.job.id in news.came])
        others = _unlike([one for one in waiting if one.job.id not in news.came])
        return self._improved(layout, changed, softer, [*came, *others], came)

    def best(self, last: int, news: News) -> tuple[int, Layout]:
        """The most valuable fold and its layout, or the last one with what goes on."""
        fold, layout = self._anew(last)
        if layout.all_served:
            return fold, layout
        going_on = self.going_on(news)
        if self._net(going_on) >= self._net(layout):
            return last, going_on._replace(marginal=layout.marginal)
        served = layout.served
        if len(served) <= _SEARCHED_MAX:  # With more, it brings less and takes long.
            waiting = _unlike([one for one in self._jobs if one not in served])
            layout = self._improved(layout, layout.groups, (), waiting, waiting)
        return fold, layout

    def _anew(self, last: int) -> tuple[int, Layout]:
        """The best fold and its layout, without regard to what runs."""
        found: dict[int, Layout] = {}
        for fold, times in enumerate(FOLDS if self._shared.largest > 1 else FOLDS[:1]):
            found[fold] = self._folded(times)
            if found[fold].all_served:
                break  # More devices would serve no job better.

        def value(fold: int) -> float:
            return self._net(found[fold]) * (1.0 + _STAY * (fold == last))

        promising = sorted(found, key=lambda fold: (-value(fold), fold))[:_COMPLETED]
        for fold in promising:
            found[fold] = self._complete(found[fold])
        best = max(promising, key=lambda fold: (value(fold), -fold))
        # Without sharing, or with what sharing would add to it.
        return best, found[best]._replace(all_served=found[0].all_served)

    @cached_property
    def _current(self) -> Layout:
        """The groups that there are, of jobs that still run."""
        by_devices: dict[Devices, list[Candidate]] = {}
        for one in self._holding:
            held = one.job.allocation
            if held is not None and one.held in one.curve.rates:
                by_devices.setdefault(held.devices, []).append(one)
        found = []
        for devices, members in by_devices.items():
            size = len(devices)
            sized = [at for one in members if (at := one.at(size)) is not None]
            group = self._shared.together(sized, size)
            if group is not None:
                self._values.put(group)
                found.append(group)
        return Layout(found)

    def _improved(
        self,
        layout: Layout,
        fresh: Collection[Group],
        softer: Collection[Group],
        waiting: Sequence[Candidate],
        new: Sequence[Candidate],
    ) -> Layout:
        """Better by small changes (Search.run says of what)."""
        free = self._supply - layout.devices
        search = Search(self._shared, self._values, layout.groups, waiting, free)
        return layout._replace(groups=search.groups()) if search.run(fresh, softer, new) else layout

    def _net(self, layout: Layout) -> float:
        """What a layout is worth, less what it costs to stop jobs that run and get nothing."""
        served = layout.served
        return layout.value - sum([o.costs_to_stop() for o in self._holding if o not in served])

    # -- what is asked of a layout ---------------------------------------------------------------

    def wanted(self, layout: Layout) -> list[Wanted]:
        found: list[Wanted] = []
        for group in sorted(layout.groups, key=self._by_value):
            offers = set(group.members[0].sizes)
            for one in group.members[1:]:
                offers.intersection_update(one.sizes)
            smaller = sorted((size for size in offers if size <= group.size), reverse=True)
            members = [one.job for one in group.members]
            found.append(Wanted(group.size, members, smaller, group.value, group.cost))
        return found

    def each_alone(self) -> Iterator[Wanted]:
        """Every job in order, alone at its least: groups without a place leave gaps."""
        for one in self._jobs:
            least = one.curve.steps[0].size
            sizes = [size for size in one.sizes if size <= least]
            yield Wanted(least, (one.job,), sizes[::-1])

    def power(self, layout: Layout) -> float:
        """What one more device would bring, over what a device brings on average."""
        groups, marginal = layout.groups, layout.marginal
        rate = sum([self._rate(group) for group in groups])
        if marginal is None:
            steps = [(group.size, group.members[0].curve.steps) for group in groups]
            left = [next((s.gain for s in own if s.size > size), 0.0) for size, own in steps]
            waits = len(layout.served) < len(self._jobs)
            marginal = 1.0 if waits else max(left, default=0.0)
        return min(max(marginal * layout.devices / rate, 0.0), 1.0) if rate else 1.0

    def _rate(self, group: Group) -> float:
        """The work that a group does in a second."""
        kept = self._shared.kept(group.kinds, group.members)
        return sum([one.curve.rates[group.size] * kept[one.kind] for one in group.members])

    # -- new layouts ----------------------------------------------------------------------------

    @cached_property
    def _steps(self) -> list[tuple[float, int, int]]:
        """Every step of every job, the most valuable for each device first, as (- value, the job's
        place in the order, the number of the step). A job is not shrunk for a little, and does not
        grow for a little."""
        steps = []
        for place, one in enumerate(self._jobs):
            stops, resized = 1.0 + one.stop_cost, 1.0 + one.resize_cost
            for number, step in enumerate(one.curve.steps):
                value, stays = one.worth * step.gain, resized if number else stops
                if one.held:
                    value = value * stays if step.size <= one.held else value / stays
                steps.append((-value, place, number))
        steps.sort()
        return steps

    def _sizes(self, devices: int) -> Mapping[Candidate, int]:
        """The last step of each job that gets devices, if there were so many."""
        found: dict[Candidate, int] = {}
        stuck: set[Candidate] = set()
        for _, place, number in self._steps:
            one = self._jobs[place]
            if one in stuck:
                continue
            step = one.curve.steps[number]
            if step.devices > devices:
                stuck.add(one)
                continue
            devices -= step.devices
            found[one] = number
            if not devices:
                break
        return found

    def _folded(self, times: float) -> Layout:
        """Sizes as if there were so many times the devices, folded onto those that there are."""
        groups: dict[int, list[Group]] = {}
        last_steps = self._sizes(int(times * self._supply))
        all_served = len(last_steps) == len(self._jobs) and all(
            number == len(one.curve.steps) - 1 for one, number in last_steps.items()
        )
        excess = -self._supply
        for one, number in last_steps.items():
            size = one.curve.steps[number].size
            groups.setdefault(size, []).append(self._shared.alone(one, size))
            excess += size
        if excess <= 0:
            return Layout(_flat(groups), None, all_served)
        folded = self._folding.fold(groups, excess)
        found = _flat(folded.groups)
        if folded.excess > 0:
            found = self._packed(found)
        return Layout(found, folded.marginal, all_served)

    def _packed(self, groups: Sequence[Group]) -> list[Group]:
        """What fits: the most valuable for each device first."""
        chosen, left = [], self._supply
        for group in sorted(groups, key=self._by_value):
            if group.size <= left:
                left -= group.size
                chosen.append(group)
        return chosen

    @cached_property
    def _place(self) -> Mapping[Candidate, int]:
        """Places in the order."""
        return {one: place for place, one in enumerate(self._jobs)}

    @property
    def _by_value(self) -> Callable[[Group], tuple[float, list[int]]]:
        """The most valuable for each device first."""
        place = self._place
        return lambda group: (-group.value / group.size, [place[one] for one in group.members])

    def _complete(self, layout: Layout) -> Layout:
        """Jobs that got nothing take what is left, in order, or join a group to which it pays."""
        served, left = layout.served, self._supply - layout.devices
        if len(served) == len(self._jobs):
            return layout
        groups = _Open(layout.groups, self._shared)
        for one in self._jobs:
            if one in served:
                continue
            if not left and not groups.by_size:
                break
            size = one.curve.steps[0].size
            if size <= left:
                groups.add(self._shared.alone(one, size))
                left -= size
            elif size in groups.by_size:
                groups.join(self._shared.alone(one, size))
        return layout._replace(groups=groups.all)


def _flat(groups: Mapping[int, Sequence[Group]]) -> list[Group]:
    return [group for own in groups.values() for group in own]


def _unlike(waiting: Sequence[Candidate]) -> list[Candidate]:
    """The first jobs in order, one of those that are alike: it is worth most."""
    first: dict[tuple[int, Sequence[int]], Candidate] = {}
    for one in waiting:
        first.setdefault((one.kind, one.sizes), one)
        if len(first) == _WAITING_MAX:
            break
    return list(first.values())


def _devices(group: Group) -> Devices:
    """What the jobs of a group that is there hold."""
    held = group.members[0].job.allocation
    assert held is not None, "they run"
    return held.devices


class _Open:
    """Groups of a layout; those that may take one more member by size and kinds."""

    def __init__(self, groups: Sequence[Group], shared: SharedSpeeds) -> None:
        self.all = list(groups)
        self._shared = shared
        self.by_size: dict[int, dict[Kinds, list[int]]] = {}
        self._in_vain: set[tuple[int, Kinds]] = set()  # no group gains by such a job
        for place, group in enumerate(groups):
            self._open(place, group)

    def add(self, group: Group) -> None:
        self.all.append(group)
        self._open(len(self.all) - 1, group)

    def join(self, one: Group) -> None:
        """Add a job to the group that gains most by it, if one gains at all."""
        size = one.size
        if (size, one.kinds) in self._in_vain:  # Later jobs of a kind are worth no more.
            return
        best, most, by_kinds = None, 0.0, self.by_size[size]
        for places in islice(by_kinds.values(), _JOINED_MAX):
            gain = self._shared.gain(self.all[places[-1]], one)
            if gain > most:
                best, most = places, gain
        if best is None:
            self._in_vain.add((size, one.kinds))
            return
        place = best.pop()
        both = self._shared.joined(self.all[place], one)
        assert both is not None, "they gain by it, so they may"
        if not best:
            del by_kinds[self.all[place].kinds]
            if not by_kinds:
                del self.by_size[size]
        self.all[place] = both
        self._open(place, both)

    def _open(self, place: int, group: Group) -> None:
        if len(group.members) < self._shared.largest:
            self._in_vain = {each for each in self._in_vain if each[0] != group.size}
            self.by_size.setdefault(group.size, {}).setdefault(group.kinds, []).append(place)
