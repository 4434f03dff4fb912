"""Philly's official job log: one JSON list, read an object at a time, never all of it in memory.

A job's duration is the sum over its attempts. Its size is the GPU count of the first attempt that
says where it ran. When and where each attempt ran is kept too. The log has calendar times; the
workload's clock starts at the first submission.
"""

import json
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.traces.collector import Collector
from treadle.traces.philly import CITE, ENDS
from treadle.traces.workload import Ran, Workload

OBJECT_CHARACTERS_MAX = 16 << 20
_BETWEEN = " \t\r\n,"


class _Run(NamedTuple):
    """One job of the log that ran."""

    line: int
    identity: str
    submitted: datetime
    duration_s: float
    size: int
    tenant: str
    owner: str
    status: str
    attempts: list[tuple[datetime, datetime, tuple[tuple[str, int], ...]]]


def read_philly_log(name: str, blocks: Iterable[bytes]) -> Workload:
    """Jobs without a submission time, or without an attempt with times and GPUs, are skipped."""
    jobs = Collector(name)
    runs: list[_Run] = []
    for jobs.line, record in _objects(name, blocks):
        run = _run(jobs, record)
        if run is None:
            jobs.skip("jobs without a submission time, or an attempt with times and GPUs")
        else:
            runs.append(run)
    if not runs:
        return jobs.workload("philly-log")
    first = min(run.submitted for run in runs)
    for run in runs:
        jobs.line = run.line
        attempts = [
            Ran((start - first).total_seconds(), (end - first).total_seconds(), nodes)
            for start, end, nodes in sorted(run.attempts)
        ]
        jobs.rigid(
            run.identity,
            run.size,
            run.duration_s,
            (run.submitted - first).total_seconds(),
            status=run.status,
            runs=attempts,
            tenant=run.tenant,
            owner=run.owner,
        )
    return jobs.workload(
        "philly-log",
        CITE,
        "one iteration is one second at the asked size; a duration is that of all attempts",
        f"second 0 is {first.isoformat(' ')}, the first submission",
    )


def _objects(name: str, blocks: Iterable[bytes]) -> Iterator[tuple[int, object]]:
    """The members of the list, each with the line it begins on."""
    utf8, decoder = getincrementaldecoder("utf-8")(), json.JSONDecoder()
    text, line, begun, problem = "", 1, False, "the list is not closed"
    for block in blocks:
        try:
            text += utf8.decode(block)
        except UnicodeDecodeError:
            raise InvalidInputError(f"{name} is not UTF-8 after line {line}") from None
        at = 0
        while True:
            start = at
            while at < len(text) and text[at] in _BETWEEN:
                at += 1
            line += text.count("\n", start, at)
            if not begun and text[at : at + 1] == "[":
                begun, at = True, at + 1
                continue
            if at == len(text) or text[at] == "]":
                break
            try:
                value, end = decoder.raw_decode(text, at)
            except json.JSONDecodeError as error:
                problem = error.msg
                break  # Perhaps the rest of the object is in the next block.
            yield line, value
            line += text.count("\n", at, end)
            at = end
        text = text[at:]
        if len(text) > OBJECT_CHARACTERS_MAX:
            break
    if not text.startswith("]"):
        raise InvalidInputError(f"{name} line {line}: not a list of jobs in JSON ({problem})")


def _run(jobs: Collector, record: object) -> _Run | None:
    if isinstance(record, dict) and {"at", "kind"} <= record.keys():
        raise jobs.error(
            "this is a journal and not a trace; treadle analyze reads it, and treadle trace "
            "generate makes traces"
        )
    if not isinstance(record, dict) or not isinstance(record.get("attempts"), list):
        raise jobs.error(
            "not a job of Philly's log; expected an object with jobid, submitted_time and attempts"
        )
    identity = _word(record.get("jobid"))
    if not identity:
        raise jobs.error("the job has no jobid; expected a name")
    submitted = _moment(jobs, record.get("submitted_time"))
    duration_s, size, attempts = 0.0, 0, []
    for attempt in record["attempts"]:
        if not isinstance(attempt, dict):
            raise jobs.error(f"an attempt of {identity} is no object; expected times and detail")
        start, end = (_moment(jobs, attempt.get(key)) for key in ("start_time", "end_time"))
        if start and end and end > start:
            duration_s += (end - start).total_seconds()
            attempts.append((start, end, _nodes(attempt.get("detail"))))
        size = size or sum(gpus for _, gpus in _nodes(attempt.get("detail")))
    if submitted is None or not duration_s or not size:
        return None
    status = _word(record.get("status"))
    return _Run(
        jobs.line,
        identity,
        submitted,
        duration_s,
        size,
        _word(record.get("vc")),
        _word(record.get("user")),
        ENDS.get(status.lower(), status),
        attempts,
    )


def _word(value: object) -> str:
    """Text that can be written again: JSON may hold half a character, UTF-8 may not."""
    return str(value or "").encode(errors="backslashreplace").decode()


def _nodes(detail: object) -> tuple[tuple[str, int], ...]:
    """The GPUs of an attempt on each of its nodes; empty where it does not say."""
    nodes = detail if isinstance(detail, list) else []
    lists = [(node.get("ip"), node.get("gpus")) for node in nodes if isinstance(node, dict)]
    named = [(_word(name), gpus) for name, gpus in lists if isinstance(gpus, list) and gpus]
    return tuple((name or f"node {place}", len(gpus)) for place, (name, gpus) in enumerate(named))


def _moment(jobs: Collector, text: object) -> datetime | None:
    if text is None or text in ("", "None"):
        return None
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=None)
    except ValueError:
        raise jobs.error(f"a time is {text!r}; expected one like 2017-10-09 07:02:44") from None
