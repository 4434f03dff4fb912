"""What each format means, on two or three lines of it."""

import gzip
import json
import re

import pytest

from treadle.core.errors import InvalidInputError
from treadle.core.job import JobSpec, Profile
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.traces.load import load


def one(written, text, name="trace.csv"):
    workload = load(written(text, name))
    assert len(workload.jobs) == 1
    return workload.jobs[0], workload


def lasts_s(job):
    return job.iterations * job.profile.iteration_s


TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def test_tiresias_counts_the_duration_as_iterations_of_a_second(written):
    job, workload = one(written, TIRESIAS + "7,4,67,999,vgg11,83,20\n")
    assert (job.id, job.iterations, job.sizes, job.submit_at) == ("7", 83.0, (4,), 67.0)
    assert (job.profile.compute_s, job.profile.size, job.profile.model) == (1.0, 4, "vgg11")
    assert workload.format == "tiresias"


def test_columns_may_come_in_any_order_and_lines_may_end_the_windows_way(written):
    job, _ = one(written, "duration,num_gpu,job_id,submit_time\r\n83,4,a,67\r\n")
    assert (job.id, job.iterations, job.asked, job.submit_at) == ("a", 83.0, 4, 67.0)


def test_jobs_are_sorted_by_submission_and_ties_keep_the_order_of_the_file(written):
    text = TIRESIAS + "a,1,9,1,m,1,0\nb,1,5,1,m,1,0\nc,1,5,1,m,1,0\n"
    workload = load(written(text))
    assert [job.id for job in workload.jobs] == ["b", "c", "a"]
    assert workload.place("a") == "trace.csv line 2"


def test_gzip_is_detected_by_its_bytes_and_not_by_its_name(written):
    packed = gzip.compress((TIRESIAS + "a,1,0,1,m,5,0\n").encode())
    job, _ = one(written, packed, "trace.csv")
    plain, _ = one(written, TIRESIAS + "a,1,0,1,m,5,0\n", "trace.csv.gz")
    assert job == plain


def test_a_byte_order_mark_blank_lines_and_notes_are_no_obstacle(written):
    text = b"\xef\xbb\xbf# licence: ours\n\n" + TIRESIAS.encode() + b"\na,1,0,1,m,5,0\n"
    job, workload = one(written, text)
    assert workload.notes[0] == "licence: ours"
    assert workload.place(job.id) == "trace.csv line 5"


def test_muri_is_in_milliseconds_and_priority_1_has_no_guarantee(written):
    header = (
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
        "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
    )
    job, _ = one(written, header + "1,8,1534000,1463,vgg16,16,281000,28000,214,82,75,66,1\n")
    assert (job.submit_at, job.iterations, job.profile.iteration_s) == (1534.0, 1463.0, 0.214)
    assert not job.guaranteed


def test_chronus_is_in_minutes_with_deadlines_for_strict_jobs_only(written):
    header = (
        "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
        "expect_time_list,expect_value_list,best_effort,job_type\n"
    )
    workload = load(
        written(
            header
            + "0,vc_a,1,10,5049,vgg16,7,14,11,10,0,strict\n"
            + "1,vc_a,1,10,5049,vgg16,7,14,10,10,1,best\n"
            + "2,vc_a,0,10,5049,vgg16,7,14,10,10,1,best\n"
        )
    )
    strict, best = workload.jobs
    assert (strict.submit_at, strict.iterations, strict.tenant) == (600.0, 420.0, "vc_a")
    assert (strict.deadline_at, strict.guaranteed) == (600.0 + 660.0, True)
    assert (best.deadline_at, best.guaranteed) == (None, False)
    assert "left out 1 jobs without GPUs" in workload.notes


def test_philly_keeps_the_virtual_cluster_and_how_a_job_ended(written):
    header = "job_id,submit_s,submit_utc,vc,num_gpus,duration_s,status\n"
    job, workload = one(written, header + "3,266564,2017-08-18 01:29:44,6214e9,8,51,NotPass\n")
    assert (job.submit_at, job.asked, job.iterations, job.tenant) == (266564.0, 8, 51.0, "6214e9")
    assert workload.statuses == {"3": "not passed"}


def _attempt(start, end, *gpus):
    detail = [{"ip": f"m{number}", "gpus": list(some)} for number, some in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def test_phillys_official_log_adds_attempts_up_and_counts_the_gpus_of_the_first(written):
    log = [
        {
            "status": "Killed",
            "vc": "ee9e8c",
            "jobid": "application_1",
            "attempts": [
                _attempt("2017-10-09 07:02:44", "2017-10-09 07:03:44", ["gpu0", "gpu1"], ["gpu0"]),
                _attempt("2017-10-09 08:00:00", "2017-10-09 08:00:05", ["gpu0"]),
                _attempt("2017-10-09 09:00:00", "None", ["gpu0"]),
            ],
            "submitted_time": "2017-10-09 07:02:00",
            "user": "ce2",
        },
        {
            "status": "Pass",
            "vc": "ee9e8c",
            "jobid": "application_2",
            "attempts": [_attempt("2017-10-09 07:00:00", "2017-10-09 07:00:09", ["gpu0"])],
            "submitted_time": "2017-10-09 06:00:00",
            "user": "ce3",
        },
        {
            "status": "Failed",
            "vc": "ee9e8c",
            "jobid": "application_3",
            "attempts": [],
            "submitted_time": "2017-10-09 06:00:00",
            "user": "ce3",
        },
    ]
    for text in (json.dumps(log), json.dumps(log, indent=1)):
        workload = load(written(text, "cluster_job_log"))
        second, first = workload.jobs
        assert (first.iterations, first.asked, first.owner) == (65.0, 3, "ce2")
        assert (second.submit_at, first.submit_at) == (0.0, 3720.0)
        assert workload.statuses == {"application_1": "killed", "application_2": "passed"}
        assert workload.notes[-1].startswith("left out 1 jobs without")


def test_phillys_official_log_is_read_across_blocks(written, monkeypatch):
    monkeypatch.setattr("treadle.traces.source._BLOCK_BYTES", 37)
    job = {
        "status": "Pass",
        "vc": "é",
        "attempts": [_attempt("2017-10-09 07:00:00", "2017-10-09 07:00:09", ["gpu0"])],
        "submitted_time": "2017-10-09 06:00:00",
    }
    log = [job | {"jobid": f"job {number}"} for number in range(5)]
    text = json.dumps(log, indent=2, ensure_ascii=False)
    begins = [number for number, line in enumerate(text.split("\n"), 1) if line == "  {"]
    workload = load(written(text, "log"))
    assert [one.id for one in workload.jobs] == [f"job {number}" for number in range(5)]
    assert workload.jobs[0].tenant == "é"
    assert [workload.lines[job.id] for job in workload.jobs] == begins


def test_itp_and_elasticflow_are_in_seconds_and_the_latter_has_deadlines(written):
    raw, _ = one(written, "job_id,submission_time,duration,num_gpu\nx,5010,1265,8\n")
    assert (raw.submit_at, raw.iterations, raw.asked, raw.deadline_at) == (5010, 1265, 8, None)
    header = (
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    )
    job, _ = one(written, header + "x,3715485,3249,deepspeech2,3716178,32,1,1075\n")
    assert (job.iterations, job.deadline_at, job.profile.model) == (1075, 3716178, "deepspeech2")


def test_gavels_steps_run_at_the_measured_speed_of_the_job_type(written):
    fields = ["LM (batch size 80)", 'python3 main.py "--cuda', "lm", "--steps", "1", "28240", "1"]
    job, _ = one(written, "\t".join([*fields, "1", "-1.000000", "55"]) + "\n", "x.trace")
    assert (job.id, job.iterations, job.submit_at) == ("0", 28240.0, 55.0)
    assert lasts_s(job) == pytest.approx(1000.0)


def test_shockwave_gives_the_duration_itself(written):
    fields = ["LM (batch size 80)", "python3 main.py", "lm", "--steps", "1", "28240", "2", "gns"]
    job, workload = one(written, "\t".join([*fields, "1", "-1.000000", "1418", "55"]), "x.trace")
    assert (workload.format, job.asked, lasts_s(job), job.submit_at) == ("shockwave", 2, 1418, 55)


def test_pollux_jobs_get_the_measured_iterations_and_step_time(written):
    header = "name,time,application,num_replicas,batch_size\n"
    job, workload = one(written, header + "cifar10-0,107,cifar10,1,128\n")
    assert (job.iterations, job.submit_at) == (39062.0, 107.0)
    assert job.profile.iteration_s == pytest.approx(0.104, rel=0.05)  # as measured on one T4
    assert "estimated" in workload.notes[0]


def test_pollux_batches_between_the_measured_ones_are_interpolated(written):
    header = "name,time,application,num_replicas,batch_size\n"
    job, _ = one(written, header + "cifar10-0,107,cifar10,1,181\n")
    assert 20377 < job.iterations < 39062
    larger, _ = one(written, header + "cifar10-0,107,cifar10,16,8192\n")
    assert larger.iterations == pytest.approx(2011 / 2)


def test_s10_rubick_guarantees_and_tenants_follow_is_sla_where_the_file_tells_jobs_apart(written):
    header = (
        "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,"
        "steps,is_sla\n"
    )
    rows = ("vit-0,0,3163.5,vit,2,16,0,zero-dp,37239,0\n", "t5-1,3,9,t5,4,32,0,ga,8109,1\n")
    apart = load(written(header + rows[0] + rows[1]))
    assert [job.guaranteed for job in apart.jobs] == [False, True]
    assert [job.tenant for job in apart.jobs] == ["B", "A"]
    first = apart.jobs[0]
    assert first.iterations * first.profile.iteration_s == pytest.approx(3163.5)
    alike = load(written(header + rows[0]))
    assert alike.jobs[0].guaranteed
    assert alike.jobs[0].tenant == ""
    assert "is_sla is 0 in every row: every job counts as guaranteed" in alike.notes


@pytest.mark.parametrize(
    ("gpus", "text", "plan"),
    [
        (48, "624", Plan(tensor=2, pipeline=6, data=4)),
        (5, "151", Plan(tensor=5, pipeline=1, data=1)),
        (4, "ga", Plan(data=4)),
        (4, "gc", Plan(data=4, recompute=True)),
        (2, "zero-dp", Plan(data=2, shard="gradients")),
        (2, "zero-offload", Plan(data=2, shard="gradients", offload=True)),
    ],
)
def test_rubick_jobs_count_steps_and_name_their_plan(written, gpus, text, plan):
    header = "name,submission_time,duration,application,num_gpus,exec_plan,steps,is_sla\n"
    job = load(written(header + f"a,0,50,gpt2,{gpus},{text},100,0\n")).jobs[0]
    assert (job.iterations, job.profile.iteration_s, job.sizes) == (100, 0.5, (gpus,))
    assert job.plans == (plan, DATA_PARALLEL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("222", "exec_plan 222 does not make num_gpus 4"),
        ("zero", "exec_plan is 'zero'; expected ga, gc, zero-dp, zero-offload or three digits"),
        ("240", "exec_plan is '240'; expected ga, gc, zero-dp, zero-offload or three digits"),
    ],
)
def test_rubick_plans_that_make_no_sense_are_refused(written, text, message):
    header = "name,submission_time,duration,application,num_gpus,exec_plan,steps,is_sla\n"
    with pytest.raises(InvalidInputError, match=re.escape(f"line 2: {message}")):
        load(written(header + f"a,0,50,gpt2,4,{text},100,0\n"))


def test_openb_gives_whole_gpus_and_counts_what_it_leaves_out(written):
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
        "creation_time,deletion_time,scheduled_time\n"
    )
    workload = load(
        written(
            header
            + "part,1,1,1,460,,LS,Running,100,160,110\n"
            + "waited,1,1,2,1000,,BE,Pending,100,130,\n"
            + "processor,1,1,0,0,,LS,Running,100,160,110\n"
            + "endless,1,1,1,1000,,LS,Running,100,,110\n"
            + "instant,1,1,1,1000,,LS,Running,100,110,110\n"
        )
    )
    part, waited = workload.jobs
    assert (part.asked, part.iterations, part.submit_at, part.guaranteed) == (1, 50.0, 100.0, True)
    assert (waited.asked, waited.iterations, waited.guaranteed) == (2, 30.0, False)
    assert "1 pods asked for part of a GPU and are given a whole one" in workload.notes
    assert [note for note in workload.notes if note.startswith("left out")] == [
        "left out 1 pods that ended when they began",
        "left out 1 pods without GPUs",
        "left out 1 pods without an end",
    ]


def test_afs_recovers_the_duration_from_the_service_and_the_speed_up(written):
    header = "app_id,submit_time,service,num_jobs,sleep_time,model_name\n"
    service = 1000 * 3.020532 / 0.868694
    job, _ = one(written, header + f"1,219316.0,{service},4,0.0,VggnetModel256\n")
    assert (job.iterations, job.asked) == (1000.0, 4)
    halfway = 1000 * 3.020532 / ((1.659208 + 0.868694) / 2)
    job, _ = one(written, header + f"1,219316.0,{halfway},3,0.0,VggnetModel256\n")
    assert job.iterations == 1000.0


def test_empty_cells_of_a_treadle_trace_are_defaults(written):
    header = "id,submit_s,sizes,iterations,host_memory_gib,asked,compute_s,deadline_s,tenant\n"
    job, _ = one(written, header + "a,5,1..3,60,,,,,\n")
    profile = Profile(size=3)
    assert job == JobSpec("a", 60.0, sizes=(1, 2, 3), submit_at=5.0, profile=profile)


def test_a_column_that_a_treadle_trace_does_not_know_is_named(written):
    _, workload = one(written, "id,submit_s,sizes,iterations,host_memory\na,5,1,60,9\n")
    (note,) = workload.notes
    assert "'host_memory'" in note
    assert "host_memory_gib" in note
