"""The command line that submits a job again, from its record.

What a job has by default is left out. What no option can say is told in a note instead of being
changed in silence: every number is written only if its own notation reads it back as it was.
"""

import shlex
from collections.abc import Iterator
from typing import Any

from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.submission import name_by_default
from treadle.core.errors import InvalidInputError
from treadle.core.wording import sizes
from treadle.wire import notation
from treadle.wire.job_fields import FIELDS, Field, Kind
from treadle.wire.jobs import JobRequest, SubmitAgain

_DEFAULT = JobRequest(command=("true",))
_BREAK = " \\\n  "
_COMMIT_SHOWN = 12


def submit_again(record: JobRecord) -> SubmitAgain:
    """How to submit the same job again; a member of an array by itself."""
    notes: list[str] = []
    options = [*_options(record, notes)]
    notes += _notes(record)
    words = " ".join(map(quoted, record.command))
    return SubmitAgain(
        command=_BREAK.join(["treadle submit", *options, f"-- {words}"]), notes=tuple(notes)
    )


def quoted(word: str) -> str:
    """A word for the shell; what a terminal would obey is written as its bytes.

    Quotes and backslashes are written as bytes there too: a shell that does not know $'...' takes
    it for a dollar and a word in quotes, and that word must end where ours does.
    """
    if word.isprintable():
        return shlex.quote(word)
    marks = (_escaped(mark) for mark in word)
    return f"$'{''.join(marks)}'"


def _escaped(mark: str) -> str:
    if mark.isprintable() and mark not in "\\'":
        return mark
    return "".join(f"\\x{byte:02x}" for byte in mark.encode())


def _options(record: JobRecord, notes: list[str]) -> Iterator[str]:
    for field, value in _asked(record, notes):
        on, _, off = next(word for word in field.options.split() if "--" in word).partition("/")
        if off:
            yield on if value else off
        elif _reads_as(field.kind, value):
            yield _option(field.option, field.kind.write(value))
        else:
            notes.append(f"{field.option} cannot say what it has: {value!r}")
    for name in sorted(record.secrets):
        yield _option("--secret", name)
    for name in sorted(record.env):
        yield _option("--env", f"{name}={record.env[name]}")


def _asked(record: JobRecord, notes: list[str]) -> Iterator[tuple[Field, Any]]:
    """The fields that are not as they are by default."""
    name = "" if record.name == name_by_default(record.command) else record.name
    if notation.is_identity(name):
        notes.append(f"its name, {name}, would be taken for a job's id here")
        name = ""
    asked = {
        "name": name,
        "devices": sizes(record.sizes),
        "retries": record.retries if record.retry_unknown else None,
        "array": "" if record.member is None else str(record.member),
        "held": record.submitted_held,
    }
    if record.elastic:  # It has a process for each device, and can resume, without saying so.
        asked |= {"ranks": _DEFAULT.ranks, "resumable": _DEFAULT.resumable}
    for field in FIELDS:
        target = field.of_request
        value = asked[target] if target in asked else getattr(record, target)
        if value != getattr(_DEFAULT, target):
            yield field, value


def _notes(record: JobRecord) -> Iterator[str]:
    if record.member is not None:
        whole = f" (--array {record.array_text})" if record.array_text else ""
        yield (
            f"it is one of {record.array_size:,} jobs of array {record.array}{whole}; "
            "the command submits this one alone"
        )
    if record.secrets:
        yield "values of secrets are not shown: they are taken from the environment of your shell"
    if record.slurm:
        yield (
            "it was given SLURM_* variables, which only a script with #SBATCH lines is: "
            "submit the script itself"
        )
    if record.code is not None and record.code.commit:
        changed = ", with changes that were not committed" if record.code.dirty else ""
        yield (
            f"it runs the code that is there now; the job was submitted at commit "
            f"{record.code.commit[:_COMMIT_SHOWN]}{changed}"
        )


def _option(name: str, value: str) -> str:
    # A value that looks like an option, or like the end of them, must not stand alone.
    return f"{name}{'=' if value.startswith('-') else ' '}{quoted(value)}"


def _reads_as(kind: Kind, value: object) -> bool:
    try:
        return bool(kind.read(kind.write(value), "") == value)
    except InvalidInputError:
        return False
