"""What of a job only its owner and admins see."""

from dataclasses import replace

import pytest

from tests.blank import blank
from treadle.server.privacy import may_read, shown, shown_page
from treadle.wire.jobs import (
    AttemptView,
    Code,
    FailureView,
    JobDetail,
    JobPage,
    JobView,
    State,
    SubmitAgain,
)
from treadle.wire.machine import Role, Who
from treadle.wire.problems import NotAllowedError

FAILURE = FailureView(kind="unknown", rule="x", sentence="y", advice="z", evidence="TOKEN=abc")
VIEW = JobView(id="3", name="train", user="ann", tenant="", state=State.FAILED)
DETAIL = blank(
    JobDetail,
    job=VIEW,
    env={"PLAIN": "hello"},
    secrets=("HF_TOKEN",),
    code=Code(commit="c0ffee", diff="+ password = 1", dirty=True),
    attempts=(AttemptView(number=1, devices=("h:0",), started_at=1.0, failure=FAILURE),),
    failure=FAILURE,
    again=SubmitAgain(command="treadle submit --env TOKEN=abc -- ./train"),
)

PAGE = JobPage(jobs=(replace(VIEW, arguments={"--lr": "0.1", "$TOKEN": "abc"}),))


@pytest.mark.parametrize(
    "who",
    [Who(user="ann", role=Role.USER), Who(user="root", role=Role.ADMIN)],
    ids=["owner", "admin"],
)
def test_its_owner_and_admins_see_everything(who: Who):
    may_read(who, VIEW)
    assert shown(who, DETAIL) is DETAIL
    assert shown_page(who, PAGE) == PAGE


@pytest.mark.parametrize(
    "who",
    [
        Who(user="otto", role=Role.USER),
        Who(user="grafana", role=Role.VIEWER),
        Who(user="ann", role=Role.VIEWER, job="9"),
    ],
    ids=["another user", "a viewer", "another job of hers"],
)
def test_others_see_neither_output_nor_values_nor_changes(who: Who):
    with pytest.raises(NotAllowedError) as refusal:
        may_read(who, VIEW)
    assert str(refusal.value) == (
        "the output of job 3 is ann's; only its owner and admins may read it"
    )
    seen = shown(who, DETAIL)
    assert seen.env == {"PLAIN": "hidden"}
    assert seen.code == Code(commit="c0ffee", dirty=True)
    assert seen.again is None
    assert "abc" not in str(seen)
    assert seen.job == VIEW
    (job,) = shown_page(who, PAGE).jobs
    assert job.arguments == {"--lr": "0.1", "$TOKEN": "hidden"}
