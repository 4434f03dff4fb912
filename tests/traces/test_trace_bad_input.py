"""Every error in a trace is one sentence with the file, the line, and what was expected."""

import csv
import gzip
import json
from io import StringIO
from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.traces.convert import write
from treadle.traces.csv_columns import (
    COLUMNS,
    CURVE,
    FACTORS,
    FLAG,
    LIST,
    PLANS,
    SIZES,
    TEXT,
    WORDS,
)
from treadle.traces.formats import BARE_FORMATS, FORMATS
from treadle.traces.load import load

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
GOOD = "a,1,0,1,m,5,0\n"


def complaint(path: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("b,1,0,1,m,,0", "duration is missing"),
        ("b,1,0,1,m,-5,0", "duration is '-5'"),
        ("b,1,0,1,m,nan,0", "duration is 'nan'"),
        ("b,1,0,1,m,1e999,0", "duration is '1e999'"),
        ("b,1,0,1,m,3.3e9,0", "duration is '3.3e9'"),
        ("b,1.5,0,1,m,5,0", "num_gpu is '1.5'"),
        ("b,0,0,1,m,5,0", "num_gpu is '0'"),
        (f"b,{10**30},0,1,m,5,0", "num_gpu is '1000"),
        ("b,1,-1,1,m,5,0", "submit_time is '-1'"),
        ("b,1,1e308,1,m,5,0", "submit_time is '1e308'"),
        (",1,0,1,m,5,0", "job_id is empty"),
        ("a,1,0,1,m,5,0", "job a was already given on line 2"),
        ("b,1,0,1,m,5", "6 columns"),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected(written, line, named):
    message = complaint(written(HEADER + GOOD + line + "\n"))
    assert message.startswith(f"trace.csv line 3: {named}")


def test_times_at_the_limit_are_read(written):
    assert len(load(written(HEADER + GOOD + "b,1,1e12,1,m,3.2e9,0\n")).jobs) == 2


@pytest.mark.parametrize(
    "text",
    [
        "id,submit_s,sizes,iterations\na,0,1,1e308\n",
        "id,submit_s,sizes,iterations\na,1e308,1,1\n",
        f"id,submit_s,sizes,iterations\na,0,{'9' * 5000},1\n",
        "job_id,submit_s,vc,num_gpus,duration_s,status\n0,0,v,1,1e308,Pass\n",
        "app_id,submit_time,service,num_jobs,model_name\n0,0,1e308,1,TransformerModel256\n",
        "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,460,1,1e11,2\n",
        "A3C\tpython\tx\t--steps\t1\t1e14\t1\t1\t-1\t0\n",
    ],
)
def test_no_format_takes_a_length_beyond_all_measure(written, text):
    assert complaint(written(text)).startswith("trace.csv line ")


def test_an_unknown_format_lists_the_known_ones(written):
    message = complaint(written("colour,taste\nred,sweet\n"))
    assert all(known.name in message for known in (*FORMATS, *BARE_FORMATS))
    assert len(message) < 300


def test_the_page_that_the_message_names_has_every_column():
    page = (Path(__file__).parents[2] / "docs" / "add-a-trace.md").read_text()
    for known in FORMATS:
        assert f"| {known.name} | `{' '.join(known.columns)}` |" in page
    for bare in BARE_FORMATS:
        assert f"| {bare.name} | {len(bare.columns)} columns" in page


@pytest.mark.parametrize("text", ["", "\n\n", "# only a note\n"])
def test_an_empty_file_says_so(written, text):
    assert complaint(written(text)) == "trace.csv is empty; expected a header and one job a line"


def test_a_truncated_gzip_says_to_copy_it_again(written):
    packed = gzip.compress((HEADER + GOOD * 1000).encode())
    assert complaint(written(packed[: len(packed) // 2], "t.gz")) == (
        "t.gz ends in the middle of its gzip data; copy or download it again"
    )


def test_bytes_that_are_not_text_are_named_with_their_line(written):
    text = (HEADER + GOOD).encode() + b"b,1,0,1,\xff,5,0\n"
    assert complaint(written(text)) == (
        "trace.csv line 3 holds the byte 0xff, which is not UTF-8; "
        "expected a text file, plain or gzip"
    )


def test_a_line_too_long_is_refused_before_it_is_read(tmp_path):
    """1. One line of 192 MiB in a gzip of 1 MB; 2. the error comes after its first two blocks."""
    path = tmp_path / "t.gz"
    block = b"x" * (1 << 24)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(HEADER.encode())
        for _ in range(12):
            file.write(block)
    assert complaint(str(path)) == (
        f"{path} line 2 is longer than 1,048,576 bytes; expected one job or node a line"
    )


def test_more_jobs_than_the_limit_are_refused(written, monkeypatch):
    monkeypatch.setattr("treadle.traces.collector.JOBS_MAX", 2)
    rows = "".join(f"{number},1,0,1,m,5,0\n" for number in range(3))
    assert complaint(written(HEADER + rows)) == (
        "trace.csv line 4: more than 2 jobs; cut the trace into parts"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "GPT-9\tpython\tx\t--steps\t1\t10\t1\t1\t-1\t0\n",
            "line 1: job type 'GPT-9' has no measured speed; expected one of ResNet-18 (batch",
        ),
        (
            "A3C\tpython\tx\t--steps\t1\t10\t2\t1\t-1\t0\n",
            "line 1: job type 'A3C' has no measured speed on 2 GPUs; expected one of 1",
        ),
        (
            "app_id,submit_time,service,num_jobs,model_name\n1,0,9,16,ChatbotModel256\n",
            "line 2: model 'ChatbotModel256' has no measured speed-up on 16 GPUs; expected 1 to 4",
        ),
        (
            "name,time,application,num_replicas,batch_size\na,0,gpt9,1,12\n",
            "line 2: application 'gpt9' has no measured speed; expected one of bert, cifar10",
        ),
    ],
)
def test_a_model_that_was_not_measured_is_refused(written, text, message):
    assert complaint(written(text)).startswith(f"trace.csv {message}")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1..5000,0", f"sizes is '1..5000'; expected {SIZES.expected} (a range goes up to 4,096)"),
        (",0", f"sizes is missing; expected {SIZES.expected}"),
        ("1 2,3", "asked is 3; expected one of the sizes (1, 2)"),
    ],
)
def test_a_treadle_trace_checks_its_sizes(written, cells, message):
    text = f"id,submit_s,iterations,sizes,asked\na,0,5,{cells}\n"
    assert complaint(written(text)) == f"trace.csv line 2: {message}"


# What no column of a kind takes, beside what every column would.
WRONG = {
    TEXT: (),
    SIZES: ("4 2", "1 2 2", "0 1", "-1", "1 x", "8..2", "..8"),
    CURVE: ("1:x", "1:0", "2:1 1:1", "1"),
    WORDS: ("a100||h200", "|"),
    FACTORS: ("a100", "a100:fast", "a100:0", ":1"),
    LIST: ("python", "{}", "[1]", "[" * 100_000),
    PLANS: ("[1]", '[{"x": 1}]', '[{"tensor": 0}]', "5", "[" * 100_000),
    FLAG: ("maybe", "2", "-1"),
}
NUMBERS = ("-1", "x", "nan", "1e999")


WRONG_CELLS = [
    pytest.param(column, cell, id=f"{column.name}-{cell[:12]}")
    for column in COLUMNS
    for cell in WRONG.get(column.kind, NUMBERS)
    if (column.name, cell) != ("priority", "-1")
]


@pytest.mark.parametrize(("column", "cell"), WRONG_CELLS)
def test_a_bad_cell_of_any_column_is_one_sentence_with_line_and_column(written, column, cell):
    """1. The first line is right. 2. The second has one bad cell."""
    good = {"id": "a", "submit_s": "0", "sizes": "4", "iterations": "5"}
    text = StringIO()
    table = csv.DictWriter(text, [*good, *({column.name} - good.keys())], lineterminator="\n")
    table.writeheader()
    table.writerows([good, {**good, "id": "b", column.name: cell}])
    message = complaint(written(text.getvalue()))
    found = repr(cell if len(cell) <= 60 else cell[:60] + "...")
    assert message.startswith(
        f"trace.csv line 3: {column.name} is {found}; expected {column.kind.expected}"
    )
    assert len(message.splitlines()) == 1


def test_a_treadle_trace_without_any_stage_time_is_refused(written):
    assert complaint(written("id,submit_s,iterations,sizes,compute_s\na,0,5,1,0\n")) == (
        "trace.csv line 2: the stages take 0 seconds; expected at least one to take longer"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"jobid": "a"', "log line 1: not a list of jobs in JSON (Expecting ',' delimiter)"),
        ('[\n{"jobid": "a"}]', "log line 2: not a job of Philly's log; expected an object with"),
        ('{"jobid": "a"}', "log line 1: not a job of Philly's log; expected an object with"),
        ("[]", "log holds no jobs; expected at least one"),
        ("[", "log line 1: not a list of jobs in JSON (the list is not closed)"),
    ],
)
def test_a_broken_official_log_is_named_with_its_line(written, text, message):
    assert complaint(written(text, "log")).startswith(message)


def _log(**changes):
    attempt = {
        "start_time": "2017-10-09 07:00:00",
        "end_time": "2017-10-09 07:00:09",
        "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
    }
    job = {"jobid": "a", "submitted_time": "2017-10-09 06:00:00", "attempts": [attempt]} | changes
    return json.dumps([job, job], indent=0)


def test_a_job_twice_in_the_official_log_names_both_lines(written):
    assert complaint(written(_log(), "log")) == (
        "log line 20: job a was already given on line 2; every job needs its own id"
    )


def test_a_time_that_is_none_in_the_official_log_is_refused(written):
    assert complaint(written(_log(submitted_time="yesterday"), "log")) == (
        "log line 2: a time is 'yesterday'; expected one like 2017-10-09 07:02:44"
    )
    assert "left out 2 jobs without a submission" in complaint(
        written(_log(submitted_time="None"), "log")
    )


def test_an_object_without_end_does_not_fill_the_memory(written, monkeypatch):
    monkeypatch.setattr("treadle.traces.philly_log.OBJECT_CHARACTERS_MAX", 100)
    text = '[{"jobid": "' + "x" * (2 << 20)
    assert complaint(written(text, "log")).startswith("log line 1: not a list of jobs in JSON")


def test_half_a_character_in_the_official_log_can_be_written_again(written, tmp_path):
    job = json.loads(_log(jobid="\ud800"))[0]
    workload = load(written(json.dumps([job]), "log"))
    write(workload, tmp_path / "again.csv")
    assert load("again.csv").jobs == workload.jobs
