"""What controller and agents share, in a Secret: a token, and the certificate of agents."""

import base64
import secrets
from typing import NamedTuple

from treadle.engines.clusters.kubernetes.api import Api, ApiError, Object
from treadle.engines.clusters.kubernetes.certificate import self_signed
from treadle.engines.clusters.kubernetes.names import AGENT, LABELS

CONFLICT = 409


class Keys(NamedTuple):
    token: str
    certificate: str


async def keys(api: Api, owner: Object) -> Keys:
    """Those of the namespace, which are made if there are none; gone with the owner."""
    folder = f"/api/v1/namespaces/{api.namespace}/secrets"
    found = await api.found(f"{folder}/{AGENT}")
    if found is None:
        try:
            found = await api.create(folder, _made(owner))
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            found = await api.get(f"{folder}/{AGENT}")
    data = {name: base64.b64decode(text).decode() for name, text in found["data"].items()}
    return Keys(data["token"], data["tls.crt"])


def _made(owner: Object) -> Object:
    made = self_signed(AGENT)
    content = {
        "token": secrets.token_urlsafe(32).encode(),
        "tls.crt": made.pem,
        "tls.key": made.key,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": AGENT, "labels": LABELS, "ownerReferences": [owner]},
        "immutable": True,
        "data": {name: base64.b64encode(each).decode() for name, each in content.items()},
    }
