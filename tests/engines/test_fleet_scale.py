"""What a fleet engine must not do with many nodes: ask all of them about each job."""

from collections import Counter

from tests.engines.fleet_story import FleetStory, spread, telling

from treadle.core.actions import Start
from treadle.core.launch import AttemptId
from treadle.engines.agent.session import JOB_TOKEN
from treadle.engines.fleet.traces import Traces

NODES = ("n0", "n1", "n2")


def asked_of(bench: FleetStory, verb: str) -> Counter[str]:
    """How often each node is asked that, from now on."""
    counted: Counter[str] = Counter()
    for name, link in bench.world.links.items():
        before = link.agent.call

        async def call(asked, document, *, name=name, before=before):
            counted[name] += asked == verb
            return await before(asked, document)

        link.agent.call = call  # type: ignore[method-assign]
    return counted


@telling()
async def test_only_the_nodes_of_a_job_are_asked_what_it_left_and_what_it_wrote(
    bench: FleetStory,
) -> None:
    bench.job("wide", "sh", "-c", "echo here")
    await bench.order(Start(0, "wide", spread("n0", "n2")))
    await bench.ended("wide", 0)
    asked = asked_of(bench, "tidy")
    (left,) = await bench.engine.tidy(["wide"])
    assert {name for name, count in asked.items() if count} == {"n0", "n2"}
    assert left.bytes > 0

    asked = asked_of(bench, "where")
    found = [await bench.engine.output(AttemptId("wide", 1), rank) for rank in range(2)]
    assert [each.data for each in found] == [b"here\n"] * 2
    assert not any(asked.values())

    await bench.crash()
    await bench.engine.adopt([])
    asked = asked_of(bench, "tidy")
    assert (await bench.engine.tidy(["wide"]))[0].bytes == left.bytes
    assert {name for name, count in asked.items() if count} == set(NODES)


@telling()
async def test_agents_forget_the_secrets_of_jobs_that_have_ended(bench: FleetStory) -> None:
    """They would keep one for each job that ever ran there."""
    bench.job("a", "true", secrets={JOB_TOKEN: "secret"})
    await bench.order(Start(0, "a", spread("n0")))
    await bench.ended("a", 0)
    session = bench.world.links["n0"].agent.session
    assert session is not None
    assert session.tokens == {"a": "secret"}, "its last reports may be on their way"
    await bench.engine.tidy(["a"])
    assert session.tokens == {}


def test_nodes_are_known_only_if_no_other_controller_launched_the_job_before():
    traces = Traces()
    traces.add(AttemptId("ours", 1, "a"), ("n0",))
    traces.add(AttemptId("ours", 2, "b"), ("n2", "n0"))
    traces.add(AttemptId("older", 2, "c"), ("n0",))
    assert traces.among(NODES, "ours") == ["n0", "n2"]
    assert traces.among(NODES, "older") == list(NODES)
    assert traces.among(NODES, "unknown") == list(NODES)
    assert traces.among(("n1", "n2"), "ours") == ["n2"], "n0 has left"


def test_old_jobs_are_forgotten():
    traces = Traces(limit=2)
    for name in "abc":
        traces.add(AttemptId(name, 1), ("n0",))
    assert [traces.among(NODES, name) for name in "abc"] == [list(NODES), ["n0"], ["n0"]]
