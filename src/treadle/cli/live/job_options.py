"""The options that describe a job: the same on the command line and in a script's `#TREADLE`
lines."""

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
from treadle.client.jobfile_script import Line
from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values

Command = TypeVar("Command", bound=Callable[..., Any])
SECRET_BYTES_MAX = 65_536

_OPTIONS = (
    click.option("-n", "--name", help="A name, to find it by."),
    click.option(
        "-d", "--devices", metavar="4|2..8|1,2,4", help="How many; several: Treadle chooses."
    ),
    click.option("--ranks", metavar="auto|device|one", help="How many processes to start."),
    click.option("-C", "--workdir", metavar="DIR", help="Where to run; here if not said."),
    click.option(
        "-e", "--env", multiple=True, metavar="A=1|A", help="A variable; A: as it is here."
    ),
    click.option("--env-file", multiple=True, metavar="FILE", help="Lines A=1, or A."),
    click.option(
        "--secret", multiple=True, metavar="NAME", help="A variable of here, never shown."
    ),
    click.option("--secret-file", multiple=True, metavar="NAME=PATH", help="The same from a file."),
    click.option("--tenant", help="The team it counts for."),
    click.option("-p", "--priority", metavar="N|low|normal|high|urgent"),
    click.option("--guaranteed/--opportunistic", default=None, help="May it have to give way?"),
    click.option(
        "--resumable/--not-resumable", default=None, help="Can it go on where it stopped?"
    ),
    click.option("-t", "--time-limit", metavar="12h", help="Of running; 90s, 45m, 2d, 1-12:00:00."),
    click.option("--grace", metavar="30s", help="Between the stop signal and the end."),
    click.option("--stop-signal", metavar="SIGTERM"),
    click.option(
        "--retries", metavar="N", help="At most; what would fail again is not tried again."
    ),
    click.option("--after", multiple=True, metavar="JOB", help="Only when JOB has ended well."),
    click.option("--after-any", multiple=True, metavar="JOB", help="Only when JOB has ended."),
    click.option("-a", "--array", metavar="0-99%8", help="A job for each number, 8 at once."),
    click.option("--model", help="The network's name: jobs of one name are taken to train alike."),
    click.option("--estimate", metavar="3h", help="How long it takes alone."),
    click.option("--hold/--no-hold", "held", default=None, help="Wait for treadle release."),
)


def job_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def draft_of(context: click.Context, where: str = "") -> Draft:
    """What the options say; `where` names the line of a script that they stand in."""
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
    _variables(draft, given, prefix)
    return draft


def script_draft(command: click.Command, lines: tuple[Line, ...]) -> Draft:
    """The `#TREADLE` lines of a script, read by the command's own parser."""
    draft = Draft()
    for line in lines:
        if "--" in line.words:
            raise InvalidInputError(f"{line.where}: the command is this script; leave out -- ...")
        try:
            context = command.make_context("submit", list(line.words), resilient_parsing=False)
        except click.UsageError as error:
            problem = error.format_message().rstrip(".")
            raise InvalidInputError(f"{line.where}: {problem}") from None
        except click.exceptions.Exit:  # --help
            raise InvalidInputError(f"{line.where}: --help is for the command line") from None
        with context:
            foreign = [
                name
                for name in context.params
                if name not in _NAMES
                and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            ]
            if foreign:
                raise InvalidInputError(
                    f"{line.where}: {foreign[0].replace('_', '-')} is for the command line; "
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
                f"{prefix}--secret takes only the name of a variable, as others can read a command "
                "line; export the value, or use --secret-file NAME=PATH"
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
    """A file's text, without the line end that editors leave."""
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
    """Where the command was typed."""
    try:
        return str(Path.cwd())
    except OSError:
        raise InvalidInputError("the present folder is gone; change to another") from None


def _kept(value: Any, where: str) -> Any:  # noqa: ARG001
    return value


def _jobs(words: tuple[str, ...], where: str) -> tuple[str, ...]:
    return tuple(job for word in words for job in values.identities(word, where))


def _workdir(text: str, where: str) -> str:
    return within(present_folder(), text, where)


def _retries(text: str, where: str) -> int:
    return values.count(text, where, most=100)


# option -> (field of JobRequest, how its text is read)
_FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "name": ("name", _kept),
    "devices": ("devices", values.devices),
    "ranks": ("ranks", values.ranks),
    "workdir": ("workdir", _workdir),
    "tenant": ("tenant", _kept),
    "priority": ("priority", values.priority),
    "guaranteed": ("guaranteed", _kept),
    "resumable": ("resumable", _kept),
    "time_limit": ("time_limit_s", values.duration),
    "grace": ("grace_s", values.duration),
    "stop_signal": ("stop_signal", values.stop_signal),
    "retries": ("retries", _retries),
    "after": ("after", _jobs),
    "after_any": ("after_any", _jobs),
    "array": ("array", array_text),
    "model": ("model", _kept),
    "estimate": ("estimate_s", values.duration),
    "held": ("held", _kept),
}
_NAMES = {*_FIELDS, "env", "env_file", "secret", "secret_file"}
