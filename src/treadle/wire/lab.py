"""What the administrator of a machine decides for all who use it, in one file.

docs/configuration.md has every field. The text is kept as it was written, with its comments; it
counts as a whole or not at all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.wire.notation import duration, shown
from treadle.wire.retention import Keep, Keeping
from treadle.wire.yaml_tree import Items, Pairs, Text, Tree, kind_of, read_yaml

EVERY_USER = "*"
Hint = Any  # a type, as it is annotated
Made = Any  # a value of it
AS_TENANT = "@"  # before a name that is a tenant's, where users' may stand as well

_NAME = r"^[A-Za-z0-9_.-][A-Za-z0-9_.@-]{0,63}$"
Name = Annotated[str, msgspec.Meta(pattern=_NAME, description="a name")]
Names = Annotated[tuple[Name, ...], msgspec.Meta(description="names such as [ann, bob]")]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="a whole number, 0 or more")]
Moments = Annotated[
    tuple[Literal["start", "end", "fail", "preempt"], ...],
    msgspec.Meta(description="some of [start, end, fail, preempt]"),
]
# URLs of Apprise, or a program with its arguments, whose path begins with a slash.
Address = Annotated[str, msgspec.Meta(pattern=r"^(/|[a-z][a-z0-9]*://)", max_length=1000)]
Addresses = Annotated[
    tuple[Address, ...],
    msgspec.Meta(max_length=8, description="addresses such as [mailto://host, /usr/bin/tell]"),
]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e6, description="a number above 0")]


class Span(float):
    """Seconds, written as 90s, 12h or 2d."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    running: Count | None = None  # jobs that have devices
    queued: Count | None = None  # jobs that have not ended and have none
    devices: Count | None = None  # that they have at once
    time_limit: Span | None = None  # the longest that a job may ask for

    def over(self, general: "Limits") -> "Limits":
        """These, and the general ones where these say nothing."""
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        return msgspec.structs.replace(general, **{k: v for k, v in own.items() if v is not None})


class Notices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whom to tell of a user's jobs, and when."""

    to: Addresses | None = None  # `{user}` in it is the user's name
    on: Moments | None = None

    def over(self, general: "Notices") -> "Notices":
        """These, and the general ones where these say nothing."""
        to = general.to if self.to is None else self.to
        return Notices(to=to, on=general.on if self.on is None else self.on)


class UserRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    weight: Weight = 1.0
    limits: Limits = Limits()
    notify: Notices = Notices()


class TenantRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    members: Names | None = None  # None: everybody
    quota: Count | None = None  # devices that it is entitled to
    limits: Limits = Limits()  # of all its jobs together

    def has(self, user: str) -> bool:
        return self.members is None or user in self.members


class Lab(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    policy: str = ""
    fair: str = ""
    keep_logs: str = ""
    keep_records: str = ""
    limits: Limits = Limits()  # of each user, where it has none of its own
    notify: Notices = Notices()  # likewise
    users: dict[Name, UserRules] = {}
    tenants: dict[Name, TenantRules] = {}

    @classmethod
    def of(cls, text: str, name: str = "the configuration") -> "Lab":
        """From the text of a file; raises InvalidInputError with the line that is wrong."""
        found: Lab = _struct(cls, read_yaml(name, text), name)
        for what in ("keep_logs", "keep_records"):
            if getattr(found, what):
                Keep.of(getattr(found, what), f"{name}: {what}")
        return found

    def notices_of(self, user: str) -> Notices:
        own = self.users.get(user, UserRules())
        return own.notify.over(self.notify).over(Notices(on=("fail",)))

    def keeping(self, options: Keeping) -> Keeping:
        """What is kept of ended jobs. options: where this says nothing."""
        return Keeping(
            logs=Keep.of(self.keep_logs, "keep_logs") if self.keep_logs else options.logs,
            records=Keep.of(self.keep_records, "keep_records")
            if self.keep_records
            else options.records,
        )

    def limits_of(self, user: str, tenant: str) -> Iterator[tuple[str, Limits]]:
        """What bounds a job, and whom each of these limits is for."""
        own = self.users.get(user, UserRules())
        yield user, own.limits.over(self.limits)
        if tenant in self.tenants:
            yield f"tenant {tenant}", self.tenants[tenant].limits

    def tenant_of(self, user: str, asked: str) -> str:
        """The tenant of a job; raises InvalidInputError if the user does not belong to it."""
        if not self.tenants:
            return asked
        own = [name for name, rules in self.tenants.items() if rules.has(user)]
        if asked:
            if asked in own:
                return asked
            known = asked in self.tenants
            problem = f"{user} is no member of it" if known else "there is no such tenant"
            yours = f"; {user} belongs to {', '.join(own)}" if own else ""
            raise InvalidInputError(f"tenant is {shown(asked)}, and {problem}{yours}")
        named = [name for name in own if self.tenants[name].members is not None]
        return named[0] if len(named) == 1 else ""

    def settings(self) -> dict[str, str]:
        """What it says to the live decision, as parameters of a policy."""
        found = {}
        quotas = {name: rules.quota for name, rules in self.tenants.items()}
        if any(quota is not None for quota in quotas.values()):
            found["quotas"] = "/".join(f"{name}:{quota or 0}" for name, quota in quotas.items())
        weights = [f"{name}:{rules.weight:g}" for name, rules in self.users.items()]
        if weights and self.fair.lower() != "off":
            found["fair"] = "/".join([self.fair or "1d", *weights])
        elif self.fair:
            found["fair"] = self.fair
        if limits := "/".join(self._limits()):
            found["limits"] = limits
        return found

    def _limits(self) -> Iterable[str]:
        """As policies/live/limits.py reads them."""
        users = {name: rules.limits.over(self.limits) for name, rules in self.users.items()}
        tenants = {f"{AS_TENANT}{name}": rules.limits for name, rules in self.tenants.items()}
        for name, each in {**users, **tenants, EVERY_USER: self.limits}.items():
            numbers = [each.devices, each.running]
            if numbers != [None, None]:
                yield ":".join([name, *("" if n is None else str(n) for n in numbers)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigView:
    version: int  # 0: none was ever set
    text: str
    set_by: str = ""
    set_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    text: str
    version: int | None = None  # that it is a change of; another one meanwhile is a conflict


def longest_s(limits: Iterable[tuple[str, Limits]]) -> tuple[float, str]:
    """The longest time limit that a job may have, and whose limit that is."""
    found = [
        (float(each.time_limit), whose) for whose, each in limits if each.time_limit is not None
    ]
    return min(found, default=(inf, ""))


def _value(kind: Hint, tree: Tree, where: str) -> Made:
    """A part of the file as what it is to be."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind, tree, where)
    origin: Hint = get_origin(kind)
    if origin is dict:
        if isinstance(tree, Text) and tree.text is None:
            return {}
        if not isinstance(tree, Pairs):
            raise _refused(where, tree, "names, each with its rules")
        of_name, of_value = get_args(kind)
        for key, line in tree.lines.items():
            _leaf(of_name, Text(key, line), where)
        return {key: _value(of_value, each, where) for key, each in tree.values.items()}
    return _leaf(kind, tree, where)


def _struct(kind: Hint, tree: Tree, where: str) -> Made:
    known = get_type_hints(kind, include_extras=True)
    names = ", ".join(known)
    if isinstance(tree, Text) and tree.text is None:
        return kind()
    if not isinstance(tree, Pairs):
        raise _refused(where, tree, f"some of {', '.join(known)}")
    for key, line in tree.lines.items():
        if key not in known:
            raise InvalidInputError(
                f"{where} line {line}: {shown(key)} is not known here; expected one of "
                f"{names}{did_you_mean(key, tuple(known))}"
            )
    return kind(**{key: _value(known[key], each, where) for key, each in tree.values.items()})


def _leaf(kind: Hint, tree: Tree, where: str) -> Made:
    try:
        return msgspec.convert(_plain(tree), kind, strict=False, dec_hook=_span)
    except (msgspec.ValidationError, InvalidInputError):
        raise _refused(where, tree, _expected(kind)) from None


def _plain(tree: Tree) -> object:
    if isinstance(tree, Items):
        return [_plain(each) for each in tree.items]
    return {} if isinstance(tree, Pairs) else tree.text if tree.text is not None else ()


def _span(kind: type, value: object) -> object:
    if kind is not Span:
        raise ValueError
    return Span(duration(value if isinstance(value, str) else "", "it"))


def _expected(kind: Hint) -> str:
    """What stands there, for the sentence that refuses something else."""
    for each in (kind, *get_args(kind)):
        if each is Span:
            return "a time such as 12h or 2d"
        for meta in getattr(each, "__metadata__", ()):
            return str(meta.description)
    return "a text"


def _refused(where: str, tree: Tree, expected: str) -> InvalidInputError:
    found = kind_of(tree)
    if isinstance(tree, Items) and all(isinstance(each, Text) for each in tree.items):
        found = shown(f"[{', '.join(str(_plain(each)) for each in tree.items)}]")
    return InvalidInputError(f"{where} line {tree.line}: expected {expected}, found {found}")
