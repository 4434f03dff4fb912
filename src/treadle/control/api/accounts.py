"""Who asks and what they may do: by Unix user, by token, or as a job that reports on itself."""

import os
import pwd
from collections.abc import Iterable

from treadle.control.api.tokens import digest, fresh, is_job_token, is_persons, job_named
from treadle.control.jobs import JobRecord, JobTable, Person
from treadle.control.loop import Commit, on_disk, wall
from treadle.store.rows import Batch, TokenRow
from treadle.wire.machine import Role, TokenMade, TokenRequest, TokenView, Who
from treadle.wire.problems import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    NotKnownError,
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
        self._admins = admins
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
        role = Role.ADMIN if own or name in self._admins else Role.USER
        return Who(user=name, role=role, uid=uid)

    def who_of_token(self, token: str) -> Who | None:
        job = job_named(token)
        if job is not None:
            record = self._jobs.records.get(job)
            if record is None or record.state.ended:
                return None  # It has ended, and its token with it.
            if not is_job_token(self._token_key, token, job, record.nonce):
                return None
            return Who(user=record.owner, role=Role.VIEWER, job=job)
        if not is_persons(token):
            return None
        row = self._rows.get(digest(token))
        if row is None or _has_expired(row, wall()):
            return None
        if os.geteuid() == 0 and not _is_user(row.owner, row.uid):
            return None  # Their name or id may be another user's by now.
        if row.used_at is None or wall() - row.used_at > USED_EVERY_S:
            self._rows[row.digest] = row._replace(used_at=wall())
            self._used.add(row.digest)
        return Who(user=row.owner, role=Role(row.role), uid=row.uid)

    async def write_used(self) -> None:
        """Write when tokens were last used; no request waits for that."""
        used, self._used = self._used, set()
        rows = [self._rows[digest] for digest in used if digest in self._rows]
        if rows:
            await self._commit.note(Batch(tokens=rows))

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
        if request.days is not None and not 0 < request.days <= 3650:
            raise InvalidRequestError(f"days is {request.days:g}; expected above 0, at most 3650")
        self._check_room(user)
        uid = self._uid_for(who, user)
        made, now = fresh(), wall()
        expires_at = None if request.days is None else now + request.days * DAY_S
        row = TokenRow(
            made.id, made.digest, request.name, user, request.role, now, expires_at, None, uid
        )
        await on_disk(self._commit.note(Batch(tokens=[row])), self._commit.condition)
        self._rows[row.digest] = row
        return TokenMade(token=made.token, view=_view(row))

    def _check_room(self, user: str) -> None:
        """Each user has a limit of their own, so that no user can use up what others need."""
        now = wall()
        self._rows = {key: row for key, row in self._rows.items() if not _has_expired(row, now)}
        if sum(1 for row in self._rows.values() if row.owner == user) >= TOKENS_OF_ONE_MAX:
            raise ConflictError(
                f"{user} has {TOKENS_OF_ONE_MAX} tokens already; revoke some first",
                hint="treadle token revoke ID revokes one",
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

    def tokens(self, who: Who) -> tuple[TokenView, ...]:
        rows = sorted(self._rows.values(), key=lambda row: (row.created_at, row.id))
        return tuple(_view(row) for row in rows if who.role is Role.ADMIN or row.owner == who.user)

    async def revoke_token(self, who: Who, identity: str) -> None:
        row = next((row for row in self._rows.values() if row.id == identity), None)
        if row is None or (row.owner != who.user and who.role is not Role.ADMIN):
            raise NotFoundError(f"there is no token {identity!r} of yours")
        del self._rows[row.digest]  # From now on, whatever becomes of the store.
        gone = Batch(tokens=[row._replace(expires_at=0.0)])
        await on_disk(self._commit.note(gone), self._commit.condition)


def person(who: Who) -> Person:
    """The user who asks, as the machine knows them. Raises under root if it does not."""
    if os.geteuid() == 0 and who.uid != 0 and (who.uid is None or _name(who.uid) is None):
        raise NotAllowedError(
            f"this machine has no user {who.user}, and Treadle, which runs as root here, runs "
            "jobs only for users that it has"
        )
    try:
        entry = pwd.getpwuid(who.uid) if who.uid is not None else pwd.getpwnam(who.user)
    except KeyError:
        return Person(who.user, who.uid)
    return Person(who.user, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def may_touch(who: Who, record: JobRecord) -> None:
    """Raise unless the job is theirs, or they are an admin."""
    if who.role is Role.ADMIN or (record.owner == who.user and not who.job):
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
    )
