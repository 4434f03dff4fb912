"""What users order: each command becomes facts, which are on disk before it is answered."""

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from treadle.control.api.accounts import may_touch, person
from treadle.control.api.bulk_orders import DeleteEnded, Orders, check_priority
from treadle.control.api.context import Context
from treadle.control.api.estimates import forecast
from treadle.control.api.job_progress import length_of
from treadle.control.api.known_keys import KnownKeys
from treadle.control.api.lab_rules import CONFIG
from treadle.control.api.nodes_away import away, whole_cluster
from treadle.control.api.queries import Queries
from treadle.control.api.queue_order import position, sharers
from treadle.control.api.sentences import Said
from treadle.control.api.views import enforced_limits, job_view
from treadle.control.jobs import (
    DEPENDENCY,
    USER,
    Fact,
    JobRecord,
    Person,
    Submission,
    accepted,
    check_fits,
    check_nodes,
    checked,
    files_notes,
    kept_to_gpus,
    not_enforced,
    prepare,
    stored_states,
    text_bytes,
    without_quota,
)
from treadle.control.loop import Rider, check_store, on_disk, wall
from treadle.core.allocation import Pause
from treadle.core.device_types import has_accelerators
from treadle.core.errors import InvalidInputError, PolicyError
from treadle.core.events import JobHeld, JobSubmitted
from treadle.core.lifecycle import Phase
from treadle.core.machine import JobFiles
from treadle.core.ports import Policy
from treadle.journal.codec import PolicySet
from treadle.policies.live.naming import with_defaults
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, KeyRow
from treadle.wire.job_orders import JobsOrder, JobsOrdered, Verb
from treadle.wire.jobs import DryRun, JobChange, JobRequest, JobView, State, Submitted
from treadle.wire.lab import ConfigChange, ConfigView, Lab
from treadle.wire.machine import PolicyChange, PolicyView, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    TooManyError,
    UnavailableError,
)

JOBS_MAX = 100_000  # active jobs of all users
JOBS_OF_ONE_MAX = 20_000  # of one user


Answer = TypeVar("Answer")


# Who gives it, for which job or array; of a pause also how.
OneOrder = Callable[..., Coroutine[Any, Any, tuple[JobView, ...]]]


class _UnderWay(NamedTuple):
    """A submission with an idempotency key that is not on disk yet."""

    digest: str
    task: "asyncio.Task[Submitted]"


class Commands:
    """Submits, cancels, holds, releases and changes."""

    def __init__(self, context: Context, queries: Queries, delete_ended: DeleteEnded) -> None:
        self._context = context
        self._queries = queries
        self._orders = Orders(context, queries, delete_ended)
        self._digest_key = context.seal.derive("digests of requests")
        self._keys = KnownKeys(context.reads)
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    # -- jobs -----------------------------------------------------------------------------------

    async def submit(
        self, who: Who, request: JobRequest, key: str = "", *, pack: bool = True
    ) -> Submitted:
        """pack: have its folder of this machine sent to nodes that do not see it."""
        if not key:
            return await self._settled(self._submit(who, request, None, pack))
        digest = self._digest(who, request)
        under_way = self._under_way.get((who.account, key))
        if under_way is not None:  # The first request may still wait for the store.
            if under_way.digest != digest:
                raise _other_request(key)
            return replace(await self._settled(under_way.task), repeated=True)
        row = KeyRow(who.account, key, digest, b"", wall())
        wanted = self._submit_once(who, request, row, pack)
        task = asyncio.ensure_future(wanted)
        self._under_way[who.account, key] = _UnderWay(digest, task)
        task.add_done_callback(lambda _: self._under_way.pop((who.account, key), None))
        return await self._settled(task)

    async def _submit_once(
        self, who: Who, request: JobRequest, key: KeyRow, pack: bool
    ) -> Submitted:
        """The answer that this key had before, or a new job."""
        try:
            known = await self._keys.find(key.owner, key.key)
        except StoreError as error:
            raise UnavailableError(f"the store cannot be read now: {error}") from None
        if known is None:
            return await self._submit(who, request, key, pack)
        if known.digest != key.digest:
            raise _other_request(key.key)
        return replace(msgspec.json.decode(known.body, type=Submitted), repeated=True)

    async def _submit(
        self, who: Who, request: JobRequest, key: KeyRow | None, pack: bool
    ) -> Submitted:
        self._check_open()
        request, admitted = self._context.rules.admitted(who, request)
        over = await self._over(request)
        for_user = person(who)
        files = await self._packed(who, for_user, request) if pack else JobFiles()
        wanted = self._prepare(who, for_user, request)
        scheduler = self._context.scheduler
        # A node that is drained or lost may come back: the job waits for it.
        whole = whole_cluster(self._context)
        check_fits(request, wanted, policy=scheduler.policy, cluster=whole)
        self._check_room(who, wanted.records)
        self._check_after(request, over)
        # The number is taken, also if the submission fails from here on.
        self._context.jobs.next_number += 1
        if request.code is not None and request.code.diff:
            diff = await self._keep_diff(request.code.diff)
            for record in wanted.records:
                record.diff = diff
        jobs, notes = tuple(record.id for record in wanted.records), files_notes(request, files)
        answer = Submitted(id=wanted.id, jobs=jobs, notes=(*admitted, *wanted.notes, *notes))
        batch = Batch()
        if key is not None:
            batch.keys.append(key._replace(body=msgspec.json.encode(answer)))
        if request.secrets:
            sealed = self._context.seal.seal(request.secrets)
            batch.secrets = {record.id: sealed for record in wanted.records}
            self._context.jobs.sealed |= batch.secrets
        for record in wanted.records:
            record.archive = files.archive
            # Jobs that end before the facts are taken must find the jobs that wait for them.
            self._context.jobs.add(record)
        blocks = self._context.gates.join(wanted.records, over, held=request.held)
        facts = [accepted(wanted.records), *map(JobSubmitted, wanted.specs), *blocks]
        await self._told(facts, batch)
        first = position(self._context.scheduler, wanted.records[0].id)
        return replace(answer, position=first)

    async def dry_run(self, who: Who, request: JobRequest) -> DryRun:
        request, admitted = self._context.rules.admitted(who, request)
        over = await self._over(request)
        wanted = self._prepare(who, person(who), request)
        wanted = replace(wanted, notes=(*admitted, *wanted.notes))
        gates = [] if self._check_after(request, over) else [DEPENDENCY]
        gates += [USER] if request.held else []
        question = ("dry run", self._digest(who, request))
        return await self._queries.thinking.about(
            question, lambda context: _tried(context, wanted, gates)
        )

    def one_order(self, verb: Verb) -> OneOrder:
        """Gives that order for a job or an array; returns the jobs that it was carried out for."""

        async def give(who: Who, identity: str, how: Pause = Pause.FROZEN) -> tuple[JobView, ...]:
            return await self._orders.one(who, verb, identity, how=how)

        return give

    async def cancel_all(self, who: Who) -> None:
        """Everything that has not ended."""
        jobs, scheduler = self._context.jobs, self._context.scheduler
        alive = [record for record in jobs.records.values() if record.id in scheduler.jobs]
        for record in alive:
            may_touch(who, record)
        await self._orders.cancel(alive, who.user)

    async def change(self, who: Who, identity: str, change: JobChange) -> JobView:
        record = await self._queries.record(identity)
        await self._orders.one(who, Verb.CHANGE, record.id, change)
        return job_view(self._context, record)

    async def order(self, who: Who, order: JobsOrder) -> JobsOrdered:
        """One order for many jobs."""
        return await self._orders.many(who, order)

    # -- the machine ----------------------------------------------------------------------------

    async def set_policy(self, who: Who, change: PolicyChange) -> PolicyView:  # noqa: ARG002
        context = self._context
        self._check_open()
        place = change.placement or context.charge.placement
        try:
            made = context.charge.prepare(change.policy, place, context.belief)
        except (InvalidInputError, PolicyError) as error:
            raise InvalidRequestError(str(error)) from None
        defaults = context.charge.settings
        await self._settled(self._switch(made, change.policy, place, defaults, {}))
        return self._queries.policy()

    async def configure(self, who: Who, change: ConfigChange) -> ConfigView:
        """Put another configuration in force, whole or not at all."""
        self._check_open()
        context, rules = self._context, self._context.rules
        if change.version not in (None, rules.view.version):
            raise ConflictError(
                f"the configuration is version {rules.view.version} by now, set by "
                f"{rules.view.set_by or 'no user'}; this is a change of version {change.version}",
                hint="treadle config show",
            )
        charge = context.charge
        try:
            lab = Lab.of(change.text)
            policy = lab.policy or charge.policy
            defaults = lab.settings()
            made = charge.prepare(policy, charge.placement, context.belief, defaults)
        except (InvalidInputError, PolicyError) as error:
            raise InvalidRequestError(str(error)) from None
        view = ConfigView(
            version=rules.view.version + 1, text=change.text, set_by=who.user, set_at=wall()
        )
        settings = {CONFIG: msgspec.json.encode(view).decode()}
        await self._settled(self._switch(made, policy, charge.placement, defaults, settings))
        rules.view, rules.lab = view, lab
        return view

    async def _switch(
        self,
        made: Policy,
        policy: str,
        place: str,
        defaults: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> None:
        """Put a policy in charge, once that is on disk.

        defaults: what holds under every policy from now on. settings: to be written with it.
        """
        context, charge = self._context, self._context.charge
        whole = with_defaults(policy, defaults)
        written = {"policy": policy, "placement": place, **settings}
        await context.commit.note(Batch(settings=written), PolicySet(whole, place))
        charge.settings = defaults
        charge.take_over(policy, place)
        context.scheduler.set_policy(made, context.clock.now())
        context.inbox.wake()

    # -- leaves ---------------------------------------------------------------------------------

    def _prepare(self, who: Who, for_user: Person, request: JobRequest) -> Submission:
        if who.job:
            raise NotAllowedError("a job's token can only report on that job")
        if request.priority > 0:
            check_priority(who, request.priority)
        wanted = prepare(
            request,
            self._context.jobs.next_number,
            person=for_user,
            cluster=self._context.cluster,
            profiles=self._context.learner.profiles,
            now=self._context.clock.now(),
            wall_at=wall(),
            nonce=secrets.token_hex(8),
        )
        wanted = kept_to_gpus(wanted, request, self._away())
        secrets_bytes = sum(map(text_bytes, request.secrets.values()))
        self._context.jobs.weights.check(wanted.records[0], secrets_bytes, len(wanted.records))
        notes = without_quota(self._context.charge.whole(), request.tenant)
        if request.memory_gib is not None or request.cpus is not None:
            notes += not_enforced(request, enforced_limits(self._context))
        return replace(wanted, notes=(*wanted.notes, *notes))

    async def _packed(self, who: Who, for_user: Person, request: JobRequest) -> JobFiles:
        """Its code, for nodes that do not see its folder."""
        if who.job:
            return JobFiles()
        try:
            checked(request)
            own = (for_user.uid, for_user.gid) if os.geteuid() == 0 else (None, None)
            files = await self._context.engine.pack(request.workdir or for_user.home, *own)
            check_nodes(request, files, self._context.cluster)
        except InvalidInputError as error:
            raise InvalidRequestError(str(error)) from None
        return files

    def _away(self) -> list[str]:
        """Types of device of nodes that are drained or lost, where it matters."""
        context = self._context
        if has_accelerators(context.cluster):
            return []
        away = (*context.scheduler.drained.values(), *(each.node for each in context.lost))
        return [node.device_type for node in away]

    async def _over(self, request: JobRequest) -> dict[str, State]:
        """The states of jobs that it starts after and that memory does not have any more."""
        names = {*request.after, *request.after_any}
        old = [name for name in names if self._context.jobs.state_of(name) is None]
        if not old:
            return {}
        return await self._context.reads.ask(lambda store: stored_states(store, old))

    def _check_after(self, request: JobRequest, over: Mapping[str, State]) -> bool:
        """Whether all jobs have ended that the job starts after; refuses what is no job."""
        done = True
        for name in (*request.after, *request.after_any):
            state = self._context.jobs.state_of(name) or over.get(name)
            if state is None:
                raise InvalidRequestError(f"after names job {name}, and there is no such job")
            done &= state.ended and (name not in request.after or state is State.SUCCEEDED)
        return done

    def _check_open(self) -> None:
        check_store(self._context.condition)
        if self._context.condition.draining:
            raise ConflictError("the daemon is draining and takes no jobs")

    def _check_room(self, who: Who, wanted: Sequence[JobRecord]) -> None:
        jobs, rows, more = self._context.jobs, self._context.scheduler.jobs, len(wanted)

        def waits(name: str) -> bool:
            row = rows.get(name)
            return row is None or row.allocation is None

        self._context.rules.check_queue(wanted, jobs, waits)
        records = jobs.records
        if len(records) + more > JOBS_MAX:
            raise TooManyError(f"queue full: the limit is {JOBS_MAX} active jobs")
        if len(records) + more <= JOBS_OF_ONE_MAX:
            return  # Not even if all of them were theirs.
        own = sum(1 for record in records.values() if who.is_owner(record.owner, record.uid))
        if own + more > JOBS_OF_ONE_MAX:
            raise TooManyError(
                f"{who.user} has {own} active jobs and asks for {more} more; the limit for one "
                f"user is {JOBS_OF_ONE_MAX}"
            )

    def _told(self, facts: Sequence[Fact], batch: Batch) -> "asyncio.Future[None]":
        """Send facts to the controller at once; done when they are on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if facts:
            self._context.commit.tell(facts, Rider(batch, done))
        else:
            done.set_result(None)
        return done

    async def _settled(
        self, wanted: Coroutine[Any, Any, Answer] | asyncio.Future[Answer]
    ) -> Answer:
        with self._context.condition.orders.one():
            return await on_disk(wanted, self._context.condition)

    async def _keep_diff(self, text: str) -> str:
        try:
            return await asyncio.to_thread(self._context.diffs.keep, text)
        except OSError as error:
            raise UnavailableError(
                f"the state of the code cannot be kept: {error.strerror}", hint="try again"
            ) from None

    def _digest(self, who: Who, request: JobRequest) -> str:
        """What tells requests apart; with a key, so that secrets cannot be guessed from it."""
        text = msgspec.json.encode((who.account, request))
        return hmac.new(self._digest_key, text, hashlib.sha256).hexdigest()


def _tried(context: Context, wanted: Submission, gates: Sequence[str]) -> DryRun:
    """What would become of these jobs, tried on a copy of the scheduler.

    gates: what blocks them.
    """
    now = context.clock.now()
    twin = context.scheduler.fork()
    twin.take([JobSubmitted(spec) for spec in wanted.specs], now)
    twin.take([JobHeld(spec.id, why) for spec in wanted.specs for why in gates], now)
    first = wanted.specs[0]
    unfit = twin.unfit.get(first.id, "")
    row = twin.jobs[first.id]
    needs = away(context, row) if unfit else None
    waits_for = "" if needs is None else Said(context).sentence(needs)
    never = "" if needs else unfit
    if not unfit:
        try:
            twin.decide(now)
            row = twin.jobs[first.id]
        except Exception as error:  # a third party's policy may raise anything
            raise ConflictError(f"the policy fails on it: {error}") from None
    context.condition.orders.rest()
    there = replace(context, scheduler=twin)
    starts = row.phase is Phase.STARTING
    waits = not (unfit or starts or USER in gates)
    spec: dict[str, object] = msgspec.to_builtins(first)
    return DryRun(
        jobs=len(wanted.specs),
        sizes=first.sizes,
        starts_now=starts,
        never_fits=never,
        because=waits_for,
        beside=sharers(twin, row),
        estimate=forecast(there, first.id, wanted.records).start if waits else None,
        length=length_of(wanted.expectation, first, wanted.records[0].time_limit_s),
        spec=spec,
        notes=wanted.notes,
    )


def _other_request(key: str) -> ConflictError:
    return ConflictError(f"the idempotency key {key!r} was used for another request; use a new one")
