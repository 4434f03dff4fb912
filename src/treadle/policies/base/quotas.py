"""How many devices the promises of each tenant may use."""

from collections.abc import Mapping

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec

Quotas = Mapping[str, float]  # devices by tenant; a tenant that is not named has none


def quotas(policy: str, text: str) -> Quotas | None:
    """What a user wrote, as a:32/b:16; None where nothing was, and everybody may use all."""
    if not text:
        return None
    found: dict[str, float] = {}
    for part in text.split("/"):
        tenant, _, devices = part.rpartition(":")
        if not devices.isascii() or not devices.isdigit():
            raise InvalidInputError(f"{policy} quotas are written a:32/b:16, not {text!r}")
        if tenant in found:
            raise InvalidInputError(f"{policy} quotas name tenant {tenant!r} twice: {text!r}")
        found[tenant] = float(devices)
    return found


class Left:
    """What is left of each tenant's quota; without quotas, of all there is."""

    def __init__(self, given: Quotas | None, supply: float) -> None:
        self._shared = given is None
        self._left = {"": float(supply)} if given is None else dict(given)

    def of(self, spec: JobSpec) -> float:
        return self._left.get(self._name(spec), 0.0)

    def use(self, spec: JobSpec, devices: float) -> None:
        name = self._name(spec)
        self._left[name] = self._left.get(name, 0.0) - devices

    def _name(self, spec: JobSpec) -> str:
        return "" if self._shared else spec.tenant
