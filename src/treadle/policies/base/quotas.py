"""What is left of a quota during a decision."""

from treadle.core.job import JobSpec
from treadle.wire.quotas import Quotas


class Left:
    """What is left of each tenant's quota, or of the whole cluster if there are no quotas."""

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
