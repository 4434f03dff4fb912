"""Why a simulated job ends later on more devices: what it holds there, against what it holds here.

A policy that looks at all jobs may give one of them less than it had, although there is more.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.core.job import JobId
from treadle.core.wording import devices, named_jobs, several, span
from treadle.wire.what_if import WhatIfSpell

LATER, LATER_S = 1.05, 1.0  # less is no difference
MUCH = 0.1  # of devices, or of the time: less explains nothing
NAMED_MAX = 4


class _Held(NamedTuple):
    """What a job holds over a simulation."""

    from_s: float
    devices: float  # on average, while it holds any
    spells: int
    company: float  # other jobs on each of its devices, on average
    others: tuple[JobId, ...]  # those, the longest first
    before: tuple[JobId, ...]  # which left the devices that it starts on


def later_notes(
    now: Mapping[JobId, float],
    then: Mapping[JobId, float],
    spells_now: Sequence[WhatIfSpell],
    spells_then: Sequence[WhatIfSpell],
) -> list[str]:
    """A sentence for each job that ends later then, those that lose most first."""
    lost = {
        job: then[job] - now[job]
        for job in now.keys() & then.keys()
        if then[job] > LATER * now[job] + LATER_S
    }
    worst = sorted(lost, key=lambda job: -lost[job])
    notes = [
        f"job {job} ends {span(lost[job])} later: "
        + _why(_held(job, spells_now), _held(job, spells_then), lost[job])
        for job in worst[:NAMED_MAX]
    ]
    more = len(worst) - NAMED_MAX
    return [*notes, f"{several(more, 'other job')} later for such reasons"] if more > 0 else notes


def _why(here: _Held | None, there: _Held | None, lost_s: float) -> str:
    if here is None or there is None:
        return "the policy puts other jobs first"
    reasons = []
    if there.from_s - here.from_s >= MUCH * lost_s:
        after = f" after {named_jobs(there.before, 2)}" if there.before else ""
        reasons.append(f"it starts {span(there.from_s - here.from_s)} later{after}")
    if there.devices < (1.0 - MUCH) * here.devices:
        reasons.append(f"it has {_count(there.devices)} instead of {here.devices:.2g}")
    if there.company > here.company + MUCH:
        reasons.append(f"it shares with {named_jobs(there.others, 2)}")
    if there.spells > here.spells:
        reasons.append(f"its devices change {several(there.spells - here.spells, 'more time')}")
    return " and ".join(reasons) or "its speed there is modelled, and here it was measured"


def _count(number: float) -> str:
    return devices(int(number)) if number == int(number) else f"{number:.2g} devices"


def _held(job: JobId, spells: Sequence[WhatIfSpell]) -> _Held | None:
    own = sorted((each for each in spells if each.job == job), key=lambda each: each.from_s)
    time_s = sum(each.to_s - each.from_s for each in own)
    if not time_s:
        return None
    device_s = sum(len(each.devices) * (each.to_s - each.from_s) for each in own)
    beside: dict[JobId, float] = {}
    for mine in own:
        for other in spells:
            together_s = min(mine.to_s, other.to_s) - max(mine.from_s, other.from_s)
            if other.job != job and together_s > 0:
                common = len({*mine.devices} & {*other.devices})
                beside[other.job] = beside.get(other.job, 0.0) + common * together_s
    first = own[0]
    before = (
        each for each in spells if each.to_s <= first.from_s and {*each.devices} & {*first.devices}
    )
    left = sorted(before, key=lambda each: -each.to_s)
    return _Held(
        first.from_s,
        device_s / time_s,
        len(own),
        sum(beside.values()) / device_s,
        tuple(sorted((name for name in beside if beside[name]), key=lambda name: -beside[name])),
        tuple(dict.fromkeys(each.job for each in left)),
    )
