"""The API with the real controller behind it: a daemon in a process of its own, real jobs."""

from tests.control.daemons import daemon
from treadle.wire.jobs import JobRequest, State


def test_output_and_events_of_a_job_are_followed_to_the_end() -> None:
    with daemon("--devices", "2") as here:
        client = here.client
        made = client.submit(JobRequest(command=("bash", "-c", "echo grüße; sleep 0.3; echo bye")))
        assert "".join(piece.text for piece in client.follow_log(made.id)) == "grüße\nbye\n"
        (ended,) = client.wait([made.id], timeout_s=30)
        assert (ended.job.state, ended.job.code) == (State.SUCCEEDED, 0)
        assert made.id in [job.id for job in client.jobs(ended=True)]
        kinds = []
        for event in client.follow_events(after=0, job=made.id):
            kinds.append(event.kind)
            if event.kind == "AttemptEnded":
                break
        assert kinds[:2] == ["JobAccepted", "JobSubmitted"]
