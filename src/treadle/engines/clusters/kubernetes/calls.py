"""Calls to agents: through the API server, or straight to their pods from within the cluster.

Through the API server nothing of the cluster's network must be reachable, which is how a kubeconfig
is enough; it verifies no certificate, and the token goes to the pod of that name. From within,
the certificate is the one of the Secret.
"""

import ssl
from collections.abc import Callable

import httpx2

from treadle.engines.agent.agent_errors import ClusterAwayError, LinkLostError
from treadle.engines.agent.wire import TOKEN_HEADER
from treadle.engines.clusters.kubernetes.api import Api, ApiError, ApiSilentError
from treadle.engines.clusters.kubernetes.keys import Keys
from treadle.engines.clusters.kubernetes.names import AGENT, PORT, pod_of, pods

CONNECT_WITHIN_S = 5.0


class AgentCalls:
    """Of one controller."""

    def __init__(self, api: Api, keys: Keys, address_of: Callable[[str], str]) -> None:
        """address_of: of the agent pod of a node; empty if none runs."""
        self._api, self._address_of = api, address_of
        self._headers = {TOKEN_HEADER: keys.token, "Content-Type": "application/octet-stream"}
        self._pods: httpx2.AsyncClient | None = None
        if api.inside:
            self._pods = httpx2.AsyncClient(
                verify=ssl.create_default_context(cadata=keys.certificate),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
                trust_env=False,
            )

    async def close(self) -> None:
        if self._pods is not None:
            await self._pods.aclose()

    async def ask(self, node: str, path: str, document: bytes, within_s: float) -> bytes:
        """A POST to its agent pod. Raises LinkLostError."""
        if not (address := self._address_of(node)):
            raise LinkLostError(f"node {node} has no agent pod that runs")
        if self._pods is not None:
            return await self._directly(self._pods, node, address, path, document, within_s)
        folder = f"{pods(self._api.namespace)}/https:{pod_of(node)}:{PORT}/proxy"
        try:
            return await self._api.send(
                f"{folder}/{path}", document, headers=self._headers, within_s=within_s
            )
        except ApiSilentError as error:
            raise ClusterAwayError(f"node {node} cannot be asked: {error}") from None
        except ApiError as error:
            raise LinkLostError(f"the agent of node {node} does not answer: {error}") from None

    async def _directly(
        self,
        pods: httpx2.AsyncClient,
        node: str,
        address: str,
        path: str,
        document: bytes,
        within_s: float,
    ) -> bytes:
        host = f"[{address}]" if ":" in address else address
        try:
            answer = await pods.post(
                f"https://{host}:{PORT}/{path}",
                content=document,
                headers=self._headers,
                timeout=httpx2.Timeout(within_s, connect=CONNECT_WITHIN_S),
                extensions={"sni_hostname": AGENT},
            )
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            raise LinkLostError(f"the agent of node {node} does not answer: {error!r}") from None
        return answer.content
