"""Which jobs are alike: the kinds that a job belongs to, the closest first.

A learner adds an observation to every kind of the job and answers from the closest kind that it
has seen. The live controller goes by owner, model name and command line (`by_command`). Traces have
no command lines, so the simulator goes by the model's name (`by_model`).

Issue 14 makes the list of `by_command` longer: the same command, the same script and arguments but
for numbers and paths, the same script, the same user, all jobs.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from treadle.core.job import JobSpec

Kind = str
Kinds = Callable[[JobSpec], tuple[Kind, ...]]

_INTERPRETERS = (
    "python",
    "bash",
    "sh",
    "torchrun",
    "accelerate",
    "deepspeed",
    "env",
    "uv",
    "nohup",
)


def by_model(spec: JobSpec) -> tuple[Kind, ...]:
    """Jobs of one model that ask for as many devices train alike.

    The size is part of it because the batch grows with it, and an iteration with the batch.
    """
    model = spec.profile.model
    return (f"model {spec.asked} {model}",) if model else by_job(spec)


def by_job(spec: JobSpec) -> tuple[Kind, ...]:
    """Every job learns for itself, as CoDDL's jobs do."""
    return (f"job {spec.id}",)


def by_command(owner: str, model: str, command: Sequence[str]) -> tuple[Kind, ...]:
    """The same command of one user; with a model's name, also the same program.

    Arguments say how much work there is: the times of `sleep 10.5` and `sleep 4` are no curve of
    one job. Only a user who gives jobs one model says that they train alike.
    """
    whole = hashlib.sha256("\0".join(command).encode()).hexdigest()[:24]
    same = f"{owner}/{model}/={whole}"
    return (same, f"{owner}/{model}/{_program(command)}") if model else (same,)


def _program(command: Sequence[str]) -> str:
    """What is run: the script behind an interpreter, or the program itself."""
    words = [word for word in command if not word.startswith("-")]
    names = [PurePosixPath(word).name for word in words[:4]]
    if not names:
        return ""
    for name in names:
        if not name.startswith(_INTERPRETERS) and "=" not in name:
            return name[:80]
    return names[0][:80]
