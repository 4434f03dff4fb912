"""`treadle submit`: submit a command, a script or a YAML file; starts the daemon if none runs.

Options override a script's lines, which override a file's fields. `exit_codes.py` lists the exit
codes with --wait and --attach.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from treadle.cli.live.exit_codes import FAILED, never_text
from treadle.cli.live.job_options import draft_of, job_options, present_folder, script_draft
from treadle.cli.live.job_selection import all_jobs, job_or_array
from treadle.cli.live.log_following import Follower, Printer
from treadle.cli.live.session import Session, echo_json, json_option, note, remote, session
from treadle.cli.live.wait import until_ended
from treadle.cli.live.why import estimate_text, length_text, place_text
from treadle.cli.show.table import pairs
from treadle.cli.show.wording import command_text, plain
from treadle.client.errors import UnreachableError
from treadle.client.gitstate import git_state
from treadle.client.jobfile import Draft, Given, complete, read_head, read_job_file, read_text
from treadle.client.jobfile_script import read_script
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.wording import gib_text, is_at_once, named_jobs, several, sizes
from treadle.wire.job_fields import duration_text
from treadle.wire.jobs import (
    DryRun,
    Estimate,
    JobRequest,
    StartEstimate,
    State,
    Submitted,
    Why,
)
from treadle.wire.problems import TooLargeError, UnsettledError

_COMMAND = "treadle.command"
BESIDE_MAX = 4  # jobs that are named
SETTLE_EVERY_S = 0.5
SETTLE_S_MAX = 60.0  # for so long a submission waits for a store that cannot be written


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Submitted):
    """What --json prints: the submission, and what was known of its first job right afterwards."""

    state: State | None = None  # None: the daemon did not answer
    start: StartEstimate | None = None  # while it waits
    length: Estimate | None = None


class SubmitCommand(click.Command):
    """A command line that ends at `--`; the rest is the job's command and is not parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, after = args, []
        if "--" in args:
            place = args.index("--")
            before, after = args[:place], args[place + 1 :]
        ctx.meta[_COMMAND] = tuple(after)
        try:
            return super().parse_args(ctx, before)
        except click.UsageError as error:
            if "--" not in args and not isinstance(error, click.MissingParameter):
                problem = error.format_message().rstrip(".")
                raise click.UsageError(f"{problem}; the job's command goes after --", ctx) from None
            raise


@click.command(cls=SubmitCommand, options_metavar="[OPTIONS]")
@click.argument("source", required=False, metavar="[FILE|SCRIPT] [-- COMMAND ...]")
@click.option("-f", "--file", metavar="FILE", help="YAML file with job fields.")
@job_options
@click.option("--dry-run", is_flag=True, help="Show what would happen; submit nothing.")
@click.option("--attach", is_flag=True, help="Follow the output; Ctrl-C detaches.")
@click.option("--wait", "wait_", is_flag=True, help="Wait until the job has ended.")
@click.option("--no-git", is_flag=True, help="Do not record the git state of the folder.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the job id.")
@json_option
@click.pass_context
def submit(
    context: click.Context,
    /,
    source: str | None,
    file: str | None,
    dry_run: bool,
    attach: bool,
    wait_: bool,
    no_git: bool,
    quiet: bool,
    as_json: bool,
    **_options: Any,
) -> int:
    """Submit a job: a YAML file, a script with #TREADLE lines, or a command after --.

    \b
    treadle submit --devices 1..4 --name resnet -- python train.py --epochs 90
    treadle submit train.yaml --priority high
    treadle submit train.sh -- --lr 0.1
    """
    here = session()
    request = job_request(context, source, file, git=not no_git)
    request = _resolved(here, request)
    if dry_run:
        answer = here.client.dry_run(request)
        if as_json:
            echo_json(answer)
        else:
            click.echo(dry_text(answer, request, here.width))
        return 2 if answer.never_fits and not request.wait_for_capacity else 0
    made = _send(here, request)
    if as_json:
        now = _why(here, made)
        start, length = (None, None) if now is None else (now.estimate, now.length)
        echo_json(
            Answer(
                **{each.name: getattr(made, each.name) for each in fields(made)},
                state=None if now is None else now.state,
                start=start,
                length=length,
            )
        )
    elif quiet:
        click.echo(made.id)
    else:
        now = _why(here, made)
        click.echo(made_text(made, request, now))
        if (attach or wait_) and now is not None and now.never:
            return FAILED  # The reason has been printed.
    if attach:
        return _attach(here, made)
    return _wait(here, made, quiet=quiet or as_json) if wait_ else 0


def send(here: Session, request: JobRequest) -> Submitted:
    """Submit a request; starts the daemon if none runs."""
    return _send(here, _resolved(here, request))


def _resolved(here: Session, request: JobRequest) -> JobRequest:
    """The request with ids instead of the names of jobs that it starts after."""
    _reach(here)
    return replace(
        request,
        after=tuple(job_or_array(here, word) for word in request.after),
        after_any=tuple(job_or_array(here, word) for word in request.after_any),
    )


def job_request(
    context: click.Context, source: str | None, file: str | None, *, git: bool
) -> JobRequest:
    """The request: a file's fields, overridden by a script's lines, overridden by options."""
    command: tuple[str, ...] = context.meta[_COMMAND]
    draft = Draft()
    if file is not None:
        draft = read_job_file(file, read_text(file))
    if source is not None:
        draft = draft.under(_source(context, source))
    own = draft.fields.get("command", ())
    draft = draft.under(draft_of(context))
    is_script = source is not None and not _is_yaml(source)
    if command:
        draft.fields["command"] = (*own, *command) if is_script else command
    for line in draft.notes:
        note(line)
    request = complete(draft, os.environ, workdir=present_folder())
    if not remote() and not os.path.isdir(request.workdir):  # noqa: PTH112  (it never raises)
        raise InvalidInputError(f"workdir {plain(request.workdir)} is not a folder")
    if is_script:  # It is found in a copy of the folder, too.
        script = (_from(request.workdir, word) for word in own)
        request = replace(request, command=(*script, *command))
    return replace(request, code=git_state(request.workdir) if git else None)


def _from(folder: str, word: str) -> str:
    """A path in the folder as it is called from there; other words as they are."""
    path = Path(word)
    return f"./{path.relative_to(folder)}" if path.is_relative_to(folder) else word


def _is_yaml(path: str) -> bool:
    return path.endswith((".yaml", ".yml"))


def _source(context: click.Context, source: str) -> Draft:
    if os.path.isdir(source):  # noqa: PTH112  (it never raises)
        raise InvalidInputError(
            f"{plain(source)} is a folder; expected a script or a job file, or a command after --"
        )
    if not os.path.isfile(source):  # noqa: PTH113  (it never raises)
        raise InvalidInputError(
            f"there is no file {plain(source)}; a command goes after --, as in treadle submit -- "
            f"{plain(source)}"
        )
    if _is_yaml(source):
        return read_job_file(source, read_text(source))
    script = read_script(source, read_head(source))
    draft = script.slurm.under(script_draft(context.command, script.treadle))
    draft.fields["command"] = script.command
    draft.fields.setdefault("name", Path(source).stem[:128])
    if script.for_slurm:
        draft.fields["slurm"] = True
        # sbatch starts the script once, whatever it asks for.
        draft.fields.setdefault("ranks", "one")
        # Only the client knows it: with --chdir the job runs elsewhere.
        draft.env.setdefault("SLURM_SUBMIT_DIR", Given(present_folder(), source))
    return draft


def _reach(here: Session) -> None:
    """Make sure that a daemon runs: start one if none does and no server was named."""
    try:
        here.client.status()
    except UnreachableError:
        if remote():
            raise
        from treadle.cli.live.daemon_start import start_as_last  # noqa: PLC0415

        found = start_as_last(here)
        devices = several(found.devices, "device")
        note(f"no daemon was running; started one (pid {found.pid}, {devices})")


def _send(here: Session, request: JobRequest) -> Submitted:
    try:
        return _settled(here, request)
    except TooLargeError:
        if request.code is None or not request.code.diff:
            raise
        note("the changes in the folder are too large to record; submitting without them")
        return _settled(here, replace(request, code=replace(request.code, diff="", cut=True)))


def _settled(here: Session, request: JobRequest) -> Submitted:
    """Submit it, and wait while the daemon has it in memory only: then it is queued once, or not.

    Every try has the same key, so that the daemon knows it for the same submission, and a daemon
    that was restarted and has forgotten it takes it anew.
    """
    key, begun_s, noted = uuid4().hex, here.stopwatch(), False
    while True:
        try:
            made = here.client.submit(request, key=key)
            return replace(made, repeated=False) if noted else made
        except UnsettledError as error:
            if not noted:
                note(f"not queued yet: {plain(str(error))}; waiting")
                noted = True
            if here.stopwatch() - begun_s > SETTLE_S_MAX:
                raise
        here.pause(SETTLE_EVERY_S)


def made_text(made: Submitted, request: JobRequest, answer: Why | None) -> str:
    """The result of a submission, and useful next commands."""
    identity = plain(made.id)
    name = f" ({plain(request.name)})" if request.name else ""
    what = f"job {identity}{name}"
    if len(made.jobs) > 1:
        what = f"array {identity}{name} with {several(len(made.jobs), 'job')}"
    done = "was submitted before" if made.repeated else "submitted"
    lines = [f"{what} {done}: {_when(made, answer)}"]
    first = plain(made.jobs[0]) if made.jobs else identity
    next_up = [
        (f"treadle logs -f {first}", "follow its output"),
        (f"treadle why {first}", "why it waits or runs"),
        (f"treadle cancel {identity}", "stop it"),
    ]
    if answer is not None and answer.never:
        next_up = [(f"treadle cancel {identity}", "remove it")]
    else:
        if answer is not None and answer.length is not None:
            lines.append(f"  length: {length_text(answer.length)}")
        lines += [f"  note: {plain(line)}" for line in made.notes]
    width = max(len(words) for words, _ in next_up)
    return "\n".join([*lines, *(f"  {words.ljust(width)}  {text}" for words, text in next_up)])


def _why(here: Session, made: Submitted) -> Why | None:
    try:
        return here.client.why(made.jobs[0] if made.jobs else made.id)
    except TreadleError:
        return None


def _when(made: Submitted, answer: Why | None) -> str:
    if answer is None:
        return "saved"  # It is, even if the question for its reason failed.
    if answer.never:
        return f"it {never_text(answer)}"
    if answer.code == "held":
        return f"held until treadle release {plain(made.id)}"
    if answer.state not in (State.PENDING, State.HELD):
        others = [job for job in answer.beside if job not in made.jobs]
        return "starting now" + (f", beside {_named(others)}" if others else "")
    start = answer.estimate
    if start is None or start.earliest_s is None:
        return f"waiting: {plain(answer.sentence)}" if answer.sentence else "waiting"
    when = estimate_text(replace(start, sentence=""))
    if answer.code == "dependency":  # "starts after job 3 (running)"
        return f"{plain(answer.sentence)}, {when}"
    place = place_text(answer)
    return f"starts {when}" + (f", {place} in the queue" if place else "")


def _named(jobs: Sequence[str]) -> str:
    return plain(named_jobs(jobs, BESIDE_MAX))


def dry_text(answer: DryRun, request: JobRequest, width: int) -> str:
    """What would happen to the job."""
    if answer.never_fits and request.wait_for_capacity:
        head = "would wait until it fits"
    elif answer.never_fits:
        head = "could never run here"
    elif answer.starts_now:
        head = "would start now" + (f", beside {_named(answer.beside)}" if answer.beside else "")
    elif answer.estimate is not None and is_at_once(answer.estimate.latest_s):
        head = "would start once other jobs have made way"
    else:
        head = "would wait"
    limit = "" if request.time_limit_s is None else duration_text(request.time_limit_s)
    lines = [
        ("because", plain(answer.never_fits or answer.because)),
        ("jobs", f"{answer.jobs:,}" if answer.jobs > 1 else ""),
        ("devices", sizes(answer.sizes)),
        ("device type", plain(request.device_type)),
        ("start", "" if answer.starts_now else estimate_text(answer.estimate)),
        ("length", length_text(answer.length)),
        ("command", command_text(request.command)),
        ("workdir", plain(request.workdir)),
        ("limit", limit),
        ("memory", "" if request.memory_gib is None else gib_text(request.memory_gib)),
        ("cpus", "" if request.cpus is None else f"{request.cpus:g}"),
        ("GPU memory", "" if request.gpu_memory_gib is None else gib_text(request.gpu_memory_gib)),
        ("sharing", "none: exclusive" if request.exclusive else ""),
        ("secrets", ", ".join(sorted(request.secrets))),
        ("note", "\n".join(plain(line) for line in answer.notes)),
    ]
    return f"{head}; nothing was submitted\n{pairs(lines, width=width)}"


def _attach(here: Session, made: Submitted) -> int:
    identity = made.jobs[0] if made.jobs else made.id
    if len(made.jobs) > 1:
        note(f"following {plain(identity)}, the first of {len(made.jobs)} jobs")
    printer = Printer(raw=not here.terminal)
    return Follower(here, identity, printer).follow()


def _wait(here: Session, made: Submitted, *, quiet: bool) -> int:
    if len(made.jobs) > 1:
        views = list(all_jobs(here.client, array=made.id, ended=True))
    else:
        views = [here.client.job(made.id).job]
    found = until_ended(here, views)
    for view in found.ended:
        if view.id in found.never:
            note(found.sentence(view))
        elif not quiet:
            click.echo(found.sentence(view))
    return found.code
