"""`--elastic auto`: which commands it takes, and what they become."""

import pytest

from treadle.control.jobs.elastic_command import completed, elastic_command
from treadle.core.errors import InvalidInputError
from treadle.wire.jobs import JobRequest


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("python train.py --lr 1", "python -m treadle.train.auto train.py --lr 1"),
        ("/opt/bin/python3.12 -u a.py", "/opt/bin/python3.12 -u -m treadle.train.auto a.py"),
        ("python -m pkg.train x", "python -m treadle.train.auto -m pkg.train x"),
    ],
)
def test_a_python_command_is_run_by_the_training_library(command: str, becomes: str) -> None:
    request = completed(JobRequest(command=tuple(command.split()), elastic="auto"))
    assert (request.resumable, request.ranks) == (True, "device")
    assert elastic_command(request.command) == tuple(becomes.split())


@pytest.mark.parametrize("command", ["bash run.sh", "python -c pass", "python", "torchrun a.py"])
def test_other_commands_are_refused(command: str) -> None:
    request = JobRequest(command=tuple(command.split()), elastic="auto")
    with pytest.raises(InvalidInputError) as refused:
        completed(request)
    assert str(refused.value) == (
        f'elastic auto needs a command such as python train.py; found "{command}"'
    )


def test_a_job_that_is_not_elastic_stays_as_it_is() -> None:
    request = JobRequest(command=("bash", "run.sh"))
    assert completed(request) is request
