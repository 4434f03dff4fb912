"""The client against a real server on real sockets: every call, both clients."""

from collections.abc import Iterator

import pytest
from tests.server.running import Running, running

from treadle.client import Client, UnreachableError
from treadle.core.job_report import Report
from treadle.wire.jobs import JobChange, JobRequest, State
from treadle.wire.machine import Role, TokenRequest
from treadle.wire.problems import ConflictError, NotFoundError, NotKnownError

REQUEST = JobRequest(command=("true",), name="résumé")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(server.unix) as found:
        yield found


def test_every_call_comes_back_as_its_type(client: Client):
    identity = client.submit(REQUEST).id
    assert client.dry_run(REQUEST).starts_now
    assert client.hold(identity)[0].state is State.HELD
    assert client.release(identity)[0].state is State.PENDING
    assert client.change(identity, JobChange(priority=7)).priority == 7
    assert client.why(identity).code == "devices"
    client.report(identity, Report(step=5, total=10))
    progress = client.job(identity).job.progress
    assert progress is not None
    assert progress.step == 5
    assert client.nodes()[0].devices[0].name == "here:0"
    assert client.order_device("here:0", "avoid").devices[0].state == "avoided"
    assert client.order_node("here", "drain").drained
    with pytest.raises(ConflictError, match="not quarantined"):
        client.unquarantine("here:0")
    assert client.set_policy("afs").policy == "afs"
    assert client.policy().policy == "afs"
    assert client.status().store == "memory"
    assert client.health() == {"status": "ok"}
    assert client.usage()[0].tenant == "a,b"
    assert client.usage_csv().splitlines()[1] == '\'=ada,"a,b",1,1.5,,0.0'
    assert identity in client.snapshot()["jobs"]  # type: ignore[operator]
    assert b'"id": 1' in b"".join(client.journal())
    assert client.debug() == {"versions": "treadle 0"}
    assert "treadle_decisions_total 3.0" in client.metrics()
    assert client.shut_down("drain").version == "0"


def test_tokens_are_made_shown_once_and_revoked(client: Client, server: Running):
    made = client.make_token(TokenRequest(name="laptop", role=Role.VIEWER))
    assert made.token not in str(client.tokens())
    with Client(server.url, made.token) as viewer:
        assert viewer.status().store == "memory"
        client.revoke_token(made.view.id)
        with pytest.raises(NotKnownError, match="unknown, expired or revoked"):
            viewer.status()


def test_a_refusal_is_the_same_error_with_the_servers_sentence(client: Client):
    with pytest.raises(NotFoundError, match=r"^there is no job 'nope'$") as refused:
        client.job("nope")
    assert refused.value.hint == "`treadle ps -a` lists them"


def test_the_same_key_makes_nothing_new(client: Client):
    first = client.submit(REQUEST, key="k1")
    again = client.submit(REQUEST, key="k1")
    assert (again.id, again.repeated) == (first.id, True)
    with pytest.raises(ConflictError):
        client.submit(JobRequest(command=("false",)), key="k1")


def test_all_pages_are_listed(client: Client):
    for _ in range(5):
        client.submit(JobRequest(command=("true",), name="paged"))
    assert len(list(client.jobs(name="paged", page=2))) == 5


def test_an_unreachable_server_is_reported_with_its_address(tmp_path):
    client = Client(f"unix:{tmp_path}/none.sock")
    with pytest.raises(UnreachableError) as refused:
        client.status()
    assert str(refused.value) == (
        f"no Treadle server answers at unix:{tmp_path}/none.sock;"
        " start one with `treadle up`, or set TREADLE_URL"
    )
