"""What runs in an agent pod: a first process, and the agent below it.

    python -m treadle.engines.clusters.kubernetes.agent_pod

The first process keeps the agent running: supervisors and ranks are in the same container, and
outlive it. When the pod is deleted or evicted, the agent stops what runs, as its users would, and
the pod ends then, or once Kubernetes has waited for terminationGracePeriodSeconds.
"""

import os
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.agent.agent_keeper import keep
from treadle.engines.agent.agent_service import KeptPost, Service, beat
from treadle.engines.clusters.kubernetes.access import Access, in_pod
from treadle.engines.clusters.kubernetes.agent_pods import API, KEYS
from treadle.engines.clusters.kubernetes.lease import moment
from treadle.engines.clusters.kubernetes.names import PORT, lease_of, leases

ASK_WITHIN_S = 2.0  # the API server; less than the margin of fencing
CONFLICT = 409
END = signal.SIGUSR1  # to the agent: the pod is about to end
POST = Path("/tmp/treadle-post.json")  # of the container, and gone with it


class Membership:
    """The lease of this node, which is renewed for as long as it has our name."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._folder = leases(access.namespace)
        self._http = httpx2.Client(
            base_url=access.server, verify=access.trust, timeout=ASK_WITHIN_S, trust_env=False
        )

    def renew(self, post: Post) -> bool:
        """Whether this node is a member. It blocks, and raises if the API server does not say."""
        path = f"{self._folder}/{lease_of(post.name)}"
        while True:
            found = self._ask("GET", path)
            if found is None or found["spec"].get("holderIdentity") != post.member:
                return False
            found["spec"]["renewTime"] = moment()
            if self._ask("PUT", path, found) is not None:
                return True

    def _ask(self, verb: str, path: str, body: object = None) -> Any:  # noqa: ANN401
        """None if there is none, or it has changed."""
        content = None if body is None else msgspec.json.encode(body)
        for refused in (False, True):
            headers = {
                "Authorization": f"Bearer {self._access.token(refused)}",
                "Content-Type": "application/json",
            }
            answer = self._http.request(verb, path, content=content, headers=headers)
            if answer.status_code != 401:
                break
        if answer.status_code in (404, CONFLICT):
            return None
        answer.raise_for_status()
        return msgspec.json.decode(answer.content)


def agent(descriptor: int) -> None:
    """Serve, and write to that descriptor as long as the agent's loop runs."""
    api = Path(API)
    namespace = os.environ["TREADLE_NAMESPACE"]
    membership = Membership(in_pod(os.environ, api / "token", api / "ca.crt", namespace))
    host = AgentHost(membership.renew, cluster="the API server")
    kept = KeptPost(POST)
    host.run(host.resume(kept.read))
    beat(host, descriptor)
    keys = Path(KEYS)
    service = Service(host, kept, token=(keys / "token").read_bytes())

    def end(*_: object) -> None:
        stopped = host.run(host.stop_all("its agent pod ends"))
        stopped.add_done_callback(lambda _: service.leave())

    signal.signal(END, end)
    service.serve(
        host="0.0.0.0",  # the pod's own address; a token is asked for
        port=PORT,
        ssl_certfile=keys / "tls.crt",
        ssl_keyfile=keys / "tls.key",
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )


def main() -> None:
    if sys.argv[1:2] == ["agent"]:
        agent(int(sys.argv[2]))
        return
    agents: list[int] = []

    def end(*_: object) -> None:
        for process in agents:
            os.kill(process, END)

    signal.signal(END, signal.SIG_IGN)  # Of an agent that has just begun, too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    keep(["-m", __spec__.name, "agent"], lambda process: agents.__setitem__(slice(None), [process]))


if __name__ == "__main__":
    main()
