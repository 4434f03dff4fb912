"""What the verbs that only read print, to the letter, at 80 columns."""

import json
import time
from dataclasses import replace

import pytest
from tests.cli.live_session import NOW, STATUS, ValueClient, detail, job, printed, running, treadle

from treadle.core.machine import DeviceView, NodeView, ProcessView
from treadle.version import __version__
from treadle.wire.history import AttemptHistory, HistoryPoint, JobHistory, LoadView
from treadle.wire.jobs import AttemptView, Code, Estimate, FailureView, Progress, State
from treadle.wire.machine import EventView, UsageRow

BERT = running(
    "9",
    name="bert-large-finetune",
    devices=("box:0", "box:1"),
    sizes=(1, 2, 3, 4),
    progress=Progress(step=4200, total=10_000, eta_s=1800, per_s=3.2, loss=0.3123, source="log"),
    end=Estimate(low_s=1700, high_s=1900, coverage=0.8, known=True, because="from its steps"),
    device_s=7200.0,
    resizes=1,
    tenant="nlp",
)
BIG = job("11", name="big", sizes=(8,), cause="devices", because="8 are asked for and 3 are free")
SWEEP = [running(f"13_{n}", name="sweep", array="13", index=n) for n in range(2)] + [
    job(f"13_{n}", name="sweep", array="13", index=n, cause="array", because="the array's limit")
    for n in range(2, 20)
]
JOBS = [
    BERT,
    running("10", name="resnet", user="bob", devices=("box:2",), progress=Progress(step=1200),
            end=Estimate(because="nothing like it has run here")),
    BIG,
    job("12", State.HELD, name="later", cause="held", because="its user holds it"),
    *SWEEP,
    job("14", State.FAILED, name="x\x1b[31my", code=1, because="out of memory", attempts=1,
        running_s=61.0),
    job("15", State.SUCCEEDED, attempts=1, running_s=190_000.0),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("TREADLE_URL", raising=False)
    time.tzset()


def test_ps_shows_a_row_for_each_job_and_one_for_an_array(capsys) -> None:
    client = ValueClient(views=JOBS)
    assert printed(capsys, client, "ps", "-A") == (
        "ID        NAME     USER  STATE    DEVICES   DONE      ETA  WAIT  RAN  REASON\n"
        "9         bert-..  anna  RUNNING  2/1..4     42%  28m-32m         5m\n"
        "10        resnet   bob   RUNNING  1/1      1,200  unknown         5m\n"
        "11        big      anna  PENDING  0/8                       10m       devices\n"
        "12        later    anna  HELD     0/1                       10m       held\n"
        "13[0-19]  sweep    anna  RUNNING  2/20x1                    10m   5m  2 run, 18 wait\n"
    )


def test_ps_has_room_for_reasons_at_120_columns(capsys) -> None:
    text = printed(capsys, ValueClient(views=JOBS), "ps", "-A", "-a", columns=120)
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert rows["11"].endswith("8 are asked for and 3 are free")
    assert "x?[31my" in rows["14"]
    assert rows["14"].endswith("1m  exit 1: out of memory")
    assert rows["15"].endswith("2d04h")
    assert max(map(len, rows.values())) <= 120


def test_ps_expands_an_array_that_is_asked_for_and_says_that_more_follow(capsys) -> None:
    client = ValueClient(views=JOBS)
    assert printed(capsys, client, "ps", "--array", "13", "--limit", "3") == (
        "ID    NAME   USER  STATE    DEVICES  WAIT  RAN  REASON\n"
        "13_0  sweep  anna  RUNNING  1/1             5m\n"
        "13_1  sweep  anna  RUNNING  1/1             5m\n"
        "13_2  sweep  anna  PENDING  0/1       10m       the array's limit\n"
        "more jobs follow; --limit 6 shows more of them\n"
    )


def test_ps_expands_an_array_of_one_job_by_its_name(capsys) -> None:
    client = ValueClient(views=[job("5_3", name="one", array="5", index=3)])
    assert "5_3" in printed(capsys, client, "ps", "--array", "one")


def test_ps_of_one_user_leaves_their_name_out_and_counts_the_others(capsys) -> None:
    client = ValueClient(views=[BIG, job("20", name="b", user="bob")])
    assert printed(capsys, client, "ps", "-u", "anna") == (
        "ID  NAME  STATE    DEVICES  WAIT  REASON\n"
        "11  big   PENDING  0/8       10m  8 are asked for and 3 are free\n"
        "1 more of other users; treadle ps -A lists them\n"
    )


def test_ps_knows_its_states(capsys) -> None:
    client = ValueClient(views=JOBS)
    assert "14" in printed(capsys, client, "ps", "-A", "--state", "failed,timeout")
    assert treadle(client, "ps", "--state", "done") == 2


def test_ps_reads_no_more_pages_than_it_shows(capsys) -> None:
    client = ValueClient(views=[job(str(n)) for n in range(10_000)])
    text = printed(capsys, client, "ps", "-A")
    assert len(text.splitlines()) == 52
    assert text.splitlines()[-1] == "more jobs follow; --limit 100 shows more of them"


def test_ps_says_how_many_members_of_a_large_array_it_did_not_count(capsys) -> None:
    client = ValueClient(views=[job(f"5_{n}", array="5", index=n) for n in range(5000)])
    assert printed(capsys, client, "ps", "-A").splitlines()[1:] == [
        "5[0-1999]  python train.py  anna  PENDING  0/2000x1   10m  2,000 wait",
        "3,000 more jobs are not counted here; --json lists them",
    ]


def test_json_is_the_answer_as_it_came(capsys) -> None:
    client = ValueClient(views=[BERT])
    found = json.loads(printed(capsys, client, "ps", "-A", "--json"))
    assert found["jobs"][0]["id"] == "9"
    assert found["jobs"][0]["progress"]["eta_s"] == 1800
    assert json.loads(printed(capsys, client, "describe", "9", "--json"))["job"]["user"] == "anna"
    assert json.loads(printed(capsys, client, "status", "--json"))["pid"] == 4242
    for words in (["nodes"], ["usage"], ["policy"], ["token", "list"]):
        json.loads(printed(capsys, client, *words, "--json"))


def test_describe_shows_how_a_job_stands_and_what_was_asked_for(capsys) -> None:
    whole = detail(
        BERT,
        env={"PATH": "/venv/bin", "LR": "0.1"},
        secrets=("HF_TOKEN",),
        time_limit_s=43_200.0,
        after=("7",),
        code=Code(commit="0123456789abcdef", branch="main", dirty=True, diff="@@\n+1\n-2\n"),
    )
    client = ValueClient(details={"9": whole})
    assert printed(capsys, client, "describe", "9") == (
        "job 9 (bert-large-finetune) RUNNING\n"
        "  user       anna, tenant nlp\n"
        "  devices    2/1..4 (box:0, box:1)\n"
        "  progress   42%, step 4,200 of 10,000, 3.2 steps/s, loss 0.3123 (read from its\n"
        "             output)\n"
        "  end        in 28-32 min (from its steps)\n"
        "  submitted  2026-09-21 14:03, 10m ago\n"
        "  started    2026-09-21 14:08\n"
        "  ran        5m with devices, 2.00 device-hours, 1 resize\n"
        "  command    python train.py\n"
        "  workdir    /home/anna/code\n"
        "  code       0123456789ab on main, with 2 changed lines\n"
        "  env        LR=0.1\n"
        "  secrets    HF_TOKEN\n"
        "  kind       guaranteed, not resumable, priority 0\n"
        "  limits     12h, grace 30s, at most 3 retries\n"
        "  after      7\n"
        "\n"
        "ATTEMPT  DEVICES       STARTED  TIME  HOW IT ENDED\n"
        "1        box:0, box:1  5m ago     5m  running\n"
    )


def test_describe_tells_why_a_job_failed_and_what_to_do(capsys) -> None:
    failure = FailureView(
        kind="resource",
        rule="cuda-out-of-memory",
        sentence="the GPU had too little memory",
        advice="a smaller batch needs less of it",
        evidence="CUDA out of memory. Tried to allocate 2 GiB",
    )
    failed = job("14", State.FAILED, name="oom", code=1, attempts=2, failures=2, running_s=61.0,
                 ended_at=NOW - 60, started_at=NOW - 300)  # fmt: skip
    runs = (
        AttemptView(number=1, devices=("box:0",), started_at=NOW - 300, ended_at=NOW - 200, code=1,
                    failure=replace(failure, retried=True)),
        AttemptView(number=2, devices=("box:1",), started_at=NOW - 160, ended_at=NOW - 60, code=1,
                    failure=failure),
    )  # fmt: skip
    client = ValueClient(details={"14": detail(failed, attempts=runs, failure=failure)})
    shown = printed(capsys, client, "describe", "14").splitlines()
    assert shown[0] == "job 14 (oom) FAILED"
    assert "  ended      2026-09-21 14:12, exit code 1" in shown
    assert "  advice     a smaller batch needs less of it" in shown
    assert [line.split()[-1] for line in shown[-2:]] == ["retried", "memory"]


def test_status_says_that_the_daemon_is_of_another_version(capsys) -> None:
    assert treadle(ValueClient(), "status") == 0
    assert __version__ in capsys.readouterr().err
    assert treadle(ValueClient(found=replace(STATUS, version=__version__)), "status") == 0
    assert capsys.readouterr().err == ""


def test_status_says_where_it_runs_and_what_it_has_to_do(capsys) -> None:
    found = replace(STATUS, url="http://127.0.0.1:8437", draining=True)
    found = replace(found, state_folder="/home/anna/state", engine="memory")
    client = ValueClient(found=found)
    assert printed(capsys, client, "status") == (
        "treadle 1.2.3 is running, up 2h05m, pid 4242\n"
        "  devices  8, 3 free\n"
        "  nodes    1\n"
        "  jobs     5 running, 12 waiting, 1 held; draining: no more jobs start\n"
        "  policy   afs\n"
        "  engine   memory\n"
        "  store    sqlite\n"
        "  state    /home/anna/state\n"
        "  socket   /run/user/1000/treadle/treadle.sock\n"
        "  url      http://127.0.0.1:8437\n"
    )


BOX = NodeView(
    name="box",
    device_type="gpu",
    cores=96,
    memory_gib=1024.0,
    devices=(
        DeviceView(name="box:0", number=0, model="H100", state="held", jobs=("9",), busy=0.934,
                   memory_gib=80.0, memory_used_gib=71.25),
        DeviceView(name="box:1", number=1, model="H100", state="foreign", memory_gib=80.0,
                   memory_used_gib=40.0,
                   foreign=(ProcessView(pid=4711, user="carl", memory_gib=39.5,
                                        command="python\x07 sneaky.py"),
                            ProcessView(pid=4712, user="carl"))),
        DeviceView(name="box:2", number=2, model="H100", state="quarantined",
                   because="12.0 GiB were not given back by job 7"),
        DeviceView(name="box:3", number=3, model="H100"),
    ),
)  # fmt: skip


def test_nodes_shows_each_device_and_who_is_on_it(capsys) -> None:
    assert printed(capsys, ValueClient(machines=(BOX,)), "nodes") == (
        "box: 4 x H100, 96 cores, 1,024 GiB\n"
        "DEVICE  STATE        JOBS  BUSY         MEMORY  WHY\n"
        "box:0   held         9      93%  71.2/80.0 GiB\n"
        "box:1   foreign                  40.0/80.0 GiB  pid 4711 of carl, 39.5 GiB: py..\n"
        "box:2   quarantined                             12.0 GiB were not given back b..\n"
        "box:3   free\n"
    )


def test_describe_shows_what_was_asked_for_and_what_came_of_it(capsys) -> None:
    asked = {"memory_gib": 16.0, "cpus": 4.0, "enforced": ("memory",), "gpu_memory_gib": 20.0}
    whole = detail(BERT, exclusive=True, **asked)
    runs = tuple(replace(run, memory_peak_gib=3.25) for run in whole.attempts)
    shown = printed(
        capsys, ValueClient(details={"9": replace(whole, attempts=runs)}), "describe", "9"
    )
    assert "memory 16 GiB, 4 cores (not enforced here), peak 3.25 GiB\n" in shown
    assert "  GPU memory  20 GiB\n" in shown
    assert "  sharing     none: exclusive\n" in shown


def test_describe_shows_what_the_newest_attempt_used(capsys) -> None:
    loads = [
        LoadView(busy=share, device_memory_gib=12.0, cores=1.5, memory_gib=2.0, power_w=300.0)
        for share in (0.1, 0.5, 0.95)
    ]
    points = tuple(
        HistoryPoint(at=30.0 * number, span_s=30.0, mean=load, most=load)
        for number, load in enumerate(loads)
    )
    used = AttemptHistory(attempt=1, points=points, mean=loads[1], most=loads[2], energy_j=27_000.0)
    client = ValueClient(
        details={"9": detail(BERT)}, histories={"9": JobHistory(id="9", attempts=(used,))}
    )
    shown = printed(capsys, client, "describe", "9")
    assert "devices busy 50% on average, 95% at most, GPU memory 12 GiB at most\n" in shown
    assert "1.5 cores on average, 1.5 at most, 2 GiB resident at most\n" in shown
    assert "▁▅█\n" in shown
    assert "27,000 J\n" in shown or "2.7e+04 J\n" in shown


USED = (
    UsageRow(
        user="anna", tenant="nlp", jobs=1200, allocated_h=1234.5, used_h=1000.25, failed_h=3.0
    ),
    UsageRow(user="=cmd()", tenant="", jobs=1, allocated_h=0.5, used_h=None, failed_h=0.0),
)


def test_usage_is_in_device_hours(capsys) -> None:
    client = ValueClient(used=USED)
    assert printed(capsys, client, "usage") == (
        "USER    TENANT   JOBS  ALLOCATED      USED  FAILED\n"
        "anna    nlp     1,200   1,234.50  1,000.25    3.00\n"
        "=cmd()              1       0.50              0.00\n"
        "in device-hours; USED counts the time that devices were busy\n"
    )
    assert client.asked == [("usage", NOW - 7 * 86_400)]
    unknown = printed(capsys, ValueClient(used=USED[1:]), "usage")
    assert unknown.endswith("\nin device-hours\n")
    assert "USED" not in unknown
    assert printed(capsys, ValueClient(), "usage") == "no device was allocated in that time\n"


def test_events_are_lines_and_old_ones_have_their_date(capsys) -> None:
    happened = (
        EventView(id=1, at=NOW - 100_000, kind="submitted", job="9", text="by anna"),
        EventView(id=2, at=NOW - 60, kind="policy", text="afs\x1b[2J"),
    )
    client = ValueClient(happened=happened)
    assert printed(capsys, client, "events") == (
        "     1  2026-09-20 10:26:40  by anna (job 9)\n     2  14:12:20  afs?[2J\n"
    )
    assert printed(capsys, client, "events", "-f", "--after", "1") == (
        "     2  14:12:20  afs?[2J\n    99  14:13:20  exit code 0 (job 12)\n"
    )
    lines = printed(capsys, client, "events", "--json").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2]


def test_policy_is_shown_and_switched(capsys) -> None:
    client = ValueClient()
    assert printed(capsys, client, "policy") == (
        "policy afs\n  placement  pack\n  since      1m ago\n"
    )
    assert printed(capsys, client, "policy", "tiresias", "--placement", "spread") == (
        "policy tiresias\n  placement  spread\n  since      0s ago\n"
    )
    assert client.asked == [("set_policy", "tiresias", "spread")]
    printed(capsys, client, "policy", "--placement", "spread")
    assert client.asked[-1] == ("set_policy", "afs", "spread")


def test_top_is_printed_once_without_a_terminal_or_as_json(capsys) -> None:
    client = ValueClient(views=[BIG], machines=(replace(BOX, devices=BOX.devices[3:]),))
    assert printed(capsys, client, "top") == (
        "treadle 1.2.3, up 2h05m, policy afs: 3 of 8 devices free, 5 running, 12 waiting, 1 held\n"
        "\n"
        "box: 1 x H100, 96 cores, 1,024 GiB\n"
        "DEVICE  STATE\n"
        "box:3   free\n"
        "\n"
        "ID  NAME  USER  STATE    DEVICES  WAIT  REASON\n"
        "11  big   anna  PENDING  0/8       10m  8 are asked for and 3 are free\n"
    )
    top = json.loads(printed(capsys, client, "top", "--json"))
    assert (top["status"]["free"], top["jobs"][0]["id"], len(top["nodes"])) == (3, "11", 1)


def test_device_says_what_became_of_it(capsys) -> None:
    client = ValueClient()
    assert printed(capsys, client, "device", "box:3", "avoid") == "device box:3 is avoided\n"
    assert printed(capsys, client, "device", "box:3", "manage") == "device box:3 is free\n"
    assert printed(capsys, client, "device", "box:3", "unquarantine") == "device box:3 is free\n"
    assert client.asked == [("avoid", "box:3"), ("manage", "box:3"), ("manage", "box:3")]
