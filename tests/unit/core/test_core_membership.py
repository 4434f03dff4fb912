"""The membership machine, one story at a time."""

import pytest

from treadle.core.member_facts import (
    Changed,
    Dismiss,
    Ended,
    Gone,
    Heard,
    Launch,
    Limits,
    Lost,
    Output,
    Phase,
    Refused,
    Send,
    Stop,
    Target,
    Tick,
)
from treadle.core.member_messages import (
    LINE_BYTES_MAX,
    Answer,
    Arrived,
    At,
    Broken,
    Cancelled,
    Done,
    Finished,
    Form,
    Halt,
    Hello,
    Leave,
    Order,
    Prepare,
    Ready,
    StopAsked,
    Switched,
    decode,
    encode,
)
from treadle.core.membership import Membership


class Story:
    """A machine that is told things at moments."""

    def __init__(self, **limits: float) -> None:
        self.machine = Membership("file:/groups/", Limits(**limits))  # type: ignore[arg-type]
        self.now = 0.0

    def order(self, number: int, places: str, plan: str = "") -> list[Output]:
        wanted = tuple((each,) for each in places)
        return self.machine.step(Target(number, wanted, plan), self.now)

    def says(self, member: str, *answers: Answer) -> list[Output]:
        return [
            out for answer in answers for out in self.machine.step(Heard(member, answer), self.now)
        ]

    def gone(self, member: str) -> list[Output]:
        return self.machine.step(Gone(member), self.now)

    def tick(self, now: float) -> list[Output]:
        self.now = now
        return self.machine.step(Tick(), now)

    def started(self, places: str, plan: str = "") -> "Story":
        """With a group on these places."""
        self.order(1, places, plan)
        names = [f"m{number}" for number in range(len(places))]
        for name in names:
            self.says(name, Hello(("size",), 30.0), Ready())
        for name in names:
            self.says(name, Switched(1, 0))
        assert self.machine.group == tuple(names)
        return self


def sent(outputs: list[Output]) -> list[tuple[str, Order]]:
    return [(out.member, out.order) for out in outputs if isinstance(out, Send)]


def test_a_start_forms_a_group_when_all_are_ready() -> None:
    story = Story()
    assert story.order(1, "ab") == [
        Launch("m0", ("a",), joins=False),
        Launch("m1", ("b",), joins=False),
    ]
    assert story.says("m0", Ready()) == []
    form = Form(1, ("m0", "m1"), "m0", ("m1",), "file:/groups/1")
    assert sent(story.says("m1", Ready())) == [("m0", form), ("m1", form)]
    assert story.says("m1", Switched(1, 0)) == []
    assert story.says("m0", Switched(1, 0)) == [Changed(1, 1, ("m0", "m1"), 0, 0.0, "start")]
    assert story.machine.phase is Phase.RUNNING


def test_an_expand_disturbs_the_others_only_when_newcomers_are_ready() -> None:
    story = Story().started("a")
    assert story.order(2, "ab") == [Launch("m1", ("b",), joins=True)]
    assert story.machine.phase is Phase.WARMING
    assert sent(story.says("m1", Ready())) == [("m0", Prepare(2))]
    assert sent(story.says("m0", At(2, 7))) == [("m0", Halt(2, 8))]
    form = Form(2, ("m0", "m1"), "m0", ("m1",), "file:/groups/2")
    assert sent(story.says("m0", Arrived(2, 8))) == [("m0", form), ("m1", form)]
    story.says("m1", Switched(2, 8, 3.0))
    done = story.says("m0", Switched(2, 8, 0.25))
    assert done == [Changed(2, 2, ("m0", "m1"), 8, 0.25, "order")], "the newcomer did not stall"


def test_a_member_that_leaves_waits_until_the_next_group_stands() -> None:
    story = Story().started("ab")
    story.order(2, "a")
    story.says("m0", At(2, 5))
    story.says("m1", At(2, 5), Arrived(2, 6))
    # Nothing is sent: m0 has all the state it needs.
    form = Form(2, ("m0",), "m0", (), "file:/groups/2")
    assert sent(story.says("m0", Arrived(2, 6))) == [("m0", form)]
    assert sent(story.says("m0", Switched(2, 6, 0.1))) == [("m1", Leave(2))]
    assert story.gone("m1") == []
    assert story.machine.members == {"m0": ("a",)}


def test_a_leaver_that_does_not_end_is_dismissed() -> None:
    story = Story(leave_s=5.0).started("ab")
    story.order(2, "a")
    story.says("m0", At(2, 5))
    story.says("m1", At(2, 5))
    story.says("m0", Arrived(2, 6), Switched(2, 6))
    assert story.machine.due == 5.0
    assert story.tick(5.0) == [Dismiss("m1", "it was told to leave")]


def test_a_move_of_all_keeps_one_old_member_until_the_state_is_over() -> None:
    story = Story().started("a")
    story.order(2, "b")
    story.says("m1", Ready())
    story.says("m0", At(2, 3), Arrived(2, 4))
    story.says("m0", Switched(2, 4))
    first = story.says("m1", Switched(2, 4))
    assert [out for out in first if isinstance(out, Changed)] == [
        Changed(None, 2, ("m0", "m1"), 4, 0.0, "order")
    ]
    assert sent(first) == [("m0", Prepare(3)), ("m1", Prepare(3))]
    story.says("m0", At(3, 4))
    story.says("m1", At(3, 4), Arrived(3, 5))
    assert story.says("m1", Switched(3, 5))[0] == Send("m0", Leave(3))
    assert story.machine.group == ("m1",)


def test_a_newer_target_keeps_warm_members_and_dismisses_the_others() -> None:
    story = Story().started("a")
    story.order(2, "abc")
    assert story.order(3, "acd") == [
        Dismiss("m1", "a newer order does not want it"),
        Launch("m3", ("d",), joins=True),
    ]


def test_a_newer_target_that_wants_what_is_there_cancels_and_is_reached() -> None:
    story = Story().started("a")
    story.order(2, "ab")
    assert story.order(3, "a") == [
        Dismiss("m1", "a newer order does not want it"),
        Changed(3, 1, ("m0",), 0, 0.0),
    ]
    assert story.machine.phase is Phase.RUNNING


def test_old_orders_and_old_answers_are_ignored() -> None:
    story = Story().started("ab")
    story.order(3, "a")
    assert story.order(2, "abc") == []
    assert story.says("m0", At(1, 5), Arrived(1, 5), Switched(1, 5), Broken(0, 5)) == []
    assert story.says("m9", At(2, 5)) == []


def test_a_loss_is_met_by_the_member_that_applied_most() -> None:
    story = Story().started("abc")
    outputs = story.gone("m1")
    assert outputs[0] == Lost("m1")
    assert sent(outputs) == [("m0", Halt(2)), ("m2", Halt(2))]
    story.says("m0", Arrived(2, 9))
    form = Form(2, ("m0", "m2"), "m2", ("m0",), "file:/groups/2")
    assert sent(story.says("m2", Arrived(2, 10))) == [("m0", form), ("m2", form)]


def test_a_second_loss_while_the_group_is_formed_again() -> None:
    story = Story().started("abc")
    story.gone("m1")
    story.says("m0", Arrived(2, 9))
    assert sent(story.gone("m2")) == [("m0", Halt(3))]
    assert sent(story.says("m0", Arrived(3, 9))) == [
        ("m0", Form(3, ("m0",), "m0", (), "file:/groups/3"))
    ]


def test_a_member_about_to_leave_is_kept_if_only_it_has_the_state() -> None:
    """From a and b to a and c; the one on a is lost while it gives its state to the one on c."""
    story = Story().started("ab")
    story.order(2, "ac")
    story.says("m2", Hello(("size",), 30.0), Ready())
    story.says("m0", At(2, 5))
    story.says("m1", At(2, 5), Arrived(2, 6))
    assert [order for _, order in sent(story.says("m0", Arrived(2, 6)))] == 2 * [
        Form(2, ("m0", "m2"), "m0", ("m2",), "file:/groups/2")
    ]
    assert sent(story.gone("m0")) == [("m1", Halt(3)), ("m2", Halt(3))]
    story.says("m2", Arrived(3, None))
    form = Form(3, ("m1", "m2"), "m1", ("m2",), "file:/groups/3")
    assert sent(story.says("m1", Arrived(3, 6))) == [("m1", form), ("m2", form)]


def test_a_collective_that_fails_without_a_death_is_a_loss_of_the_one_that_does_not_arrive() -> (
    None
):
    story = Story().started("ab")
    assert sent(story.says("m0", Broken(1, 4))) == [("m0", Halt(2)), ("m1", Halt(2))]
    story.says("m0", Arrived(2, 4))
    assert story.machine.due == 30.0  # the timeout that the members named
    outputs = story.tick(30.0)
    assert outputs[:2] == [
        Dismiss("m1", "it did not arrive where the others wait", at_once=True),
        Lost("m1"),
    ]
    assert sent(outputs) == [("m0", Halt(3))]


def test_groups_that_break_again_and_again_end_the_attempt() -> None:
    story = Story(failures=2).started("ab")
    version = 1
    for _ in range(3):
        outputs = story.says("m0", Broken(version, 4))
        version = story.machine.version
        for member in ("m0", "m1"):
            story.says(member, Arrived(version, 4))
    assert [out for out in outputs if isinstance(out, Dismiss)] == [
        Dismiss("m0", "3 groups in a row failed"),
        Dismiss("m1", "3 groups in a row failed"),
    ]


def test_the_loss_of_the_last_ends_the_attempt() -> None:
    story = Story().started("a")
    assert story.gone("m0") == [Lost("m0"), Ended(finished=False, why="0 members are left")]
    assert story.machine.phase is Phase.ENDED


def test_newcomers_of_which_one_is_not_ready_in_time_are_dismissed_and_the_rest_goes_on() -> None:
    story = Story(ready_s=10.0).started("a")
    story.order(2, "abc")
    story.says("m1", Ready())
    outputs = story.tick(10.0)
    assert outputs == [
        Dismiss("m2", "it did not become ready"),
        Dismiss("m1", "the change was given up"),
        Refused(2, "newcomer m2 did not become ready", "m2"),
    ]
    assert story.machine.group == ("m0",)


def test_a_move_is_given_up_if_a_newcomer_is_lost() -> None:
    story = Story().started("ab")
    story.order(2, "cd")
    outputs = story.gone("m2")
    assert outputs == [
        Lost("m2"),
        Dismiss("m3", "the change was given up"),
        Refused(2, "newcomer m2 ended before it trained", "m2"),
    ]
    assert story.machine.group == ("m0", "m1")


def test_a_member_that_does_not_answer_makes_the_job_rigid_and_is_not_killed() -> None:
    story = Story(answer_s=20.0).started("ab")
    story.order(2, "a")
    story.says("m0", At(2, 5))
    outputs = story.tick(20.0)
    assert sent(outputs) == [("m0", Cancelled(2)), ("m1", Cancelled(2))]
    assert outputs[-1] == Refused(2, "m1 did not answer")
    assert story.machine.group == ("m0", "m1")


@pytest.mark.parametrize("asked_by_member", [False, True])
def test_a_stop_is_one_step_for_all_and_one_checkpoint(asked_by_member: bool) -> None:
    story = Story().started("ab")
    outputs = story.says("m1", StopAsked()) if asked_by_member else story.machine.step(Stop(), 0.0)
    assert sent(outputs) == [("m0", Prepare(2)), ("m1", Prepare(2))]
    story.says("m0", At(2, 5))
    assert sent(story.says("m1", At(2, 5))) == [
        ("m0", Leave(2, 6, stop=True, save=True)),
        ("m1", Leave(2, 6, stop=True, save=False)),
    ]
    assert story.gone("m1") == []
    assert story.gone("m0") == [Ended(finished=False, why="all members left")]


def test_members_end_together_when_all_have_finished() -> None:
    story = Story().started("ab")
    assert story.says("m0", Finished()) == []
    assert sent(story.says("m1", Finished())) == [("m0", Done()), ("m1", Done())]
    assert story.gone("m0") == []
    assert story.gone("m1") == [Ended(finished=True, why="finished")]


def test_a_member_that_hangs_at_the_end_is_not_waited_for_longer_than_in_a_step() -> None:
    story = Story().started("ab")
    assert story.says("m0", Finished()) == []
    assert story.machine.due == 60.0  # the timeout of the members, twice
    assert story.tick(60.0) == [
        Dismiss("m1", "it did not finish, and the others wait", at_once=True),
        Lost("m1"),
        Send("m0", Halt(2, None)),
    ]
    assert story.gone("m1") == []
    story.says("m0", Arrived(2, 8))
    assert Send("m0", Done()) in story.says("m0", Switched(2, 8))
    assert story.gone("m0") == [Ended(True, "finished")]


def test_the_end_of_training_cancels_a_change_in_flight() -> None:
    story = Story().started("a")
    story.order(2, "ab")
    story.says("m1", Ready())
    outputs = story.says("m0", Finished())
    assert sent(outputs)[0] == ("m0", Cancelled(2))
    assert Refused(2, "the training ends") in outputs
    assert any(isinstance(out, Dismiss) and out.member == "m1" for out in outputs)


@pytest.mark.parametrize(
    "message",
    [
        Prepare(1),
        Halt(2, None),
        Form(3, ("m0",), "m0", (), "file:x"),
        Leave(1, 2, stop=True),
        Done(),
        Hello(("size",), 3.0),
        Ready(),
        At(1, 2),
        Arrived(1, None),
        Switched(1, 2, 0.5),
        Broken(1, 2),
    ],
)
def test_messages_come_back_as_they_were(message: Order | Answer) -> None:
    assert decode(encode(message)) == message


def test_what_is_not_known_is_ignored() -> None:
    assert decode(b'{"kind": "Telepathy", "version": 1}') is None
    assert decode(b'{"kind": "Prepare", "version": 1, "mood": "good"}') == Prepare(1)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'{"kind": "At", "version": "1", "step": 2}',
        b'{"kind": "At", "version": 1}',
        b'{"kind": "Prepare", "version": true}',
        b" " * (LINE_BYTES_MAX + 1),
    ],
)
def test_malformed_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


# -- plans ----------------------------------------------------------------------------------------

SPLIT = "zero-3"


def test_a_change_between_plans_with_whole_models_needs_no_folder() -> None:
    story = Story().started("ab")
    story.order(2, "ab", "recompute")
    story.says("m0", At(2, 5))
    assert sent(story.says("m1", At(2, 5)))[0] == ("m0", Halt(2, 6))
    story.says("m0", Arrived(2, 6))
    form = Form(2, ("m0", "m1"), "m0", (), "file:/groups/2", "recompute")
    assert sent(story.says("m1", Arrived(2, 6)))[0] == ("m0", form)


def test_those_that_leave_a_split_plan_give_their_part_before_the_next_group_is_formed() -> None:
    story = Story().started("ab", SPLIT)
    story.order(2, "a", "")
    story.says("m0", At(2, 5))
    assert sent(story.says("m1", At(2, 5)))[1] == ("m1", Halt(2, 6, carry=True))
    assert story.says("m0", Arrived(2, 6, "/state")) == []
    form = Form(2, ("m0",), "m0", (), "file:/groups/2", "", "/state")
    assert sent(story.says("m1", Arrived(2, 6, "/state"))) == [("m0", form)]
    done = story.says("m0", Switched(2, 6, 0.5))
    assert Changed(2, 2, ("m0",), 6, 0.5, "order") in done


def test_a_state_that_cannot_be_saved_refuses_the_change_and_all_train_on() -> None:
    story = Story().started("ab")
    story.order(2, "ab", SPLIT)
    story.says("m0", At(2, 5))
    story.says("m1", At(2, 5))
    outputs = story.says("m0", Arrived(2, 6, problem="no space left on device"))
    assert sent(outputs) == [("m0", Cancelled(2)), ("m1", Cancelled(2))]
    why = "the state could not be saved: no space left on device"
    assert Refused(2, why) in outputs
    assert story.machine.phase is Phase.RUNNING


def test_a_loss_under_a_split_plan_starts_all_again() -> None:
    story = Story().started("ab", SPLIT)
    outputs = story.gone("m1")
    assert outputs == [
        Lost("m1"),
        Send("m0", Halt(2)),
        Dismiss("m0", "a part of the state was lost"),
    ]
    assert story.gone("m0") == [
        Launch("m2", ("a",), joins=False),
        Launch("m3", ("b",), joins=False),
    ]
    story.says("m2", Ready())
    form = Form(3, ("m2", "m3"), "m2", ("m3",), "file:/groups/3", SPLIT)
    assert sent(story.says("m3", Ready())) == [("m2", form), ("m3", form)]
    story.says("m2", Switched(3, 4))
    assert story.says("m3", Switched(3, 4)) == [
        Changed(None, 3, ("m2", "m3"), 4, 0.0, "restart", SPLIT)
    ]


def test_a_loss_after_the_state_was_saved_costs_no_step() -> None:
    """The members begin again from the folder, not from the last checkpoint."""
    story = Story().started("ab", SPLIT)
    story.order(2, "ab", "t2")
    story.says("m0", At(2, 5))
    story.says("m1", At(2, 5))
    story.says("m0", Arrived(2, 6, "/state"))
    story.gone("m1")
    story.gone("m0")
    story.says("m2", Ready())
    form = sent(story.says("m3", Ready()))[0][1]
    assert isinstance(form, Form)
    assert (form.carried, form.plan) == ("/state", "t2")


def test_parts_of_the_state_that_are_lost_again_and_again_end_the_attempt() -> None:
    story = Story(restarts=1).started("a", SPLIT)
    story.says("m0", Broken(1, 3))
    story.gone("m0")
    story.says("m1", Ready(), Switched(3, 0))
    outputs = [*story.says("m1", Broken(3, 0)), *story.gone("m1")]
    assert outputs[-1] == Ended(finished=False, why="all members left")
