"""The options that describe a job, on the command line and in a script's `#TREADLE` lines."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from treadle.client.jobfile import (
    Draft,
    Given,
    read_env_file,
    read_text,
    variable_name,
    within,
)
from treadle.client.jobfile_script import Line, read_dependency
from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values
from treadle.wire.job_fields import BY_NAME, FIELDS, Field

Command = TypeVar("Command", bound=Callable[..., Any])
SECRET_BYTES_MAX = 65_536

_OTHERS = {  # options that are no field's own, behind the field that they follow
    "workdir": (
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
    ),
    "after_any": (
        click.option("--dependency", metavar="afterok:JOB", help="The same as sbatch writes it."),
    ),
}
_NAMES = {*BY_NAME, "dependency", "env", "env_file", "secret", "secret_file"}


def job_options(command: Command) -> Command:
    for field in reversed(FIELDS):
        for other in reversed(_OTHERS.get(field.name, ())):
            command = other(command)
        option = click.option(
            field.name,
            *field.options.split(),
            multiple=field.kind.repeated,
            metavar=field.metavar or None,
            help=field.help,
        )
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
        if name in BY_NAME:
            field = BY_NAME[name]
            draft.fields[field.of_request] = _read(field, value, f"{prefix}{field.option}")
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


def _read(field: Field, value: Any, where: str) -> Any:
    if isinstance(value, bool):
        return value
    text = ",".join(value) if field.kind.repeated else value
    return _HERE.get(field.name, field.kind.read)(text, where)


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


# What the command line reads in its own way.
_HERE: dict[str, Callable[[str, str], Any]] = {
    "name": _name,
    "devices": _devices,
    "priority": _priority,
    "workdir": _workdir,
}
