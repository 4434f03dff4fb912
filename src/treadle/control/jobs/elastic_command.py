"""`--elastic auto`: the command that runs an unmodified Python script as an elastic job."""

import re
from dataclasses import replace
from pathlib import PurePosixPath

from treadle.core.errors import InvalidInputError
from treadle.wire.jobs import JobRequest
from treadle.wire.notation import shown

MODULE = "treadle.train.auto"
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_FLAGS = ("-u", "-O", "-OO", "-B", "-E", "-s")  # of Python, without a value


def completed(request: JobRequest) -> JobRequest:
    """Refuse what cannot be made elastic; the rest keeps checkpoints, so it can resume."""
    if not request.elastic:
        return request
    if request.elastic != "auto":
        raise InvalidInputError(f"elastic is {shown(request.elastic)}; expected auto, or nothing")
    if _place(request.command) is None:
        raise InvalidInputError(
            f"elastic auto needs a command such as python train.py; found "
            f"{shown(' '.join(request.command)[:80])}"
        )
    if request.ranks == "one":
        raise InvalidInputError(
            "elastic auto starts a process for each device, and ranks is one; leave ranks out"
        )
    return replace(request, ranks="device", resumable=True)


def elastic_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """The same script, run by the training library."""
    place = _place(command)
    assert place is not None, "it was checked when it was submitted"
    return (*command[:place], "-m", MODULE, *command[place:])


def _place(command: tuple[str, ...]) -> int | None:
    """Where the script, or -m and a module, stands in a Python command."""
    if not command or not _PYTHON.fullmatch(PurePosixPath(command[0]).name):
        return None
    for place, word in enumerate(command[1:], start=1):
        if word in _FLAGS:
            continue
        module = word == "-m" and len(command) > place + 1
        return place if module or not word.startswith("-") else None
    return None
