"""The command line that submits a job again, from its record.

What a job has by default is left out. What no option can say is told in a note instead of being
changed in silence: every number is written only if its own notation reads it back as it was.
"""

import shlex
from collections.abc import Callable, Iterator

from treadle.control.jobs.records import JobRecord
from treadle.control.jobs.submission import name_by_default
from treadle.core.errors import InvalidInputError
from treadle.core.wording import sizes
from treadle.wire import notation
from treadle.wire.jobs import JobRequest, SubmitAgain

_DEFAULT = JobRequest(command=("true",))
_UNITS_S = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
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
    yield from _texts(record, notes)
    yield from _amounts(record, notes)
    yield from _switches(record)
    for name in sorted(record.secrets):
        yield _option("--secret", name)
    for name in sorted(record.env):
        yield _option("--env", f"{name}={record.env[name]}")


def _texts(record: JobRecord, notes: list[str]) -> Iterator[str]:
    name = "" if record.name == name_by_default(record.command) else record.name
    if notation.is_identity(name):
        notes.append(f"its name, {name}, would be taken for a job's id here")
        name = ""
    # An elastic job has a process for each device, and can resume, without saying so.
    ranks = _DEFAULT.ranks if record.elastic else record.ranks
    for option, value, default in (
        ("--name", name, ""),
        ("--devices", sizes(record.sizes), _DEFAULT.devices),
        ("--elastic", record.elastic, ""),
        ("--ranks", ranks, _DEFAULT.ranks),
        ("--workdir", record.workdir, ""),
        ("--tenant", record.tenant, ""),
        ("--priority", str(record.priority), str(_DEFAULT.priority)),
        ("--device-type", record.device_type, ""),
        ("--model", record.model, ""),
        ("--stop-signal", record.stop_signal, _DEFAULT.stop_signal),
        ("--retries", str(record.retries) if record.retry_unknown else "", ""),
        ("--after", ",".join(record.after), ""),
        ("--after-any", ",".join(record.after_any), ""),
        ("--array", "" if record.member is None else str(record.member), ""),
    ):
        if value != default:
            yield _option(option, value)


def _amounts(record: JobRecord, notes: list[str]) -> Iterator[str]:
    grace_s = None if record.grace_s == _DEFAULT.grace_s else record.grace_s
    for option, value, written, read in (
        ("--time-limit", record.time_limit_s, _duration, notation.duration),
        ("--estimate", record.estimate_s, _duration, notation.duration),
        ("--grace", grace_s, _duration, notation.duration),
        ("--memory", record.memory_gib, _memory, notation.memory),
        ("--gpu-memory", record.gpu_memory_gib, _memory, notation.memory),
        ("--cpus", record.cpus, _number, notation.cpus),
    ):
        if value is None:
            continue
        text = written(value)
        if _reads_as(read, text, value):
            yield _option(option, text)
        else:
            notes.append(f"{option} cannot say what it has: {value!r}")


def _switches(record: JobRecord) -> Iterator[str]:
    if not record.guaranteed:
        yield "--opportunistic"
    if record.resumable and not record.elastic:
        yield "--resumable"
    if record.exclusive:
        yield "--exclusive"
    if not record.warm:
        yield "--no-warm"
    if record.submitted_held:
        yield "--hold"
    if record.wait_for_capacity:
        yield "--wait-for-capacity"


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


def _duration(seconds: float) -> str:
    if seconds != int(seconds):
        return f"{_number(seconds)}s"
    left, text = int(seconds), ""
    for unit, unit_s in _UNITS_S:
        count, left = divmod(left, unit_s)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _memory(gib: float) -> str:
    mib = gib * 1024
    return f"{_number(mib)}M" if gib != int(gib) and mib == int(mib) else f"{_number(gib)}G"


def _number(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def _reads_as(read: Callable[[str, str], float], text: str, value: float) -> bool:
    try:
        return read(text, "") == value
    except InvalidInputError:
        return False
