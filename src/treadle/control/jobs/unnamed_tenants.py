"""Tenants that no quota of the policy names, which may be misspelt."""

from treadle.core.errors import InvalidInputError
from treadle.core.wording import listed
from treadle.policies.registry import parts
from treadle.wire.quotas import by_tenant

NAMED_MAX = 8


def without_quota(policy: str, tenant: str) -> tuple[str, ...]:
    """That the policy has quotas and none is for this tenant, in one sentence.

    policy: as its user wrote it. A job without a tenant is no mistake of spelling.
    """
    named = _named(policy)
    if not tenant or not named or tenant in named:
        return ()
    others = listed(sorted(filter(None, named)), NAMED_MAX)
    return (f"no quota of the policy is for tenant {tenant}; there are some for {others}",)


def _named(policy: str) -> frozenset[str]:
    """The tenants that quotas name; none if there are none, or all tenants have the same."""
    _, _, query = parts(policy)[0].partition("?")
    for parameter in query.split("&"):
        name, _, text = parameter.partition("=")
        if name == "quotas" and ":" in text:
            try:
                return frozenset(by_tenant(policy, text))
            except InvalidInputError:  # That was said when the policy was set.
                return frozenset()
    return frozenset()
