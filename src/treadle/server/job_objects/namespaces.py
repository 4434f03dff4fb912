"""Namespaces are tenants: as whom their jobs run, and what they keep for them."""

import base64
import os
import pwd
from collections.abc import Callable

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.kubernetes.api import Api, ApiError
from treadle.engines.clusters.kubernetes.names import USER
from treadle.engines.clusters.kubernetes.watching import Watch, Watched
from treadle.server.job_objects.job_spec import Reference
from treadle.wire.machine import Role, Who


class Namespaces:
    """Those of the cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api
        nothing: Callable[[str], object] = lambda _: None  # noqa: E731
        self._watch = Watch(api, Watched("/api/v1/namespaces"), nothing)
        self.begin, self.run = self._watch.begin, self._watch.run

    def who(self, namespace: str) -> Who:
        """Who submits there. Raises InvalidInputError.

        Where Treadle is root, its jobs run as a user that the namespace's annotation names, which
        those may write who administer the cluster.
        """
        found = self._watch.objects.get(namespace, {"metadata": {}})
        user = found["metadata"].get("annotations", {}).get(USER, "")
        if os.geteuid() != 0:
            return Who(user=user or namespace, role=Role.USER)
        if not user:
            raise InvalidInputError(
                f"namespace {namespace} has no user to run jobs as; "
                f"kubectl annotate namespace {namespace} {USER}=NAME"
            )
        try:
            uid = pwd.getpwnam(user).pw_uid
        except KeyError:
            uid = 0
        if uid == 0:
            raise InvalidInputError(
                f"namespace {namespace} names the user {user}, and the controller has no such "
                "user, or it is root"
            )
        return Who(user=user, role=Role.USER, uid=uid)

    async def value(self, namespace: str, asked: Reference) -> str:
        """What an object there has. Raises InvalidInputError."""
        path = f"/api/v1/namespaces/{namespace}/{asked.resource}/{asked.name}"
        what = f"{asked.variable} comes from {asked.resource.removesuffix('s')} {asked.name}"
        try:
            found = await self._api.found(path)
        except ApiError as error:
            if error.status != 403:
                raise
            raise InvalidInputError(f"{what}, which Treadle may not read: {error}") from None
        data = (found or {}).get("data") or {}
        if asked.key not in data:
            raise InvalidInputError(f"{what}, which has no key {asked.key}")
        text = str(data[asked.key])
        try:
            return base64.b64decode(text).decode() if asked.resource == "secrets" else text
        except ValueError:
            raise InvalidInputError(f"{what}, and its key {asked.key} is no text") from None
