"""Makes the parts of a live controller and connects them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from treadle.control.api.context import Context
from treadle.control.api.lab_rules import LabRules
from treadle.control.api.tokens import job_token
from treadle.control.jobs import (
    ADDRESS,
    COMPANY_RECORD,
    ENGINE,
    LOST_NODES,
    NODES,
    Diffs,
    EndCompletion,
    Gates,
    JobTable,
    Launcher,
    LostNodes,
    Restored,
    UnwrittenCancels,
    holding,
    nodes_at_start,
    nodes_of,
    refuse_other_engine,
    restore,
)
from treadle.control.learning import PROFILES_MAX, JobLearner, ProgressWatch
from treadle.control.loop import (
    Commit,
    Committed,
    Condition,
    EngineLink,
    Inbox,
    LiveBelief,
    MonotonicClock,
    PolicyInCharge,
    Published,
    Stamp,
    StoreReads,
    belief_on,
    wall,
)
from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.core.ports import Clock, Engine
from treadle.core.scheduler import Scheduler
from treadle.engines.registry import EngineContext, EngineFactory, EngineOptions
from treadle.failures.failure_history import FailureHistory, Patience
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import RuleTable, shipped
from treadle.models.company.record import CompanyRecord
from treadle.policies.live.naming import DEFAULT, PLACEMENT, with_setting
from treadle.store.bond import folder_identity
from treadle.store.seal import Seal
from treadle.store.store import Store

REMEMBERED_MAX = 500  # jobs, users and nodes that have failed; written at every failure


class Wanted(NamedTuple):
    """What `treadle up` asks for; empty: as it was last time."""

    policy: str = ""
    placement: str = ""
    tries: str = ""  # on or off: whether jobs of which nothing is known are tried beside others


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """How a controller runs on this machine."""

    root: Path
    engine: EngineFactory
    options: EngineOptions = field(default_factory=EngineOptions)
    wanted: Wanted = field(default_factory=Wanted)
    rules: RuleTable = field(default_factory=shipped)
    patience: Patience = field(default_factory=Patience)
    admins: frozenset[str] = frozenset()
    address: str = ""  # where jobs report
    socket: str = ""
    url: str = ""
    engine_name: str = "local"
    keep_logs: str = ""  # wire/retention.py Keep; empty: as it was last time
    keep_records: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a service is made of."""

    engine: Mapping[str, str]  # settings of the store that say what runs its jobs
    context: Context
    link: EngineLink
    progress: ProgressWatch
    restored: Restored
    token_key: bytes


def _engine(store: Store, settings: LiveSettings, link: EngineLink, clock: Clock) -> Engine:
    # Unknown names are refused before a cluster is touched: its nodes would be given agents.
    anywhere = belief_on(Cluster((Node("any", 1),)))
    PolicyInCharge().prepare(*_policy_names(settings, store.settings()), anywhere)
    found = folder_identity(settings.root)
    return settings.engine(
        EngineContext(
            controls=link,
            clock=clock,
            root=settings.root,
            options=settings.options,
            identity="" if found is None else found.id,
            holding=holding(store),
        )
    )


def assemble(store: Store, settings: LiveSettings, published: Published) -> Parts:
    """Everything, as the last controller left it, or fresh."""
    settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = store.settings()
    refuse_other_engine(store, settings.engine_name)
    seal = Seal.open(settings.root / "secrets.key")
    clock = MonotonicClock(_run_clock(kept.get("clock")))
    inbox = Inbox()
    link = EngineLink(inbox)
    engine = _engine(store, settings, link, clock)
    moved = bool(settings.options.lost_cluster)
    cluster = Cluster(nodes_at_start(store, engine.nodes(), moved=moved))
    remembered = CompanyRecord.restored(json.loads(kept.get(COMPANY_RECORD) or "{}"))
    belief = belief_on(Cluster(engine.nodes()), remembered)
    rules = LabRules.restored(kept)
    charge, condition = PolicyInCharge(settings=rules.lab.settings()), Condition()
    state = _state(store, settings, charge, belief, cluster, _lost_nodes(kept, engine.nodes()))
    scheduler, jobs, learner = state.scheduler, state.jobs, state.learner
    restored = restore(store, jobs, scheduler, learner, state.gates, clock.now(), wall())
    ends = EndCompletion(
        jobs,
        learner,
        scheduler,
        engine=engine,
        rules=settings.rules,
        clock=clock,
        wall=wall,
    )
    commit = Commit(state, store, clock, inbox, ends=ends, condition=condition, published=published)
    commit.closed = dict(restored.closed)
    token_key = seal.derive("tokens of jobs")
    token, address = partial(job_token, token_key), settings.address
    link.launcher = Launcher(
        jobs,
        scheduler,
        belief,
        seal=seal,
        ends=ends,
        pending_end=inbox.pending_end,
        token=token,
        address=address,
    )
    context = Context(
        scheduler=scheduler,
        belief=belief,
        jobs=jobs,
        gates=state.gates,
        learner=learner,
        charge=charge,
        rules=rules,
        condition=condition,
        commit=commit,
        inbox=inbox,
        engine=engine,
        clock=clock,
        store=store,
        reads=StoreReads(store, condition),
        seal=seal,
        diffs=Diffs(settings.root / "code"),
        lost_nodes=state.lost,
        cancels=UnwrittenCancels(settings.root),
    )
    return Parts(
        engine={ENGINE: settings.engine_name, ADDRESS: settings.options.address},
        context=context,
        link=link,
        progress=_progress(context),
        restored=restored,
        token_key=token_key,
    )


def _policy_names(settings: LiveSettings, kept: Mapping[str, str]) -> tuple[str, str]:
    """The policy and the placement that were asked for, or that the store remembers."""
    wanted = settings.wanted
    policy = wanted.policy or kept.get("policy") or DEFAULT
    policy = with_setting(policy, "tries", wanted.tries) if wanted.tries else policy
    return policy, wanted.placement or kept.get("placement") or PLACEMENT


def _state(
    store: Store,
    settings: LiveSettings,
    charge: PolicyInCharge,
    belief: LiveBelief,
    cluster: Cluster,
    lost: LostNodes,
) -> Committed:
    """A scheduler under the policy that was asked for, and empty tables."""
    kept = store.settings()
    policy = charge.make(*_policy_names(settings, kept), belief)
    failures = FailureHistory(limit=REMEMBERED_MAX)
    if "failures" in kept:
        failures.restore(json.loads(kept["failures"]))
    retry = Classified(live_verdicts(settings.rules), settings.patience, failures)
    jobs = JobTable(next_number=store.next_number())
    return Committed(
        scheduler=Scheduler(policy, cluster, retry=retry),
        jobs=jobs,
        gates=Gates(jobs.state_of),
        learner=JobLearner(reversed(store.profiles(PROFILES_MAX)), belief.plans),
        failures=failures,
        lost=lost,
    )


def _lost_nodes(kept: Mapping[str, str], nodes: Sequence[Node]) -> LostNodes:
    """As the last controller left them; what it had and is not there now is about to be told."""
    lost = LostNodes(nodes)
    lost.restore(kept.get(LOST_NODES) or "[]")
    lost.expect(nodes_of(kept.get(NODES) or "[]"))
    return lost


def _progress(context: Context) -> ProgressWatch:
    return ProgressWatch(
        context.learner,
        context.scheduler,
        context.belief,
        context.clock,
        engine=context.engine,
        attempt=context.jobs.newest_attempt,
        spec=context.inbox.newest_spec,
        tell=context.inbox.tell,
    )


def _run_clock(text: str | None) -> float:
    """What the run's clock shows now: what it showed then, and the time since."""
    if not text:
        return 0.0
    try:
        run_s, boot_s, boot_id, wall_s = text.split(" ")
        stamp = Stamp(float(run_s), float(boot_s), boot_id, float(wall_s))
    except ValueError:
        raise InvalidInputError(f"the store's clock is {text[:80]!r}; it is damaged") from None
    return stamp.run_s + stamp.passed_s()
