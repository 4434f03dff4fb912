"""The `treadle` command: its subcommands, and the one place where errors become exit codes.

Exit codes: 0 success, 1 failure, 2 bad input or usage, 102 no such job, 110 no daemon answers,
111 not allowed, 130 interrupted. Commands that wait for a job exit as the job did: its own code
from 1 to 99, 100 failed otherwise, 101 not ended, 103 cancelled, 104 time limit
(`live/exit_codes.py`).
"""

import contextlib
import errno
import os
import sys
from collections.abc import Mapping
from importlib import import_module

import click

from treadle.cli.show.wording import plain
from treadle.client.errors import UnreachableError
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import did_you_mean
from treadle.version import __version__
from treadle.wire.problems import LostOutputError, RequestError, UnknownNameError

# command -> (module:function, help line). A module is imported only when its command is used, which
# keeps `treadle --help` fast.
LIVE: dict[str, tuple[str, str]] = {
    "submit": (
        "treadle.cli.live.submit:submit",
        "Submit a job: a command, a script or a YAML file.",
    ),
    "run": ("treadle.cli.live.run:run", "Submit a job, print its output, exit as it does."),
    "shell": ("treadle.cli.live.shell:shell", "Open a shell on devices of your own."),
    "ps": ("treadle.cli.live.ps:ps", "List jobs."),
    "why": ("treadle.cli.live.why:why", "Show why a job is waiting."),
    "logs": ("treadle.cli.live.logs:logs", "Print or follow a job's output."),
    "describe": ("treadle.cli.live.describe:describe", "Show all details of a job."),
    "top": ("treadle.cli.live.top:top", "Watch devices and jobs live."),
    "cancel": ("treadle.cli.live.orders:cancel", "Cancel jobs."),
    "hold": ("treadle.cli.live.orders:hold", "Hold jobs."),
    "pause": ("treadle.cli.live.orders:pause", "Pause running jobs; nothing is lost."),
    "resume": ("treadle.cli.live.orders:resume", "Let paused jobs go on."),
    "release": ("treadle.cli.live.orders:release", "Release held jobs."),
    "priority": ("treadle.cli.live.orders:priority", "Change the priority of jobs."),
    "prune": ("treadle.cli.live.prune:prune", "Remove logs of ended jobs to make room."),
    "delete": ("treadle.cli.live.delete:delete", "Delete records and logs of ended jobs."),
    "update": ("treadle.cli.live.orders:update", "Change name, time limit, devices ... of jobs."),
    "wait": ("treadle.cli.live.wait:wait", "Wait until jobs have ended."),
    "nodes": ("treadle.cli.live.nodes:nodes", "Show devices and the jobs on them."),
    "device": ("treadle.cli.live.nodes:device", "Manage, avoid or unquarantine a device."),
    "dashboard": ("treadle.cli.live.dashboard:dashboard", "Open the web page."),
    "usage": ("treadle.cli.live.usage:usage", "Show device-hours by user and tenant."),
    "learned": ("treadle.cli.live.learned:learned", "Show what was learned of scripts."),
    "events": ("treadle.cli.live.events:events", "Show the event log."),
    "policy": ("treadle.cli.live.policy:policy", "Show or switch the policy."),
    "config": ("treadle.cli.live.config:config", "Show or change the rules for all users."),
    "token": ("treadle.cli.live.token:token", "List, make and revoke API tokens."),
    "login": ("treadle.cli.live.login:login", "Log in to a server on another machine."),
    "logout": ("treadle.cli.live.login:logout", "Forget a server that you logged in to."),
    "up": ("treadle.cli.live.up:up", "Start the daemon on this machine."),
    "down": ("treadle.cli.live.down:down", "Stop the daemon; jobs keep running."),
    "status": ("treadle.cli.live.status:status", "Show daemon status."),
    "doctor": ("treadle.cli.live.doctor:doctor", "Check state folder, store and their bond."),
    "journal": ("treadle.cli.live.exports:journal", "Export the journal, for treadle analyze."),
    "snapshot": ("treadle.cli.live.exports:snapshot", "Print the scheduler state as JSON."),
    "what-if": (
        "treadle.cli.live.what_if:what_if",
        "Simulate the queue under another policy or cluster.",
    ),
    "debug-bundle": ("treadle.cli.live.exports:debug_bundle", "Collect diagnostics into one file."),
    "completion": (
        "treadle.cli.completion:completion",
        "Print the completion script for bash, zsh or fish.",
    ),
}
STUDY: dict[str, tuple[str, str]] = {
    "demo": (
        "treadle.cli.study.demo:demo",
        "Train small models under Treadle and compare with FIFO.",
    ),
    "simulate": ("treadle.cli.study.simulate:simulate", "Simulate a trace under one policy."),
    "compare": (
        "treadle.cli.study.compare:compare",
        "Simulate a trace under several policies and report.",
    ),
    "league": (
        "treadle.cli.study.league:league",
        "Rank policies on a list of workloads, beside lower bounds.",
    ),
    "sweep": ("treadle.cli.study.sweep:sweep", "Run many simulations on all cores."),
    "explain": (
        "treadle.cli.study.explain:explain",
        "Explain a job's state at a moment of a simulation.",
    ),
    "analyze": (
        "treadle.cli.study.analyze:analyze",
        "Analyze waits, failures and savings of a run.",
    ),
    "trace": ("treadle.cli.study.trace:trace", "Describe, convert and generate traces."),
    "replicate": (
        "treadle.cli.study.replicate:replicate",
        "Rerun a paper's experiments and compare.",
    ),
    "profile": (
        "treadle.cli.study.profile:profile",
        "Measure what a training job needs, and at which sizes.",
    ),
    "classify": ("treadle.cli.study.classify:classify", "Classify a failure from a job's logs."),
    "policies": ("treadle.cli.study.policies:policies", "List the policies."),
}
VERBS = {**LIVE, **STUDY}


# HTTP status of a refusal -> exit code.
_REFUSED = {400: 2, 401: 111, 403: 111, 404: 102, 409: 2, 413: 2, 422: 2}

# Errors of the file or device that the output goes to.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    verbs: Mapping[str, tuple[str, str]] = VERBS
    sections: tuple[tuple[str, Mapping[str, tuple[str, str]]], ...] = (
        ("Commands", LIVE),
        ("Commands for studies, also as treadle study COMMAND", STUDY),
    )

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.verbs[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        known = {*self.verbs, *self.commands}
        if word not in known and not word.startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(word, known)
            raise click.UsageError(f"there is no command {word!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, verbs in self.sections:
            with formatter.section(title):
                formatter.write_dl([(verb, line) for verb, (_, line) in verbs.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="treadle", message="%(prog)s %(version)s")
def cli() -> None:
    """Treadle schedules deep-learning training by how fast each job would run."""


class StudyGroup(LazyGroup):
    """The verbs that need no daemon."""

    verbs = STUDY
    sections = (("Commands", STUDY),)


@cli.group("study", cls=StudyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def study() -> None:
    """Simulations, traces and analyses; these commands need no daemon."""


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 0  # The reader of the pipe has closed it (`treadle ... | head`).
    except OSError as error:
        if error.errno not in _FULL:
            raise
        code = _unwritten(error)
    # Exit without freeing a hundred thousand small values one by one.
    os._exit(code)


def _unwritten(error: OSError) -> int:
    """Report that the output could not be written, if standard error still works."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"treadle: the output cannot be written: {error.strerror or error}\n")
        sys.stderr.flush()
    return 1


def run(words: list[str], session: object = None) -> int:
    """Run one command in the given session, or in one for this terminal; returns the exit code."""
    try:
        code = cli.main(words, prog_name="treadle", standalone_mode=False, obj=session)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "treadle"
        problem = _safe(error.format_message().rstrip("."))
        click.echo(f"treadle: {problem} (see {path} --help)", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"treadle: {_safe(error.format_message())}", err=True)
        return 2
    except TreadleError as error:
        click.echo(f"treadle: {_safe(str(error))}", err=True)
        if isinstance(error, RequestError) and error.hint:
            click.echo(f"  {plain(error.hint)}", err=True)
        return _code(error)
    except (click.Abort, KeyboardInterrupt):
        click.echo("treadle: interrupted", err=True)
        return 130
    except UnicodeEncodeError:  # A word of the command line that is sent or printed.
        click.echo("treadle: an argument is not UTF-8 text", err=True)
        return 2
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return code if isinstance(code, int) else 0


def _safe(sentence: str) -> str:
    """A message without control sequences, which names in it may contain."""
    return "\n".join(plain(line) for line in sentence.split("\n"))


def _code(error: TreadleError) -> int:
    """The exit code for an error answer, or for no answer."""
    if isinstance(error, UnreachableError):
        return 110
    if isinstance(error, InvalidInputError | UnknownNameError):
        return 2
    if isinstance(error, LostOutputError):
        return 1  # Nothing is wrong with what was asked.
    return _REFUSED.get(error.status, 1) if isinstance(error, RequestError) else 1
