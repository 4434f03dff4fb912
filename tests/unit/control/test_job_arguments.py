"""What the jobs of a sweep are given is known wherever they stand."""

from dataclasses import replace

from tests.unit.control.memory import ME, Bench, playing
from treadle.wire.jobs import JobRequest, State


@playing(devices=1)
async def test_members_of_an_array_are_told_apart_by_their_index_running_waiting_or_ended(
    here: Bench,
) -> None:
    text = "forever; python train.py --lr 0.$TREADLE_ARRAY_INDEX --seed ${SLURM_ARRAY_TASK_ID}"
    request = JobRequest(command=("bash", "-c", text), array="1-3", env={"DEPTH": "7"})
    array = (await here.live.submit(ME, request)).id
    await here.reached(f"{array}_1", State.RUNNING)
    here.memory.finish(f"{array}_1")
    await here.reached(f"{array}_2", State.RUNNING)
    await here.settle()
    jobs = (await here.live.jobs(array=array, ended=True)).jobs
    assert {job.state for job in jobs} == {State.RUNNING, State.PENDING, State.SUCCEEDED}
    given = {job.index: job.arguments for job in jobs}
    assert [given[n]["--lr"] for n in (1, 2, 3)] == ["0.1", "0.2", "0.3"]
    assert [given[n]["--seed"] for n in (1, 2, 3)] == ["1", "2", "3"]
    assert {each["$DEPTH"] for each in given.values()} == {"7"}
    assert not any(job.arguments for job in (await here.live.jobs(ended=True)).jobs)


@playing(devices=1)
async def test_what_no_shell_reads_is_said_to_stay_as_it_is(here: Bench) -> None:
    request = JobRequest(command=("forever", "--lr=$TREADLE_ARRAY_INDEX"), array="1-2")
    made = await here.live.submit(ME, request)
    (note,) = made.notes
    assert "bash -c" in note
    jobs = (await here.live.jobs(array=made.id, ended=True)).jobs
    assert {job.arguments["--lr"] for job in jobs} == {"$TREADLE_ARRAY_INDEX"}
    assert not (await here.live.submit(ME, replace(request, array=""))).notes
