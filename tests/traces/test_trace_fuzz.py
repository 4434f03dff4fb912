"""Loading any file gives a workload or a one-line error, never a crash."""

import gzip
import json

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from treadle.core.errors import InvalidInputError
from treadle.traces.clusters import cluster
from treadle.traces.load import load

ATTEMPT = {
    "start_time": "2017-10-09 07:00:00",
    "end_time": "2017-10-09 07:00:09",
    "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
}
JOB = {
    "status": "Pass",
    "vc": "a",
    "jobid": "b",
    "attempts": [ATTEMPT],
    "submitted_time": "2017-10-09 06:00:00",
}
SAMPLES = [
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\na,1,0,1,m,5,0\n",
    "job_id,submit_s,submit_utc,vc,num_gpus,duration_s,status\n0,0,x,6214e9,1,3,NotPass\n",
    "name,submission_time,duration,application,num_gpus,is_sla\nvit-0,0,3.5,vit,2,0\n",
    "name,time,application,num_replicas,batch_size\nb,498,cifar10,6,2048\n",
    "app_id,submit_time,service,num_jobs,model_name\n0,0.0,976570.0,1,TransformerModel256\n",
    "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,460,1,9,2\n",
    'id,submit_s,sizes,iterations,plans,command\na,5,1 2 4,60,,"[""x""]"\n',
    "A3C\tpython\tx\t--steps\t1\t10\t1\t1\t-1\t0\n",
    json.dumps([JOB]),
    "machineId, number of GPUs, single GPU mem\nm0,2, 12GB\n",
    "nodes:\n  - {count: 2, devices: 8, rack: r0}\n",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
QUIET = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def survives(path: str) -> None:
    for read in (load, cluster):
        complaint = "none"
        try:
            read(path)
        except InvalidInputError as error:
            complaint = str(error)
        assert len(complaint.splitlines()) == 1


@QUIET
@given(
    sample=st.sampled_from(SAMPLES),
    at=st.integers(0, 200),
    cut=st.integers(0, 5),
    paste=st.binary(max_size=6) | st.sampled_from([b",", b"\n", b'"', b"-", b"1e400", b"\t", b"["]),
    packed=st.booleans(),
)
def test_a_file_with_a_few_bytes_changed_is_read_or_refused(
    written, sample, at, cut, paste, packed
):
    data = sample.encode()
    data = data[:at] + paste + data[at + cut :]
    survives(written(gzip.compress(data) if packed else data, "fuzz"))


@QUIET
@given(st.sampled_from([*JOB, *ATTEMPT]), JSON)
def test_an_official_log_with_anything_anywhere_is_read_or_refused(written, key, value):
    change = {"attempts": [ATTEMPT | {key: value}]} if key in ATTEMPT else {key: value}
    job = JOB | change
    survives(written(json.dumps([job, value]), "fuzz"))
    survives(written(json.dumps([job]), "fuzz"))


@QUIET
@given(st.binary(max_size=300))
@example(b"\r\x00")  # a lone carriage return is no line's end
def test_any_bytes_are_read_or_refused(written, data):
    survives(written(data, "fuzz"))
