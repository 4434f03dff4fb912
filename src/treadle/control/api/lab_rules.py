"""The configuration in force: what it asks of jobs, and how another takes its place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from treadle.control.jobs import JobRecord, JobTable
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.core.wording import several, short_span
from treadle.wire.jobs import JobChange, JobRequest
from treadle.wire.lab import ConfigView, Lab, Notices, longest_s
from treadle.wire.machine import Role, Who
from treadle.wire.notation import sizes_of
from treadle.wire.problems import InvalidRequestError, NotAllowedError, TooManyError

CONFIG = "config"  # the setting of the store
_view = msgspec.json.Decoder(ConfigView)

Waits = Callable[[JobId], bool]


@dataclass(slots=True)
class LabRules:
    """What the administrator decided, and whether a request keeps to it."""

    view: ConfigView
    lab: Lab

    @classmethod
    def restored(cls, kept: Mapping[str, str]) -> "LabRules":
        """As the last controller left it."""
        text = kept.get(CONFIG)
        view = ConfigView(version=0, text="") if text is None else _view.decode(text)
        return cls(view, Lab.of(view.text))

    @property
    def tells(self) -> bool:
        """Whether anybody has an address."""
        return any(each.to for each in (self.lab.notify, *self._own_notices()))

    def _own_notices(self) -> Iterator[Notices]:
        return (rules.notify for rules in self.lab.users.values())

    def addresses(self, user: str, what: str, asked: str) -> Sequence[str]:
        """Where a user is told of this. asked: of that job, as its user wrote it."""
        notices = self.lab.notices_of(user)
        wanted = asked.split(",") if asked else notices.on or ()
        return notices.to or () if what in wanted else ()

    def admitted(self, who: Who, request: JobRequest) -> tuple[JobRequest, tuple[str, ...]]:
        """The request as it counts here, with notes; raises where it asks for too much."""
        if self.view.version == 0:
            return request, ()
        notes = []
        try:
            tenant = request.tenant
            if who.role is not Role.ADMIN or not tenant:
                tenant = self.lab.tenant_of(who.user, tenant)
        except InvalidInputError as error:
            raise NotAllowedError(str(error)) from None
        if tenant != request.tenant:
            notes.append(f"it is charged to tenant {tenant}")
        request = replace(request, tenant=tenant)
        longest, whose = longest_s(self.lab.limits_of(who.user, tenant))
        if request.time_limit_s is None and whose:
            request = replace(request, time_limit_s=longest)
            notes.append(f"its time limit is {short_span(longest)}, the longest for {whose}")
        self.check_time_limit(who.user, tenant, request.time_limit_s)
        self._check_devices(who.user, tenant, request.devices)
        return request, tuple(notes)

    def check_time_limit(self, user: str, tenant: str, limit_s: float | None) -> None:
        longest, whose = longest_s(self.lab.limits_of(user, tenant))
        if limit_s is not None and limit_s > longest:
            raise InvalidRequestError(
                f"the time limit is {short_span(limit_s)}; the longest for {whose} is "
                f"{short_span(longest)}"
            )

    def check_change(self, who: Who, record: JobRecord, change: JobChange) -> None:
        """What a job is changed to keeps to the same rules; an admin may go beyond."""
        if who.role is Role.ADMIN:
            return
        tenant = record.tenant if change.tenant is None else change.tenant
        try:
            own = self.lab.tenant_of(record.owner, tenant)
        except InvalidInputError as error:
            raise NotAllowedError(str(error)) from None
        if own != tenant:
            raise NotAllowedError(f"jobs of {record.owner} are charged to tenant {own}")
        self.check_time_limit(record.owner, tenant, change.time_limit_s)
        if change.devices is not None:
            self._check_devices(record.owner, tenant, change.devices)

    def _check_devices(self, user: str, tenant: str, devices: str) -> None:
        try:
            least = min(sizes_of(devices))
        except InvalidInputError as error:
            raise InvalidRequestError(str(error)) from None
        for whose, limits in self.lab.limits_of(user, tenant):
            if limits.devices is not None and least > limits.devices:
                raise InvalidRequestError(
                    f"the job needs {several(least, 'device')}; {whose} may have at most "
                    f"{limits.devices} at once"
                )

    def check_queue(self, records: Sequence[JobRecord], jobs: JobTable, waits: Waits) -> None:
        """Whether so many more jobs may wait. waits: whether a job has no devices."""
        first = records[0]
        for whose, limits in self.lab.limits_of(first.owner, first.tenant):
            if limits.queued is None:
                continue
            of_user = whose == first.owner
            alike = (
                each
                for each in jobs.records.values()
                if (each.owner == first.owner if of_user else each.tenant == first.tenant)
            )
            queued = sum(waits(each.id) for each in alike)
            if queued + len(records) > limits.queued:
                already = several(queued, f"job of {whose} waits", f"jobs of {whose} wait")
                raise TooManyError(
                    f"{already}, and at most {limits.queued:,} may; this would add "
                    f"{several(len(records), 'job')}"
                )
