"""The options that describe a job, on the command line and in a script's `#TREADLE` lines."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from treadle.client.jobfile import (
    Draft,
    Given,
    array_text,
    read_env_file,
    read_text,
    variable_name,
    within,
)
from treadle.client.jobfile_script import Line, read_dependency
from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values

Command = TypeVar("Command", bound=Callable[..., Any])
SECRET_BYTES_MAX = 65_536

_OPTIONS = (
    click.option("-n", "--name", "--job-name", help="Name of the job."),
    click.option(
        "-d",
        "--devices",
        "--gpus",
        metavar="4|2..8|1,2,4",
        help="Number of devices; of several, Treadle chooses.",
    ),
    click.option(
        "--device-type",
        metavar="h200|a100,h200|gpu|cpu|any",
        help="Types of device, by parts of their names; default: GPUs where there are some.",
    ),
    click.option(
        "--ranks", metavar="auto|device|one", help="Processes to start: one, or one per device."
    ),
    click.option(
        "-C", "--workdir", "--chdir", metavar="DIR", help="Working directory; default: this one."
    ),
    click.option(
        "-e",
        "--env",
        multiple=True,
        metavar="A=1|A",
        help="Environment variable; A alone: its value here.",
    ),
    click.option("--env-file", multiple=True, metavar="FILE", help="File with lines A=1 or A."),
    click.option(
        "--secret",
        multiple=True,
        metavar="NAME",
        help="Environment variable whose value is never shown.",
    ),
    click.option(
        "--secret-file",
        multiple=True,
        metavar="NAME=PATH",
        help="Secret whose value is read from a file.",
    ),
    click.option("--tenant", help="Team that the usage is charged to."),
    click.option("-p", "--priority", metavar="N|low|normal|high|urgent", help="Default: normal."),
    click.option(
        "--guaranteed/--opportunistic",
        default=None,
        help="Whether the job may be preempted (opportunistic) or not.",
    ),
    click.option(
        "--resumable/--not-resumable",
        default=None,
        help="Whether the job can continue from a checkpoint.",
    ),
    click.option(
        "-t",
        "--time-limit",
        "--time",
        metavar="12h",
        help="Running time limit: 90s, 45m, 2d, 1-12:00:00.",
    ),
    click.option(
        "--memory", metavar="16G", help="Host memory of the whole job on a node: 512M, 16G."
    ),
    click.option("--cpus", metavar="4", help="Cores of the whole job on a node."),
    click.option(
        "--gpu-memory",
        metavar="20G",
        help="Memory of each GPU that the job needs; a job shares a GPU only if this is known.",
    ),
    click.option(
        "--exclusive/--not-exclusive",
        default=None,
        help="Whether the job has its devices for itself.",
    ),
    click.option(
        "--warm/--no-warm",
        default=None,
        help="Whether it may start from an interpreter that has its modules imported.",
    ),
    click.option(
        "--elastic",
        metavar="auto|no",
        help="auto: run a PyTorch script for one device on many, resized while it runs.",
    ),
    click.option("--grace", metavar="30s", help="Time between the stop signal and SIGKILL."),
    click.option("--stop-signal", metavar="SIGTERM", help="Signal that asks the job to stop."),
    click.option(
        "--retries",
        metavar="N",
        help="Retry unknown failures too, N times; default: 3 times, transient ones only.",
    ),
    click.option(
        "--after", multiple=True, metavar="JOB", help="Start only after JOB has succeeded."
    ),
    click.option(
        "--after-any", multiple=True, metavar="JOB", help="Start only after JOB has ended."
    ),
    click.option("--dependency", metavar="afterok:JOB", help="The same as sbatch writes it."),
    click.option("-a", "--array", metavar="0-99%8", help="One job per index, at most 8 at a time."),
    click.option("--model", help="Model name; jobs of one model share their history."),
    click.option("--estimate", metavar="3h", help="Estimated run time."),
    click.option(
        "--hold/--no-hold", "held", default=None, help="Do not start before treadle release."
    ),
    click.option(
        "--wait-for-capacity/--no-wait-for-capacity",
        default=None,
        help="Queue the job even if it is too large for the cluster.",
    ),
)


def job_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def draft_of(context: click.Context, where: str = "") -> Draft:
    """The fields that the options set; `where` names their line in a script."""
    given = {
        name: value
        for name, value in context.params.items()
        if name in _NAMES and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    draft = Draft()
    prefix = f"{where}: " if where else ""
    for name, value in given.items():
        option = f"{prefix}--{name.replace('_', '-')}"
        if name in _FIELDS:
            target, parse = _FIELDS[name]
            draft.fields[target] = parse(value, option)
    if "dependency" in given:
        where = f"{prefix}--dependency"
        if not read_dependency(draft, given["dependency"], where):
            raise InvalidInputError(
                f"{where} is {given['dependency']}; expected afterok:JOB or afterany:JOB"
            )
    _variables(draft, given, prefix)
    return draft


def script_draft(command: click.Command, lines: tuple[Line, ...]) -> Draft:
    """The `#TREADLE` lines of a script, read by the command's own parser."""
    draft = Draft()
    for line in lines:
        if "--" in line.words:
            raise InvalidInputError(
                f"{line.where}: the script itself is the command; remove -- ..."
            )
        try:
            context = command.make_context("submit", list(line.words), resilient_parsing=False)
        except click.UsageError as error:
            problem = error.format_message().rstrip(".")
            raise InvalidInputError(f"{line.where}: {problem}") from None
        except click.exceptions.Exit:  # --help
            raise InvalidInputError(f"{line.where}: --help is only for the command line") from None
        with context:
            foreign = [
                name
                for name in context.params
                if name not in _NAMES
                and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            ]
            if foreign:
                raise InvalidInputError(
                    f"{line.where}: {foreign[0].replace('_', '-')} is only for the command line; "
                    "expected options that describe the job"
                )
            draft = draft.under(draft_of(context, line.where))
    return draft


def _variables(draft: Draft, given: Mapping[str, Any], prefix: str) -> None:
    for path in given.get("env_file", ()):
        draft.env.update(read_env_file(path, read_text(path)))
    for word in given.get("env", ()):
        name, equals, value = word.partition("=")
        where = f"{prefix}--env {name}"
        draft.env[variable_name(name, f"{prefix}--env")] = Given(value if equals else None, where)
    for word in given.get("secret", ()):
        if "=" in word:
            raise InvalidInputError(
                f"{prefix}--secret takes only the name of a variable, since other users can read "
                "a command line; export the value, or use --secret-file NAME=PATH"
            )
        name = variable_name(word, f"{prefix}--secret")
        draft.secrets[name] = Given(None, f"{prefix}--secret {word}")
    for word in given.get("secret_file", ()):
        name, equals, path = word.partition("=")
        if not equals:
            raise InvalidInputError(f"{prefix}--secret-file expects NAME=PATH, found {name}")
        where = f"{prefix}--secret-file"
        draft.secrets[variable_name(name, where)] = Given(_secret(path, where), where)


def _secret(path: str, where: str) -> str:
    """A file's text without its last line end."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInputError(f"{where}: {path} cannot be read: {reason}") from None
    if len(content) > SECRET_BYTES_MAX:
        raise InvalidInputError(f"{where}: {path} is larger than {SECRET_BYTES_MAX:,} bytes")
    return text.removesuffix("\n").removesuffix("\r")


def present_folder() -> str:
    """The current working directory."""
    try:
        return str(Path.cwd())
    except OSError:
        raise InvalidInputError("the current folder no longer exists; change to another") from None


def _kept(value: Any, where: str) -> Any:  # noqa: ARG001
    return value


def _jobs(words: tuple[str, ...], where: str) -> tuple[str, ...]:
    return tuple(job for word in words for job in values.identities(word, where))


def _name(text: str, where: str) -> str:
    try:
        return values.job_name(text, where)
    except InvalidInputError as error:
        hint = "sbatch's -n, the number of tasks, is --ranks here"
        raise InvalidInputError(f"{error} ({hint})") from None


def _devices(text: str, where: str) -> str:
    if text.startswith("after"):
        raise InvalidInputError(
            f"{where} is {text}; -d is --devices here, and sbatch's -d is --dependency"
        )
    return values.devices(text, where)


def _priority(text: str, where: str) -> int:
    try:
        return values.priority(text, where)
    except InvalidInputError as error:
        if text.strip().lstrip("+-").isdigit():
            raise
        raise InvalidInputError(f"{error} (there are no partitions: -p is --priority)") from None


def _workdir(text: str, where: str) -> str:
    return within(present_folder(), text, where)


def _retries(text: str, where: str) -> int:
    return values.count(text, where, most=100)


# option -> (field of JobRequest, how its text is read)
_FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "name": ("name", _name),
    "devices": ("devices", _devices),
    "device_type": ("device_type", values.device_type),
    "ranks": ("ranks", values.ranks),
    "workdir": ("workdir", _workdir),
    "tenant": ("tenant", _kept),
    "priority": ("priority", _priority),
    "guaranteed": ("guaranteed", _kept),
    "resumable": ("resumable", _kept),
    "time_limit": ("time_limit_s", values.duration),
    "memory": ("memory_gib", values.memory),
    "cpus": ("cpus", values.cpus),
    "gpu_memory": ("gpu_memory_gib", values.memory),
    "exclusive": ("exclusive", _kept),
    "warm": ("warm", _kept),
    "elastic": ("elastic", values.elastic),
    "grace": ("grace_s", values.duration),
    "stop_signal": ("stop_signal", values.stop_signal),
    "retries": ("retries", _retries),
    "after": ("after", _jobs),
    "after_any": ("after_any", _jobs),
    "array": ("array", array_text),
    "model": ("model", _kept),
    "estimate": ("estimate_s", values.duration),
    "held": ("held", _kept),
    "wait_for_capacity": ("wait_for_capacity", _kept),
}
_NAMES = {*_FIELDS, "dependency", "env", "env_file", "secret", "secret_file"}
