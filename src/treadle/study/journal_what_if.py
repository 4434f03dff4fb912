"""A recorded run beside the same jobs under another policy, in the shape of a live what-if."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.core.wording import share
from treadle.journal.journal import read
from treadle.study.own_orders import CLOSE, error
from treadle.study.snapshot_what_if import compared_note, outcome, unended_note
from treadle.study.whatif import Lived, observed, recorded, simulated, with_own_orders
from treadle.traces.clusters import cluster as cluster_of
from treadle.wire.what_if import WhatIf, WhatIfJob, WhatIfRequest

RECORDED = "the recorded machines"


def journal_what_if(path: Path, asked: WhatIfRequest) -> WhatIf:
    """The jobs that finished, as recorded and under the other policy."""
    journal = read(path)
    if asked.without:
        raise InvalidInputError("--without needs a snapshot; a journal is simulated whole")
    policy = asked.policy or str(journal.opened.settings.get("policy") or "")
    if not policy:
        raise InvalidInputError(f"{path} does not say its policy; name one with --policy")
    before = recorded(journal)
    if not before:
        raise InvalidInputError(f"{path} has no job that finished")
    check = error(_completions(before), _completions(with_own_orders(journal)))
    if asked.cluster:
        opened = replace(journal.opened, cluster=cluster_of(asked.cluster))
        journal = replace(journal, opened=opened)
    after = simulated(journal, policy)
    seen, both = observed(journal), before.keys() & after.keys()
    here = str(journal.opened.settings.get("policy") or "as recorded")
    note = (
        "the run's own orders, simulated, do not lead to its own times: do not rely on this"
        if check > CLOSE
        else f"simulated with its own orders, the run's times are off by {share(check)}"
    )
    jobs = tuple(
        WhatIfJob(
            job=job,
            name="",
            user=seen[job].spec.owner,
            now_s=round(lived.completion_s, 3),
            then_s=round(after[job].completion_s, 3) if job in after else None,
        )
        for job, lived in before.items()
    )
    ends, machines = _completions(after), asked.cluster or RECORDED
    return WhatIf(
        at=0.0,
        now=outcome(here, RECORDED, _completions(before), both, len(before), from_now=False),
        then=outcome(policy, machines, ends, both, len(before), from_now=False),
        jobs=jobs,
        spells_now=(),
        spells_then=(),
        notes=(
            *compared_note(len(both), len(before), len(after)),
            *unended_note(jobs),
            "seconds count from each job's submission",
            note,
        ),
    )


def _completions(lived: Mapping[JobId, Lived]) -> dict[JobId, float]:
    return {job: each.completion_s for job, each in lived.items()}
