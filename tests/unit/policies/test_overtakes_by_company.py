"""A job that joins a running one takes no free device, and overtakes no gang."""

import pytest

from tests.unit.stories import Story, Told
from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.core.events import JobSubmitted
from treadle.core.snapshot import Schedule
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.wrappers.reserve import reserve, until_reserved
from treadle.testing.builders import job

Changes = dict[str, Allocation | None]


def at(index: int, turn: int = 0) -> Allocation:
    return Allocation((Device("n0", index),), turn=turn)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"b": at(1)}, "it was overtaken once"),
        ({"b": at(0, 1)}, "it was not overtaken yet"),
        ({"b": at(1), "c": at(1, 1)}, "it was overtaken once"),
        ({"b": at(0, 1), "c": at(1)}, "it was overtaken once"),
        ({"a": None, "b": at(0)}, "it was overtaken once"),
        ({"a": at(1), "b": at(0)}, "it was overtaken once"),
    ],
    ids=[
        "on a free device",
        "beside a job",
        "two on one free device",
        "one of each",
        "in a job's place",
        "on a device that a job leaves",
    ],
)
def test_starts_that_overtake_a_gang(changes: Changes, text: str) -> None:
    """Job a runs on one of two devices, a gang waits for both, and jobs b and c came later."""
    told = Told(Schedule({"a": at(0)}))
    policy = reserve(told, placement("consolidate"), ScalingModel(), overtakes=4)
    story = Story(policy, "1x2")
    story.tell(0.0, JobSubmitted(job("a")))
    story.runs(0.0, "a")
    told.answers.append(Schedule(dict(changes)))
    later = [
        JobSubmitted(job(name, size=2 if name == "gang" else 1)) for name in ("gang", "b", "c")
    ]
    story.tell(1.0, *later)
    assert until_reserved(policy, story.scheduler.snapshot(1.0), "gang").startswith(text)
