"""The output of a job's attempts, and why it cannot be read where it cannot."""

from treadle.control.api.context import Context
from treadle.control.jobs import AttemptKey, JobRecord, id_of, nodes_in
from treadle.control.loop import date_text
from treadle.core.errors import EngineError, InvalidInputError, NodeAwayError
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.core.machine import Output
from treadle.core.wording import listed
from treadle.store.rows import AttemptRow
from treadle.wire.jobs import LogPiece
from treadle.wire.problems import LostOutputError, NotFoundError, UnavailableError

NAMED_MAX = 4  # nodes


class JobOutput:
    """Reads it through the engine."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def piece(
        self, record: JobRecord, *, attempt: int, rank: int, offset: int, limit: int
    ) -> LogPiece:
        """attempt: 0 for the newest."""
        newest = max(record.newest, 1)
        number = newest if attempt == 0 else attempt
        if not 0 < number <= newest:
            raise NotFoundError(
                f"job {record.id} has had {record.newest} attempts; there is no attempt {attempt}"
            )
        row = await self._row(record.id, number)
        await self._refuse_pruned(record)
        # Asked first: what is read afterwards is then all there will be.
        ended = self._is_over(record, number)
        found = await self._read(record.id, number, row, rank, offset=offset, limit=limit)
        text, used = _whole_text(found.data, ended and found.offset + len(found.data) >= found.size)
        return LogPiece(
            attempt=number,
            rank=rank,
            offset=found.offset,
            next=found.offset + used,
            text=text,
            ended=ended and found.offset + used >= found.size,
            size=found.size,
            lost=found.lost,
            ranks=found.ranks,
        )

    async def _refuse_pruned(self, record: JobRecord) -> None:
        if not record.state.ended:
            return
        left = await self._context.reads.ask(lambda store: store.output(record.id))
        if left is not None and left.pruned_at is not None:
            raise NotFoundError(
                f"the log of job {record.id} was pruned on {date_text(left.pruned_at)}"
            )

    async def _read(
        self, job: JobId, number: int, row: AttemptRow | None, rank: int, *, offset: int, limit: int
    ) -> Output:
        """row: of the attempt; None if there is no such attempt."""
        attempt = AttemptId(job, number) if row is None else id_of(row)
        try:
            return await self._context.engine.output(attempt, rank, offset=offset, limit=limit)
        except (InvalidInputError, NodeAwayError) as error:
            if lost := self._lost(row):
                raise _lost_output(attempt, rank, row, lost) from None
            if isinstance(error, NodeAwayError):  # It has just returned.
                raise UnavailableError(f"the output cannot be read now: {error}") from None
            raise NotFoundError(str(error)) from None
        except EngineError as error:
            raise UnavailableError(f"the output cannot be read now: {error}") from None

    def _lost(self, row: AttemptRow | None) -> list[str]:
        """Nodes of the attempt that are not there now."""
        there = {node.name for node in self._context.engine.nodes()}
        return [] if row is None else sorted(nodes_in(row.devices) - there)

    async def _row(self, job: JobId, number: int) -> AttemptRow | None:
        row = self._context.jobs.open.get(AttemptKey(job, number))
        if row is not None:
            return row
        return await self._context.reads.ask(lambda store: store.attempt(job, number))

    def _is_over(self, record: JobRecord, number: int) -> bool:
        jobs = self._context.jobs
        if jobs.shown_state(record).ended:
            return True
        return record.attempts > 0 and AttemptKey(record.id, number) not in jobs.open


def _lost_output(
    attempt: AttemptId, rank: int, row: AttemptRow | None, lost: list[str]
) -> LostOutputError:
    whose = f"attempt {attempt.number} of job {attempt.job}"
    if row is not None and len(nodes_in(row.devices)) > len(lost):  # The rest can be read.
        whose = f"rank {rank} of {whose}"
    nodes = listed(lost, NAMED_MAX)
    which = f"node {nodes}, which is" if len(lost) == 1 else f"nodes {nodes}, which are"
    return LostOutputError(f"the output of {whose} is on {which} lost")


def _whole_text(data: bytes, last: bool) -> tuple[str, int]:
    """As much as is whole characters; the beginning of one waits for its rest."""
    cut = len(data)
    if not last:
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte >= 0xC0:
                needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                cut = len(data) - back if needs > back else cut
                break
            if byte < 0x80:
                break
    return data[:cut].decode("utf-8", errors="replace"), cut
