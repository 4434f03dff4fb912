"""`weft`: the group of verbs, and the one place where errors become exit codes.

Exit codes: 0 done, 1 something failed on our side or in the world, 2 bad input or usage,
130 interrupted.
"""

import os
import sys
from importlib import import_module

import click

from weft.core.errors import InvalidInputError, WeftError
from weft.version import __version__

# verb -> (module:command, one line); the module is imported only when the verb is used, which
# keeps `weft --help` fast.
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("weft.cli.demo:demo", "Compare policies on a generated Philly-like day."),
    "simulate": ("weft.cli.simulate:simulate", "Run a trace under one policy."),
    "compare": ("weft.cli.compare:compare", "Run a trace under several policies, with a report."),
    "sweep": ("weft.cli.sweep:sweep", "Run many simulations over all cores."),
    "explain": ("weft.cli.explain:explain", "Say why a job waits or holds what it holds."),
    "analyze": ("weft.cli.analyze:analyze", "Study waits, failures and savings, as Philly's did."),
    "trace": ("weft.cli.trace:trace", "Describe, convert and generate traces."),
    "replicate": ("weft.cli.replicate:replicate", "Run a paper's experiments again and compare."),
    "plan": ("weft.cli.plan:plan", "List a model's execution plans on some devices."),
    "classify": ("weft.cli.classify:classify", "Say why a job failed, from its logs."),
    "policies": ("weft.cli.policies:policies", "List the policies."),
    "completion": ("weft.cli.completion:completion", "Print shell completion for bash, zsh, fish."),
}


class LazyGroup(click.Group):
    """A group whose verbs are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
def cli() -> None:
    """Weft schedules deep-learning training: it knows how fast each job would run, and uses it."""


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 0  # The reader of a pipe went away (`weft ... | head`); nobody is left to tell.
    # Leave without taking a hundred thousand small values apart one by one.
    os._exit(code)


def run(words: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        code = cli.main(words, prog_name="weft", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "weft"
        click.echo(f"weft: {error.format_message().rstrip('.')} (see {path} --help)", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"weft: {error.format_message()}", err=True)
        return 2
    except InvalidInputError as error:
        click.echo(f"weft: {error}", err=True)
        return 2
    except WeftError as error:
        click.echo(f"weft: {error}", err=True)
        return 1
    except (click.Abort, KeyboardInterrupt):
        click.echo("weft: interrupted", err=True)
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return code if isinstance(code, int) else 0
