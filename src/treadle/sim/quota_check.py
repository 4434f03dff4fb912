"""Quotas and a workload that have nothing to do with each other are refused before a run."""

from collections.abc import Iterable, Sequence

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean, listed, several
from treadle.policies.registry import factory, names, parts
from treadle.traces.workload import Workload
from treadle.wire.parameters import parameters
from treadle.wire.quotas import Quotas, quotas

# Policies whose own quotas say how many devices a tenant's guaranteed jobs may hold.
_POLICIES = ("antman", "rubick")
_NAMED_MAX = 5  # tenants in a message


def check_quotas(policy: str, workload: Workload, *, live: bool) -> None:
    """Raise if quotas name tenants that the workload does not have.

    live: the quotas are those of the live decision, which every policy has.
    """
    name, _, query = parts(policy)[0].partition("?")
    written = [pair.partition("=")[2] for pair in query.split("&") if pair.startswith("quotas=")]
    if not written:
        return
    if live:
        _check_each(quotas(name, written[-1]) or {}, workload)
    elif name in _POLICIES:
        _check_any(name, quotas(name, written[-1]) or {}, workload)
    elif name in names() and "quotas" not in parameters(factory(name)):
        raise InvalidInputError(f"{name} has no quotas of its own; add --live for those")


def _check_each(named: Quotas, workload: Workload) -> None:
    """Raise if a tenant has no job: it is most likely misspelt."""
    tenants = {job.tenant for job in workload.jobs}
    unknown = [tenant for tenant in named if tenant not in tenants]
    if unknown:
        raise InvalidInputError(
            f"no job of {workload.source} has tenant {_listed(unknown)} "
            f"(its tenants: {_known(tenants)}){did_you_mean(unknown[0], tenants)}"
        )


def _check_any(name: str, named: Quotas, workload: Workload) -> None:
    """Raise if no guaranteed job belongs to a tenant that has a quota.

    Each of them would wait for ever, and a table of the others' times would look like a result.
    """
    guaranteed = [job for job in workload.jobs if job.guaranteed]
    tenants = {job.tenant for job in guaranteed}
    if not named or not guaranteed or not tenants.isdisjoint(named):
        return
    advice = "write quotas for those" if any(tenants) else "write :64 for jobs without a tenant"
    raise InvalidInputError(
        f"{name} has quotas for {_listed(list(named))}, and no guaranteed job of "
        f"{workload.source} belongs to such a tenant (tenants of its "
        f"{several(len(guaranteed), 'guaranteed job')}: {_known(tenants)}); {advice}, "
        "or leave quotas out"
    )


def _known(tenants: Iterable[str]) -> str:
    return _listed(sorted(filter(None, tenants))) or "none"


def _listed(tenants: Sequence[str]) -> str:
    return listed([repr(tenant) for tenant in tenants], _NAMED_MAX)
