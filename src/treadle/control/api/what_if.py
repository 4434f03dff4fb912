"""What if: the present state, simulated by a process of its own with limits.

A thread would take every other turn from the event loop for seconds. The process gets the snapshot
and what is known of lengths, and is ended if it takes too long; there is one at a time.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from treadle.control.api.context import Context
from treadle.control.api.job_progress import left_of
from treadle.control.api.queries import Queries
from treadle.control.loop import PolicyInCharge, wall
from treadle.core.errors import InvalidInputError
from treadle.traces.clusters import cluster as cluster_of
from treadle.wire.problems import BusyError, InvalidRequestError, RequestError, UnavailableError
from treadle.wire.what_if import WhatIf, WhatIfRequest

WITHIN_S = 40.0
WAITING_MAX = 3  # questions that wait for the one that is simulated
DEVICES_MAX = 10_000
WITHOUT_MAX = 1000
CLUSTER = frozenset("0123456789x+")
CLUSTER_LENGTH_MAX = 200
# Without -P it would import from the folder in which it starts.
COMMAND = ("-P", "-m", "treadle.study.snapshot_what_if")
SAID_BYTES_MAX = 2000  # of what a process that failed said, the last
MIDDLE = 0.5


logger = logging.getLogger("treadle")


class _Answer(msgspec.Struct):
    found: WhatIf | None = None
    error: str = ""


class WhatIfs:
    """Asks a process, one question after the other."""

    def __init__(self, context: Context, queries: Queries) -> None:
        self._context = context
        self._queries = queries
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, asked: WhatIfRequest) -> WhatIf:
        self._check(asked)
        asked = replace(asked, without=await self._ids(asked.without))
        if self._waiting > WAITING_MAX:
            raise BusyError("other what-ifs are being simulated", hint="try again")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._simulated(asked)
        finally:
            self._waiting -= 1

    async def _ids(self, names: Sequence[str]) -> tuple[str, ...]:
        """The jobs that these name, and the members of arrays."""
        found: list[str] = []
        for answer in (await self._queries.members_of_all(names)).values():
            if isinstance(answer, RequestError):
                raise answer
            if over := [record.id for record in answer if record.state.ended]:
                raise InvalidRequestError(f"job {over[0]} has ended and is in no simulation")
            found += [record.id for record in answer]
        return tuple(found)

    def _check(self, asked: WhatIfRequest) -> None:
        """Refuse here what the process would refuse, and what it must not be asked."""
        try:
            if asked.policy:
                charge = self._context.charge
                PolicyInCharge().prepare(
                    charge.whole(asked.policy), charge.placement, self._context.belief
                )
            if asked.cluster:
                _check_cluster(asked.cluster)
        except InvalidInputError as error:
            raise InvalidRequestError(str(error)) from None
        if len(asked.without) > WITHOUT_MAX:
            raise InvalidRequestError(f"without names more than {WITHOUT_MAX:,} jobs")

    async def _simulated(self, asked: WhatIfRequest) -> WhatIf:
        snapshot = dict(await self._queries.snapshot())
        snapshot["known"] = await self._queries.thinking.about("what if", _known)
        snapshot["wall_at"] = wall()
        if asked.policy:
            asked = replace(asked, policy=self._context.charge.whole(asked.policy))
        question = msgspec.json.encode({"snapshot": snapshot, "asked": asked})
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
        )
        try:
            async with asyncio.timeout(WITHIN_S):
                output, said = await process.communicate(question)
        except TimeoutError:
            sentence = f"the simulations did not end within {WITHIN_S:g} s"
            raise UnavailableError(sentence, hint="try again with fewer jobs") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return _read(output, said)


def _check_cluster(text: str) -> None:
    """Only counts of nodes and devices: no file of the server is read for those who ask."""
    if not set(text) <= CLUSTER or len(text) > CLUSTER_LENGTH_MAX:
        raise InvalidInputError(
            f"cluster {text[:40]!r} is no count of nodes and devices; "
            "expected NODESxDEVICES such as 2x8 or 4x8+2x4"
        )
    if cluster_of(text).device_count > DEVICES_MAX:
        raise InvalidInputError(f"that is more than {DEVICES_MAX:,} devices")


def _read(output: bytes, said: bytes) -> WhatIf:
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except msgspec.MsgspecError:
        end = said[-SAID_BYTES_MAX:].decode(errors="replace")
        logger.warning("the process of a what-if failed; it said, at the end: %r", end)
        raise UnavailableError("the simulation failed", hint="see the daemon's log") from None
    if answer.found is None:
        raise InvalidRequestError(answer.error)
    return answer.found


def _known(context: Context) -> Mapping[str, Any]:
    """Names of jobs, and what is left of each where that is known: the median."""
    found = {}
    for name, row in context.scheduler.jobs.items():
        record = context.jobs.records.get(name)
        if record is None:
            continue
        left = left_of(context, record, row)
        left_s = None if left is None else left.at(MIDDLE)
        found[name] = {"name": record.name, "left_s": left_s}
    return found
