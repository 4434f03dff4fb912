"""Requests to an API server: the verbs that are needed, and watches."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import msgspec

from treadle.core.errors import EngineError, InvalidInputError
from treadle.engines.clusters.kubernetes.access import Access

ANSWER_WITHIN_S = 15.0
CONNECT_WITHIN_S = 5.0
WATCH_S = 240  # then the server ends a watch, and it is asked for again

Object = dict[str, Any]

logging.getLogger("httpx2").setLevel(logging.WARNING)  # It would write a line for each request.


class ApiError(EngineError):
    """The API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message, retryable=status in (429, 500, 503, 504))
        self.status, self.reason = status, reason


class ApiSilentError(EngineError):
    """The API server does not answer."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the API server does not answer: {error or repr(error)}", retryable=True)


class Api:
    """One API server. It belongs to the event loop that it is used on first."""

    def __init__(self, access: Access) -> None:
        self.namespace, self.inside = access.namespace, access.inside
        self._token = access.token
        self._http = httpx2.AsyncClient(
            base_url=access.server,
            verify=access.trust,
            timeout=httpx2.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Object:
        return await self._object("GET", path, params=params)

    async def found(self, path: str) -> Object | None:
        """The object, or None if there is none."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def create(self, path: str, body: Object) -> Object:
        """Raises ApiError with status 409 if there is one of that name."""
        return await self._object("POST", path, body)

    async def replace(self, path: str, body: Object) -> Object:
        """With the version that the body names; ApiError 409: it has changed meanwhile."""
        return await self._object("PUT", path, body)

    async def patch(self, path: str, body: Object) -> Object:
        """A merge patch; with a version in its metadata only if that is the newest (409)."""
        return await self._object("PATCH", path, body, kind="application/merge-patch+json")

    async def delete(self, path: str, uid: str = "", grace_s: int | None = None) -> None:
        """uid: of the one that is meant. What is gone already, or another one, is left as it is."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._object("DELETE", path, body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def send(
        self, path: str, body: bytes, *, headers: Mapping[str, str], within_s: float
    ) -> bytes:
        """A POST that the server passes on as it is."""
        answer = await self._request("POST", path, body, headers=headers, within_s=within_s)
        if answer.is_error:
            raise _refused(answer.status_code, answer.content)
        return answer.content

    async def watch(
        self, path: str, params: Mapping[str, str], quiet_s: float
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes behind params["resourceVersion"], until the server ends it.

        quiet_s: without a word for so long, it is taken for silent. Raises ApiError with status 410
        if that version is too old.
        """
        asked = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        limits = httpx2.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S, read=quiet_s)
        headers = await self._headers(refused=False)
        try:
            async with self._http.stream(
                "GET", path, params={**params, **asked}, headers=headers, timeout=limits
            ) as answer:
                if answer.is_error:
                    raise _refused(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    if not line:
                        continue
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError(
                            status.get("code", 500), status.get("reason", ""), str(status)
                        )
                    yield event["type"], event["object"]
        except (httpx2.HTTPError, msgspec.DecodeError) as error:
            raise ApiSilentError(error) from None

    async def _object(
        self,
        verb: str,
        path: str,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> Object:
        sent = b"" if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": kind}
        answer = await self._request(verb, path, sent, params=params, headers=headers)
        if answer.is_error:
            raise _refused(answer.status_code, answer.content)
        found: Object = msgspec.json.decode(answer.content)
        return found

    async def _request(
        self,
        verb: str,
        path: str,
        body: bytes,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> httpx2.Response:
        for last in (False, True):
            sent = {"Content-Type": "application/json", **await self._headers(refused=last)}
            try:
                async with asyncio.timeout(within_s):
                    answer = await self._http.request(
                        verb,
                        path,
                        params=params,
                        content=body or None,
                        headers={**sent, **(headers or {})},
                        timeout=httpx2.Timeout(within_s, connect=CONNECT_WITHIN_S),
                    )
            except (httpx2.HTTPError, TimeoutError) as error:
                raise ApiSilentError(error) from None
            if answer.status_code != 401 or last:
                break
        return answer

    async def _headers(self, *, refused: bool) -> dict[str, str]:
        token = await asyncio.to_thread(self._token, refused)
        return {"Authorization": f"Bearer {token}"} if token else {}


def _refused(status: int, content: bytes) -> ApiError:
    """As the server says it: a Status, or the text of a proxy."""
    reason, message = "", content[:300].decode(errors="replace")
    with contextlib.suppress(msgspec.MsgspecError, AttributeError):
        found = msgspec.json.decode(content)
        reason, message = found.get("reason", ""), found.get("message") or message
    return ApiError(status, reason, message)


def said(error: EngineError, who: str) -> InvalidInputError:
    """The sentence for an error at the beginning, which its user can mend."""
    if isinstance(error, ApiError) and error.status == 401:
        return InvalidInputError(f"the API server of {who} does not know this user")
    if isinstance(error, ApiError) and error.status == 403:
        return InvalidInputError(f"the API server of {who} does not allow it: {error}")
    return InvalidInputError(f"the cluster of {who} cannot be used: {error}")
