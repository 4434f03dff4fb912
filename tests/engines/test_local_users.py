"""Which user ranks run as: under root the job's own, or nothing is launched."""

import json
import os
import select
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, telling

from treadle.core.actions import Start
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.order_document import Paths, Surroundings, order_document

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")


@telling()
async def test_a1_the_engine_launches_nothing_without_a_user_id(
    bench: Story, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    bench.job("a", "touch", str(mark), uid=None, user="ghost")
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    assert bench.ends[0].error == (
        "job a of ghost has no user id, and Treadle, which runs as root here, launches "
        "nothing as root in its place; submit it again"
    )
    assert not mark.exists()


def test_a1_an_order_without_a_user_id_cannot_be_written(tmp_path: Path) -> None:
    launch = Launch(job="a", attempt=1, command=("id",), workdir="/", ranks=1)
    with pytest.raises(EngineError, match="has no user id") as refused:
        _order(launch, tmp_path)
    assert not refused.value.retryable


@pytest.mark.parametrize("missing", ["null", "absent"])
def test_a1_the_supervisor_refuses_an_order_without_a_user_id(tmp_path: Path, missing: str) -> None:
    """The engine writes no such order; the supervisor does not rely on that."""
    mark = tmp_path / "mark"
    launch = Launch(job="a", attempt=1, command=("touch", str(mark)), workdir="/", ranks=1, uid=0)
    order = _order(launch, tmp_path)
    if missing == "null":
        order["uid"] = None
    else:
        del order["uid"]
    server = ForkServer()
    report = server.launch(order).report
    try:
        _until_closed(report)
    finally:
        os.close(report)
        server.close()
    status = json.loads((tmp_path / "status.json").read_bytes())
    assert status["state"] == "ended"
    assert "the order names no user, and a job must not be root" in status["error"]
    assert not mark.exists()


@telling()
async def test_a1_roots_own_jobs_run_as_root(bench: Story) -> None:
    bench.job("a", "id", "-u", uid=0)
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    assert bench.log("a") == "0\n"


def _order(launch: Launch, folder: Path) -> dict[str, object]:
    return order_document(
        launch,
        on(0),
        action=0,
        tag="t",
        paths=Paths(folder, folder),
        uuids=("",),
        around=Surroundings(environment={"PATH": os.defpath}, cores=(0,)),
    )


def _until_closed(report: int) -> None:
    """Read reports until the supervisor has ended."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    while poll.poll(30_000):
        if not os.read(report, 4096):
            return
    pytest.fail("the supervisor did not end")
