"""What `treadle events` says of lines of the journal."""

import pytest

from treadle.cli.live.events import Wanted
from treadle.control.api.history import sentence
from treadle.wire.machine import EventView


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("JobCancelled", {}, "job 7 was cancelled"),
        ("JobCancelled", {"by": "ada"}, "job 7 was cancelled by ada"),
        (
            "AttemptEnded",
            {"how": "stopped", "attempt": 2},
            "attempt 2 of job 7 was stopped and released its devices",
        ),
        (
            "AttemptEnded",
            {"how": "stopped", "attempt": 0},
            "nothing of job 7 was launched, and its devices are free",
        ),
        ("ControllerBegan", {}, "the daemon began"),
        ("JobEdited", {}, "job 7 was edited"),
        ("Start", {"allocation": {"devices": [["here", 0]], "turn": 1}}, "start job 7 on here:0"),
        (
            "Start",
            {"allocation": {"devices": [["here", 0]], "turn": 0}, "beside": ["5", "6"]},
            "start job 7 on here:0, beside jobs 5, 6",
        ),
        (
            "Change",
            {"allocation": {"devices": [["here", 0]], "plan": {"data": 1, "shard": "all"}}},
            "give job 7 1 device instead: here:0, under the plan d1 zero-3",
        ),
        (
            "Change",
            {"allocation": {"devices": [["here", 0]]}, "beside": ["5"], "resumes": True},
            "resume job 7 on here:0, beside job 5",
        ),
        ("JobReleased", {"reason": "user", "by": "ada"}, "ada releases job 7"),
        ("JobStarted", {"stall_s": 0.25}, "job 7 was changed without a restart, stall 0.25 s"),
        ("JobStarted", {"changes": []}, "job 7 runs"),
        ("NodeJoined", {"node": {"name": "b"}}, "node b joined"),
        (
            "NodeJoined",
            {"node": {"name": "b"}, "undrained": True},
            "node b is used again: it takes new jobs",
        ),
        (
            "JobStarted",
            {"changes": ["size"]},
            "job 7 runs and can be changed without a restart",
        ),
    ],
)
def test_b11_events_in_words(kind: str, body: dict[str, object], text: str) -> None:
    assert sentence(kind, "7", body) == text


def test_b11_an_update_that_no_user_made_is_not_shown() -> None:
    wanted = Wanted(everything=False, since_at=None, until_at=None)
    shown = [
        kind
        for kind in ("JobEdited", "JobUpdated")
        if wanted.shows(EventView(id=1, at=0.0, kind=kind, job="7", text=""))
    ]
    assert shown == ["JobEdited"]
