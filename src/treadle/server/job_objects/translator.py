"""Objects become jobs, and show what becomes of them.

The truth is Treadle's store. An object is submitted, changed, held and cancelled by the commands
that the API has, as the user of its namespace; what its status says is copied from the store.

Each object is claimed for a store before it is submitted, with the version that was read, and is
submitted with its uid as the key: so it is one job, however often either side begins anew. A
finalizer keeps an object whose job has not ended; deleting it cancels the job.

Changes are written when an event names the job. What may change without one, such as progress or
the reason to wait, is looked at in turn, TURN objects every TURN_S, however many there are.
"""

import asyncio
import logging
from collections import defaultdict, deque
from contextlib import suppress
from itertools import islice
from typing import Any

from treadle.control.api import LiveService
from treadle.core.errors import EngineError, InvalidInputError, TreadleError
from treadle.engines.clusters.kubernetes.access import access
from treadle.engines.clusters.kubernetes.api import Api, ApiError, ApiSilentError
from treadle.engines.clusters.kubernetes.names import DOMAIN, jobs
from treadle.engines.clusters.kubernetes.watching import Watch, Watched
from treadle.server.job_objects.event_notes import EventNotes
from treadle.server.job_objects.job_spec import AFTER, fixed, references, request_of
from treadle.server.job_objects.job_status import REFUSED, conditions, difference, status_of
from treadle.server.job_objects.namespaces import Namespaces
from treadle.wire.jobs import JobChange, JobRequest, JobView, State
from treadle.wire.machine import Role, Who
from treadle.wire.notation import sizes_of
from treadle.wire.problems import (
    BusyError,
    ConflictError,
    NotFoundError,
    RequestError,
    TooManyError,
    UnavailableError,
)

STORE = f"{DOMAIN}/store"  # which has the job of an object
FINALIZER = f"{DOMAIN}/job"
ABSENT_S = 60.0  # between looks for a definition that is not there
AGAIN_FIRST_S, AGAIN_LAST_S = 0.5, 30.0
TURN_S, TURN = 5.0, 50
AT_ONCE = 16
LATER = (BusyError, ConflictError, TooManyError, UnavailableError)
QUIET = frozenset({"JobProgressed", "JobUpdated", "JobsLearned"})

Object = dict[str, Any]
logger = logging.getLogger("treadle")


class WaitsError(TreadleError):
    """It comes after an object that is no job yet."""


class Translator:
    """For one controller."""

    def __init__(self, api: Api, live: LiveService, store: str) -> None:
        """store: its identity."""
        self._api, self._live, self._store = api, live, store
        self._objects = Watch(api, Watched(jobs(), everywhere=True), self._touch)
        self._namespaces = Namespaces(api)
        self._notes = EventNotes(api)
        self._known: dict[str, str] = {}  # objects by the ids of their jobs
        self._jobs: dict[str, str] = {}  # jobs that have not ended, by their objects
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()  # touched while they were looked at
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)  # for an object to be a job
        self._turns: deque[str] = deque()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._closed = False

    async def run(self) -> None:
        """Until it is cancelled."""
        said = ""
        while True:
            try:
                after = (await self._live.events_last(limit=1)).next
                await self._namespaces.begin()
                await self._objects.begin()
                break
            except EngineError as error:
                absent = isinstance(error, ApiError) and error.status == 404
                if str(error) != said and not absent:
                    logger.warning("objects that are jobs cannot be listed: %s", error)
                said = str(error)
                await asyncio.sleep(ABSENT_S if absent else AGAIN_LAST_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._namespaces.run())
            group.create_task(self._objects.run())
            group.create_task(self._notes.run())
            group.create_task(self._follow(after))
            group.create_task(self._turn())

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._api.close()

    # -- what is looked at, and when ------------------------------------------------------------

    def _touch(self, key: str) -> None:
        if key in self._tasks:
            self._again.add(key)
            return
        task = asyncio.get_running_loop().create_task(self._tend(key))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tended(key))

    def _tended(self, key: str) -> None:
        del self._tasks[key]
        if key in self._again and not self._closed:
            self._again.discard(key)
            self._touch(key)

    async def _tend(self, key: str) -> None:
        pause_s, said = AGAIN_FIRST_S, ""
        while True:
            self._again.discard(key)
            try:
                async with self._slots:
                    await self._look(key)
            except (EngineError, *LATER) as error:
                if str(error) != said and not isinstance(error, ApiSilentError):
                    logger.info("%s: %s", key, error)
                said = str(error)
            except Exception:
                logger.exception("%s", key)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(AGAIN_LAST_S, pause_s * 2)

    async def _follow(self, after: int) -> None:
        async for event in self._live.follow(after=after):
            if event.job in self._known and event.kind not in QUIET:
                key = self._known[event.job]
                self._notes.add(self._objects.objects.get(key), event)
                self._touch(key)

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TURN_S)
            if not self._turns:
                self._turns.extend(self._jobs)
            for key in [*islice(self._turns, TURN)]:
                self._turns.popleft()
                self._touch(key)

    # -- one object -----------------------------------------------------------------------------

    async def _look(self, key: str) -> None:
        found = self._objects.objects.get(key)
        await self._look_at(key, found)
        if "id" in (self._objects.objects.get(key, {}).get("status") or {}):
            for other in self._waiting.pop(key, ()):
                self._touch(other)

    async def _look_at(self, key: str, found: Object | None) -> None:
        if found is None:  # Its finalizer was taken away.
            return await self._cancel(key)
        metadata, status = found["metadata"], found.get("status") or {}
        owner = status.get("store") or metadata.get("annotations", {}).get(STORE)
        if owner not in (None, self._store):
            return await self._of_another(found, owner)
        if "deletionTimestamp" in metadata:
            return await self._delete(key, found)
        if _is_over(status):
            return await self._release(found)
        if "id" not in status:
            return await self._submit(key, found)
        view = await self._view(key, found)
        if view is not None and metadata["generation"] != status.get("observedGeneration"):
            await self._change(key, found, view)
            view = await self._view(key, found)
        if view is not None:
            await self._show(key, found, status_of(view, found["status"]))
        return None

    async def _of_another(self, found: Object, owner: str) -> None:
        """One that is deleted is let go: this controller has the lease."""
        if "deletionTimestamp" in found["metadata"]:
            return await self._release(found)
        self._notes.once(found, "OtherStore", f"it is a job of another Treadle (store {owner})")
        return None

    async def _submit(self, key: str, found: Object) -> None:
        generation = found["metadata"]["generation"]
        status = found.get("status") or {}
        if status.get("state") == REFUSED and status.get("observedGeneration") == generation:
            return
        try:
            who = self._namespaces.who(found["metadata"]["namespace"])
            request = await self._request(found)
            await self._claim(found)
            # No folder of this machine is sent: the spec is of people who may not read it.
            made = await self._live.submit(who, request, found["metadata"]["uid"], pack=False)
        except LATER:
            raise
        except WaitsError as error:
            await self._show(key, found, {"state": str(State.PENDING), "reason": str(error)})
            return
        except (InvalidInputError, RequestError) as error:
            refused = {"Accepted": (False, "Refused", str(error))}
            wanted = {"state": REFUSED, "reason": str(error), "observedGeneration": generation}
            wanted["conditions"] = conditions(refused, status.get("conditions", ()))
            self._notes.once(found, "Refused", str(error))
            await self._show(key, found, wanted)
            return
        self._known[made.id], self._jobs[key] = key, made.id
        (view,) = await self._views(made.id)
        wanted = status_of(view, status)
        wanted |= {"id": made.id, "store": self._store, "observedGeneration": generation}
        wanted |= {"submitted": fixed(found["spec"]), "suspended": request.held}
        await self._show(key, found, wanted)

    async def _request(self, found: Object) -> JobRequest:
        spec, namespace = found.get("spec") or {}, found["metadata"]["namespace"]
        values = {each: await self._namespaces.value(namespace, each) for each in references(spec)}
        ids = {}
        for name in [name for field in AFTER for name in spec.get(field, ())]:
            other = self._objects.objects.get(f"{namespace}/{name}", {})
            if "id" not in (other.get("status") or {}):
                self._waiting[f"{namespace}/{name}"].add(f"{namespace}/{found['metadata']['name']}")
                raise WaitsError(f"it comes after {name}, which is no job yet")
            ids[name] = other["status"]["id"]
        return request_of(found, values, ids)

    async def _claim(self, found: Object) -> None:
        metadata = found["metadata"]
        held = metadata.get("finalizers", [])
        claimed = metadata.get("annotations", {}).get(STORE) == self._store
        if claimed and FINALIZER in held:
            return
        change = {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {STORE: self._store},
            "finalizers": [*held, *([] if FINALIZER in held else [FINALIZER])],
        }
        found.update(await self._api.patch(_path(found), {"metadata": change}))

    async def _view(self, key: str, found: Object) -> JobView | None:
        """None: the store does not have it any more."""
        identity = found["status"]["id"]
        self._known[identity], self._jobs[key] = key, identity
        with suppress(NotFoundError):
            (view,) = await self._views(identity)
            return view
        gone = "its record was deleted from Treadle's store"
        await self._show(key, found, {"state": str(State.CANCELLED), "reason": gone})
        return None

    async def _views(self, identity: str) -> tuple[JobView, ...]:
        views = await self._live.active_views((identity,))
        return views or ((await self._live.job(identity)).job,)

    async def _change(self, key: str, found: Object, view: JobView) -> None:
        """What its owner changed after it was submitted."""
        status, who = found["status"], _owner(view)
        done = {"observedGeneration": found["metadata"]["generation"]}
        truth = (True, "Applied", "the job is as the spec says")
        try:
            request = await self._request(found)
            if fixed(found["spec"]) != status.get("submitted"):
                why = "only priority, timeLimit, devices and suspend change; delete it and apply it"
                truth = (False, "Fixed", f"{why} again for the rest")
            if (change := await self._changed(request, view)) != JobChange():
                await self._live.change(who, view.id, change)
            if request.held != bool(status.get("suspended")):
                order = self._live.hold if request.held else self._live.release
                await order(who, view.id)
                done["suspended"] = request.held
        except UnavailableError:
            raise
        except (InvalidInputError, RequestError) as error:
            truth = (False, "Refused", str(error))
            self._notes.once(found, "Refused", str(error))
        given = conditions({"Applied": truth}, status.get("conditions", ()))
        await self._show(key, found, {**done, "conditions": given})

    async def _changed(self, request: JobRequest, view: JobView) -> JobChange:
        detail = await self._live.job(view.id)
        limit_s, sizes = request.time_limit_s, sizes_of(request.devices)
        return JobChange(
            priority=request.priority if request.priority != view.priority else None,
            time_limit_s=limit_s if limit_s != detail.time_limit_s else None,
            devices=request.devices if sizes != view.sizes else None,
        )

    async def _delete(self, key: str, found: Object) -> None:
        """Its job is cancelled; once it has ended, the object goes."""
        status = found.get("status") or {}
        identity = status.get("id")
        if identity is not None and not _is_over(status):
            view = await self._view(key, found)
            if view is not None and not view.state.ended:
                if view.state is not State.STOPPING:
                    await self._live.cancel(_owner(view), identity)
                return  # The event of its end comes.
        self._forget(key)
        await self._release(found)

    async def _cancel(self, key: str) -> None:
        if key in self._jobs:
            identity = self._jobs[key]
            for view in await self._live.active_views((identity,)):
                await self._live.cancel(_owner(view), identity)
            self._forget(key)

    async def _show(self, key: str, found: Object, wanted: Object) -> None:
        before = found.get("status") or {}
        change = difference(before, wanted)
        if change:
            now = await self._api.patch(f"{_path(found)}/status", {"status": change})
            found.update(now)  # What the watch will bring.
        if _is_over(found.get("status") or {}):
            self._forget(key)
            await self._release(found)

    async def _release(self, found: Object) -> None:
        held = found["metadata"].get("finalizers", [])
        if FINALIZER in held:
            change = {
                "resourceVersion": found["metadata"]["resourceVersion"],
                "finalizers": [each for each in held if each != FINALIZER],
            }
            found.update(await self._api.patch(_path(found), {"metadata": change}))

    def _forget(self, key: str) -> None:
        self._known.pop(self._jobs.pop(key, ""), None)


async def keep_translating(live: LiveService, context: str, store: str) -> None:
    """Until it is cancelled. context: of the kubeconfig; empty: the current one."""
    while True:
        translator = Translator(Api(access(context)), live, store)
        try:
            await translator.run()
        except Exception:  # The controller goes on; objects are told again what is so.
            logger.exception("objects that are jobs are listed again")
        finally:
            await translator.close()
        await asyncio.sleep(AGAIN_LAST_S)


def _owner(view: JobView) -> Who:
    return Who(user=view.user, role=Role.USER, uid=view.uid)


def _is_over(status: Object) -> bool:
    state = status.get("state", "")
    return state in State.__members__ and State(state).ended


def _path(found: Object) -> str:
    metadata = found["metadata"]
    return f"{jobs(metadata['namespace'])}/{metadata['name']}"
