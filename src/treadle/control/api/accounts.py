"""Who asks and what they may do: by Unix user, by token, or as a job that reports on itself."""

import os
import pwd
from collections.abc import Callable, Iterable
from contextlib import suppress

from treadle.control.api.tokens import digest, fresh, is_job_token, is_persons, job_named
from treadle.control.jobs import JobRecord, JobTable, Person
from treadle.control.loop import Commit, on_disk, wall
from treadle.store.errors import StoreError
from treadle.store.rows import Batch, TokenRow
from treadle.wire.machine import Role, TokenMade, TokenRequest, TokenView, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotKnownError,
    UnknownNameError,
)

DAY_S = 86_400.0
TOKENS_OF_ONE_MAX = 100  # that have not expired
USED_EVERY_S = 300.0  # how often it is written down that a token was used


class Accounts:
    """Names, roles and tokens."""

    def __init__(
        self,
        jobs: JobTable,
        commit: Commit,
        rows: Iterable[TokenRow],
        *,
        token_key: bytes,
        admins: frozenset[str],
    ) -> None:
        self._jobs = jobs
        self._commit = commit
        self._token_key = token_key
        # The users who have these names now; a name can be another user's later.
        self._admins = frozenset(_uid(name) for name in admins) - {None}
        now = wall()
        self._rows: dict[str, TokenRow] = {
            row.digest: row for row in rows if not _has_expired(row, now)
        }
        self._used: set[str] = set()  # digests of tokens whose use is not written down yet

    def who_of_uid(self, uid: int) -> Who:
        """The peer of a Unix socket. Raises under root if the machine does not know that user."""
        name = _name(uid)
        if name is None:
            if uid != os.geteuid() and os.geteuid() == 0:
                raise NotKnownError(
                    f"this machine has no user with the id {uid}, and Treadle, which runs as "
                    "root here, serves only users that it has"
                )
            name = f"uid{uid}"
        own = uid in (0, os.geteuid())
        role = Role.ADMIN if own or uid in self._admins else Role.USER
        return Who(user=name, role=role, uid=uid)

    def who_of_token(self, token: str, address: str = "") -> Who | None:
        """The owner of a token, if it is still theirs; `address` is where it came from."""
        job = job_named(token)
        if job is not None:
            record = self._jobs.records.get(job)
            if record is None or record.state.ended:
                return None  # It has ended, and its token with it.
            if not is_job_token(self._token_key, token, job, record.nonce):
                return None
            return Who(user=record.owner, role=Role.VIEWER, uid=record.uid, job=job)
        return self._who_of_digest(digest(token), address) if is_persons(token) else None

    def looking_up(self, token: str, address: str = "") -> Callable[[], Who | None]:
        """Looks the owner of a person's token up again, and keeps only its digest for that."""
        kept = digest(token)
        return lambda: self._who_of_digest(kept, address)

    def _who_of_digest(self, kept: str, address: str) -> Who | None:
        row = self._rows.get(kept)
        if row is None or _has_expired(row, wall()):
            return None
        if not _is_still(row):
            return None  # Their name or id may be another user's by now.
        late = row.used_at is None or wall() - row.used_at > USED_EVERY_S
        if late or (row.used_from or "") != address:
            self._rows[row.digest] = row._replace(used_at=wall(), used_from=address)
            self._used.add(row.digest)
        return Who(user=row.owner, role=Role(row.role), uid=row.uid, expires_at=row.expires_at)

    async def write_used(self) -> None:
        """Write when tokens were last used; no request waits for that."""
        used, self._used = self._used, set()
        rows = [self._rows[digest] for digest in used if digest in self._rows]
        if rows:
            try:
                await self._commit.note(Batch(tokens=rows))
            except StoreError:
                self._used |= used
                raise

    async def make_token(self, who: Who, request: TokenRequest) -> TokenMade:
        user = request.user or who.user
        if user != who.user and who.role is not Role.ADMIN:
            raise NotAllowedError(f"only an admin makes tokens for {user}; you are {who.user}")
        if request.role.level > who.role.level:
            raise NotAllowedError(
                f"a token cannot have the role {request.role}: yours is {who.role}, and "
                "you cannot grant more than you have"
            )
        if not request.name.strip() or len(request.name) > 64 or not request.name.isprintable():
            raise InvalidRequestError("a token needs a name of up to 64 printable characters")
        if not user.isprintable() or not 0 < len(user) <= 64:
            raise InvalidRequestError("user must be a name of up to 64 printable characters")
        if request.days is None or not 0 < request.days <= 3650:
            raise InvalidRequestError("a token expires: days should be above 0 and at most 3650")
        uid = self._uid_for(who, user)
        self._check_room(Who(user=user, role=request.role, uid=uid))
        made, now = fresh(), wall()
        expires_at = now + request.days * DAY_S
        row = TokenRow(
            made.id, made.digest, request.name, user, request.role, now, expires_at, None, uid
        )
        await on_disk(self._commit.note(Batch(tokens=[row])), self._commit.condition)
        self._rows[row.digest] = row
        return TokenMade(token=made.token, view=_view(row))

    def _check_room(self, owner: Who) -> None:
        """Each user has a limit of their own, so that no user can use up what others need."""
        now = wall()
        self._rows = {key: row for key, row in self._rows.items() if not _has_expired(row, now)}
        own = sum(1 for row in self._rows.values() if owner.is_owner(row.owner, row.uid))
        if own >= TOKENS_OF_ONE_MAX:
            raise ConflictError(
                f"{owner.user} has {TOKENS_OF_ONE_MAX} tokens already; revoke some first",
                hint="treadle token revoke ID revokes one, treadle token revoke --all all of them",
            )

    @staticmethod
    def _uid_for(who: Who, user: str) -> int | None:
        """The user id that a token is bound to; under root there must be one."""
        uid = who.uid if user == who.user else _uid(user)
        if os.geteuid() != 0:
            return uid
        if uid is None or not _is_user(user, uid):
            raise InvalidRequestError(
                f"this machine has no user {user}, and Treadle, which runs as root here, makes "
                "tokens only for users that it has"
            )
        if uid == 0 and who.uid != 0:
            raise NotAllowedError("only root makes tokens for root")
        return uid

    def tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        """Their own tokens; an admin's view has everybody's, or those of `user`."""
        return tuple(_view(row) for row in self._rows_for(who, user, everybody=True))

    async def revoke_token(self, who: Who, identity: str) -> None:
        row = next((row for row in self._rows.values() if row.id == identity), None)
        if row is None or not (who.role is Role.ADMIN or who.is_owner(row.owner, row.uid)):
            raise UnknownNameError(f"there is no token {identity!r} of yours")
        await self._revoke([row])

    async def revoke_tokens(self, who: Who, *, user: str = "") -> tuple[TokenView, ...]:
        """Revoke all tokens of the caller, or of `user`; returns those."""
        rows = self._rows_for(who, user, everybody=False)
        await self._revoke(rows)
        return tuple(map(_view, rows))

    async def _revoke(self, rows: list[TokenRow]) -> None:
        for row in rows:
            del self._rows[row.digest]  # From now on, whatever becomes of the store.
        if rows:
            gone = Batch(tokens=[row._replace(expires_at=0.0) for row in rows])
            await on_disk(self._commit.note(gone), self._commit.condition)

    def _rows_for(self, who: Who, user: str, *, everybody: bool) -> list[TokenRow]:
        """Those of the caller, or of the user whom an admin names, who may be gone by now."""
        admin = who.role is Role.ADMIN
        if user and user != who.user and not admin:
            raise NotAllowedError(f"only an admin sees or revokes the tokens of {user}")
        rows = sorted(self._rows.values(), key=lambda row: (row.created_at, row.id))
        if user and admin:
            return [row for row in rows if row.owner == user]
        return [row for row in rows if (admin and everybody) or who.is_owner(row.owner, row.uid)]


def person(who: Who) -> Person:
    """The user who asks, as the machine knows them. Raises under root if it does not."""
    entry = None
    with suppress(KeyError, OverflowError):
        entry = None if who.uid is None else pwd.getpwuid(who.uid)
    if entry is None and who.uid != 0 and os.geteuid() == 0:
        raise NotAllowedError(
            f"this machine has no user {who.user}, and Treadle, which runs as root here, runs "
            "jobs only for users that it has"
        )
    if entry is None:  # A token of a user whom this machine does not have.
        return Person(who.user, who.uid)
    return Person(who.user, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def may_touch(who: Who, record: JobRecord) -> None:
    """Raise unless the job is theirs, or they are an admin."""
    if who.role is Role.ADMIN or who.is_owner(record.owner, record.uid):
        return
    raise NotAllowedError(
        f"job {record.id} is {record.owner}'s; only its owner or an admin may change it"
    )


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def _uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _has_expired(row: TokenRow, now: float) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def _is_still(row: TokenRow) -> bool:
    """Whether the owner's name and id belong together as they did when the token was made.

    A daemon that is not root also serves users whom the machine does not have.
    """
    if os.geteuid() == 0 or _uid(row.owner) is not None:
        return _is_user(row.owner, row.uid)
    return row.uid is None or (_name(row.uid) is None and row.owner == f"uid{row.uid}")


def _is_user(name: str, uid: int | None) -> bool:
    """Whether the user of that name has that id now."""
    return uid is not None and _uid(name) == uid


def _view(row: TokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        name=row.name,
        user=row.owner,
        role=Role(row.role),
        created_at=row.created_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
        used_from=row.used_from or "",
        uid=row.uid,
    )
