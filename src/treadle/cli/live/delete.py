"""`treadle delete`: remove the records and output of ended jobs."""

import click

from treadle.cli.live.job_selection import jobs_argument, own_jobs, yes_option
from treadle.cli.live.session import Session, echo_json, json_option, note, session
from treadle.cli.show.wording import plain
from treadle.core.wording import several
from treadle.wire.job_orders import Verb, refusal_of
from treadle.wire.notation import is_identity
from treadle.wire.problems import NotFoundError, RequestError


@click.command()
@jobs_argument
@yes_option
@json_option
def delete(jobs: tuple[str, ...], yes: bool, as_json: bool) -> int:
    """Delete ended JOBS: their records, logs and events. Checkpoints stay."""
    here = session()
    ids = [identity for word in jobs for identity in _meant(here, word)]
    if here.interactive and not yes and not click.confirm(f"delete {several(len(ids), 'job')}?"):
        note("nothing was deleted")
        return 1
    outcomes = here.client.order(Verb.DELETE, ids)
    if as_json:
        echo_json(outcomes)
    refused: list[RequestError] = []
    for outcome in outcomes:
        if outcome.error:
            refused.append(refusal_of(outcome))
        elif not as_json:
            click.echo(f"{_named(outcome.id, len(outcome.jobs))} deleted")
    for error in refused[1:]:
        note(plain(str(error)))
    if refused:
        raise refused[0]
    return 0


def _meant(here: Session, word: str) -> list[str]:
    """The ids of a word: itself, or those of the caller's ended jobs of that name."""
    if is_identity(word):
        return [word]
    found = [view.id for view in own_jobs(here, word, ended=True) if view.state.ended]
    if not found:
        raise NotFoundError(f"no ended job has the id or name {plain(word)}")
    return found


def _named(identity: str, count: int) -> str:
    return f"job {plain(identity)}" if count == 1 else f"{several(count, 'job')} of {identity}"
