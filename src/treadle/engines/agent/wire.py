"""Messages on the way to another machine: JSON documents, in which facts carry their class's name.

An answer is in an envelope that may hold an error instead.
"""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from treadle.core import events
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.wording import span
from treadle.engines.agent.agent_errors import (
    LinkLostError,
    LostPlaceError,
    StaleEpochError,
    UnconfirmedError,
)
from treadle.engines.agent.messages import FactsGiven, Refused

ANSWER_WITHIN_S = 120.0  # whatever is asked; most is waited for much shorter
TOKEN_HEADER = "x-treadle-token"  # of calls over a network
BYTES_MAX = 8 << 20  # of one launch, and of those that go together

Document = TypeVar("Document")


class WireLink(ABC):
    """A link to an agent in another process (fleet.port.Link)."""

    bytes_max: int | None = BYTES_MAX

    async def ask(self, verb: str, document: object, kind: type[Document]) -> Document:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer = await self.call(verb, encode(document))
        except TimeoutError:
            why = f"{verb} was not answered within {span(ANSWER_WITHIN_S)}"
            raise LinkLostError(why) from None
        return opened(answer, kind)

    @abstractmethod
    async def call(self, verb: str, document: bytes) -> bytes:
        """`Agent.call` over there. Raises LinkLostError, and nothing else.

        But EngineError, not retryable, if the document is too long to be sent.
        """


@dataclass(frozen=True, slots=True)
class Named:
    """A fact with the name of its class."""

    kind: str
    body: msgspec.Raw


_FACTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(events.JobStarted, events.JobPaused, events.TrainingEnded),
        *(events.RankReplaced, events.AttemptEnded),
        *(events.NodeJoined, events.NodeDrained, events.DeviceClosed, events.DeviceOpened),
        Refused,
    )
}


@dataclass(frozen=True, slots=True)
class GivenFacts:
    """`FactsGiven` on its way."""

    facts: tuple[Named, ...]
    rest: FactsGiven


_NOTHING = msgspec.Raw(b"null")
# Those that are known by their sentence.
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (InvalidInputError, LostPlaceError, UnconfirmedError)
}


@dataclass(frozen=True, slots=True)
class Envelope:
    answer: msgspec.Raw
    error: str = ""  # the class of the error; empty: it is an answer
    message: str = ""
    retryable: bool = False
    epoch: int = 0  # of the later controller, if it is stale


def encode(document: object) -> bytes:
    if isinstance(document, FactsGiven):
        named = (Named(type(each).__name__, _raw(each)) for each in document.facts)
        document = GivenFacts(tuple(named), replace(document, facts=()))
    return msgspec.json.encode(document)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def decode(data: bytes | msgspec.Raw, kind: type[Document]) -> Document:
    if kind is not FactsGiven:
        return msgspec.json.decode(data, type=kind)
    given = msgspec.json.decode(data, type=GivenFacts)
    facts = (msgspec.json.decode(each.body, type=_FACTS[each.kind]) for each in given.facts)
    found: Any = replace(given.rest, facts=tuple(facts))
    return found  # type: ignore[no-any-return]


def answer(document: object) -> bytes:
    return encode(Envelope(msgspec.Raw(encode(document))))


def refusal(error: Exception) -> bytes:
    """An error as an answer."""
    match error:
        case StaleEpochError():
            envelope = Envelope(_NOTHING, type(error).__name__, str(error), epoch=error.epoch)
        case InvalidInputError() | LostPlaceError() | UnconfirmedError():
            envelope = Envelope(_NOTHING, type(error).__name__, str(error))
        case EngineError():
            envelope = Envelope(_NOTHING, EngineError.__name__, str(error), error.retryable)
        case _:
            envelope = Envelope(_NOTHING, EngineError.__name__, f"the agent failed: {error!r}")
    return encode(envelope)


def opened(data: bytes, kind: type[Document]) -> Document:
    """What an agent answered. Raises its error as it was raised there."""
    envelope = decode(data, Envelope)
    if envelope.error in _ERRORS:
        raise _ERRORS[envelope.error](envelope.message)
    match envelope.error:
        case "":
            return decode(envelope.answer, kind)
        case "StaleEpochError":
            raise StaleEpochError(envelope.message, envelope.epoch)
        case _:
            raise EngineError(envelope.message, retryable=envelope.retryable)
