"""Quotas and a workload that have nothing to do with each other are refused before a run."""

from collections.abc import Sequence

from treadle.core.errors import InvalidInputError
from treadle.core.wording import listed, several
from treadle.policies.base.quotas import quotas
from treadle.policies.registry import parts
from treadle.traces.workload import Workload

# Policies whose quotas say how many devices a tenant's guaranteed jobs may hold.
_POLICIES = ("antman", "rubick", "weave", "weave-l")
_NAMED_MAX = 5  # tenants in a message


def check_quotas(policy: str, workload: Workload) -> None:
    """Raise if quotas are given and no guaranteed job belongs to a tenant that has one.

    Each of them would wait for ever, and a table of the others' times would look like a result.
    """
    name, _, query = parts(policy)[0].partition("?")
    written = [pair.partition("=")[2] for pair in query.split("&") if pair.startswith("quotas=")]
    if name not in _POLICIES or not written:
        return
    named = quotas(name, written[-1])
    guaranteed = [job for job in workload.jobs if job.guaranteed]
    tenants = sorted({job.tenant for job in guaranteed})
    if named is None or not guaranteed or any(tenant in named for tenant in tenants):
        return
    found = _listed([tenant for tenant in tenants if tenant]) or "none"
    advice = "write quotas for those" if any(tenants) else "write :64 for jobs without a tenant"
    raise InvalidInputError(
        f"{name} has quotas for {_listed(list(named))}, and no guaranteed job of "
        f"{workload.source} belongs to such a tenant (tenants of its "
        f"{several(len(guaranteed), 'guaranteed job')}: {found}); {advice}, or leave quotas out"
    )


def _listed(tenants: Sequence[str]) -> str:
    return listed([repr(tenant) for tenant in tenants], _NAMED_MAX)
