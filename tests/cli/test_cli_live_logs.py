"""Logs: ranks, attempts, tails, following, and what a terminal is spared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.live_session import NOW, Moment, ValueClient, detail, job, running, treadle

from treadle.cli.live.log_following import AWAY_MAX_S, Follower, Printer, tail_offset
from treadle.cli.live.session import Session
from treadle.cli.show.table import Column, table
from treadle.cli.show.wording import cut, log_text, plain, width_of
from treadle.client.errors import UnreachableError
from treadle.wire.jobs import AttemptView, JobDetail, LogPiece, State, Why
from treadle.wire.problems import LostOutputError, TooManyError

DONE = replace(running("9", name="big"), state=State.SUCCEEDED)


def attempts(*ended: float | None) -> tuple[AttemptView, ...]:
    return tuple(
        AttemptView(number=number, devices=("box:0",), started_at=NOW - 900, ended_at=end)
        for number, end in enumerate(ended, 1)
    )


def test_logs_are_printed_as_they_are(capsys) -> None:
    client = ValueClient(views=[DONE], logs={(1, 0): "one\ntwo\nthree"})
    assert treadle(client, "logs", "9") == 0
    assert capsys.readouterr().out == "one\ntwo\nthree"
    assert treadle(client, "logs", "big", "--tail", "2") == 0
    assert capsys.readouterr().out == "two\nthree"
    assert treadle(client, "logs", "9", "-f") == 0
    assert capsys.readouterr().out == "one\ntwo\nthree"


def test_a_file_gets_every_byte_and_a_terminal_does_not(capsys, monkeypatch) -> None:
    client = ValueClient(views=[DONE], logs={(1, 0): "\x1b[31mred\x1b[0m\x1b[2J\x07\n"})
    assert treadle(client, "logs", "9") == 0
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\x1b[2J\x07\n"
    monkeypatch.setattr(Session, "terminal", property(lambda _: True))
    assert treadle(client, "logs", "9") == 0
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\n"
    assert treadle(client, "logs", "9", "--raw") == 0
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\x1b[2J\x07\n"


@pytest.mark.parametrize("words", [(), ("-f",)])
def test_of_ranks_that_train_together_one_is_shown_and_that_is_said(words, capsys) -> None:
    client = ValueClient(details={"9": detail(DONE, ranks=2, uses_train=True)})
    client.logs = {(1, 0): "a\n", (1, 1): "a\n"}
    assert treadle(client, "logs", "9", *words) == 0
    shown = capsys.readouterr()
    assert shown.out == "a\n"
    assert "only rank 0 of 2 is shown: all run the same script (--rank all)\n" in shown.err
    assert treadle(client, "logs", "9", "--rank", "all", *words) == 0
    shown = capsys.readouterr()
    assert shown.out == "[0] a\n[1] a\n"
    assert "only rank 0" not in shown.err


@pytest.mark.parametrize("words", [(), ("-f",)])
def test_all_ranks_are_those_that_wrote_and_not_those_that_are_left(words, capsys) -> None:
    """A job that was shrunk to one device: two of its ranks have left."""
    client = ValueClient(details={"9": detail(DONE, ranks=1, uses_train=True)})
    client.logs = {(1, 0): "a\n", (1, 1): "b\n", (1, 2): "c\n"}
    assert treadle(client, "logs", "9", "--rank", "all", *words) == 0
    assert capsys.readouterr().out == "[0] a\n[1] b\n[2] c\n"


def test_several_ranks_have_their_number_before_each_line(capsys) -> None:
    client = ValueClient(details={"9": detail(DONE, ranks=2)})
    client.logs = {(1, 0): "a\nb\n", (1, 1): "c\nlast"}
    assert treadle(client, "logs", "9") == 0
    assert capsys.readouterr().out == "[0] a\n[0] b\n[1] c\n[1] last\n"
    assert treadle(client, "logs", "9", "--no-prefix") == 0
    assert capsys.readouterr().out == "a\nb\nc\nlast"
    assert treadle(client, "logs", "9", "--rank", "1") == 0
    assert capsys.readouterr().out == "c\nlast"


class LostClient(ValueClient):
    """The first attempt wrote on a node that is lost; of the second, rank 1 did."""

    def log(self, identity: str, **which: object) -> LogPiece:
        if which["attempt"] == 1:
            raise LostOutputError("the output of attempt 1 of job 9 is on node c, which is lost")
        if (which["attempt"], which["rank"]) == (2, 1):
            raise LostOutputError("the output of rank 1 of attempt 2 of job 9 is on node c, ...")
        return super().log(identity, **which)  # type: ignore[arg-type]


def lost_client() -> LostClient:
    runs = attempts(NOW - 200, NOW - 100, NOW - 50)
    runs = (*runs[:1], replace(runs[1], ranks=2), runs[2])
    client = LostClient(details={"9": detail(DONE, attempts=runs, ranks=3)})
    client.logs = {(2, 0): "second\n", (3, 0): "third\n", (3, 1): "", (3, 2): ""}
    return client


def test_output_on_a_lost_node_does_not_hide_what_can_be_read(capsys) -> None:
    assert treadle(lost_client(), "logs", "9", "--since", "10m") == 0
    out, err = capsys.readouterr()
    assert out == "[0] second\n[0] third\n"
    assert err.splitlines()[1:] == [
        "treadle: attempt 1 of job 9",
        "treadle: the output of attempt 1 of job 9 is on node c, which is lost",
        "treadle: attempt 2 of job 9",
        "treadle: the output of rank 1 of attempt 2 of job 9 is on node c, ...",
        "treadle: attempt 3 of job 9",
    ]
    assert treadle(lost_client(), "logs", "9", "--attempt", "1") == 1
    assert "attempt 1 of job 9 is on node c, which is lost" in capsys.readouterr().err


def test_a_follower_passes_output_on_a_lost_node_and_says_so_once(capsys) -> None:
    client = lost_client()
    session = Session(connect=lambda: client, pause=lambda _: None)
    Follower(session, "9", Printer(raw=True), attempt=1).run()
    assert capsys.readouterr().err.count("is on node c, which is lost") == 1


def test_attempts_by_number_and_by_time(capsys) -> None:
    runs = attempts(NOW - 3000, NOW - 100, None)
    client = ValueClient(details={"9": detail(running("9"), attempts=runs)})
    client.logs = {(1, 0): "first\n", (2, 0): "second\n", (3, 0): "third\n"}
    assert treadle(client, "logs", "9") == 0
    assert treadle(client, "logs", "9", "--attempt", "1") == 0
    assert capsys.readouterr().out == "third\nfirst\n"
    assert treadle(client, "logs", "9", "--since", "10m") == 0
    out, err = capsys.readouterr()
    assert out == "second\nthird\n"
    assert err == (
        "treadle: lines have no timestamps: 2 attempts ran in the last 10m, the first started "
        "15m ago\n"
        "treadle: attempt 2 of job 9\n"
        "treadle: attempt 3 of job 9\n"
    )


def test_of_several_attempts_the_newest_is_shown_and_that_is_said(capsys) -> None:
    runs = attempts(NOW - 3000, NOW - 100, None)
    client = ValueClient(
        details={"9": detail(running("9"), attempts=runs)}, logs={(3, 0): "third\n"}
    )
    assert treadle(client, "logs", "9") == 0
    assert "only attempt 3 is shown" in capsys.readouterr().err
    assert treadle(client, "logs", "9", "--attempt", "3") == 0
    assert capsys.readouterr().err == ""


def test_what_is_not_there_is_said(capsys) -> None:
    client = ValueClient(views=[job("11", because="8 are asked for and 3 are free"), DONE])
    client.logs = {(1, 0): "x"}
    assert treadle(client, "logs", "11") == 0
    assert "8 are asked for and 3 are free" in capsys.readouterr().err
    assert treadle(client, "logs", "9", "--rank", "3") == 102
    assert treadle(client, "logs", "9", "--rank", "x") == 2
    assert treadle(client, "logs", "9", "--attempt", "1", "--since", "1h") == 2


def test_a_long_log_is_read_in_larger_pieces_and_patiently(capsys) -> None:
    class Busy(ValueClient):
        limits: list[int]

        def log(self, identity: str, **how: int) -> LogPiece:
            self.limits.append(how["limit"])
            if len(self.limits) == 3:
                raise TooManyError("too many requests")
            return super().log(identity, **how)

    content = "0123456789\n" * 200_000
    client = Busy(views=[DONE], logs={(1, 0): content})
    client.limits = []
    assert treadle(client, "logs", "9") == 0
    assert capsys.readouterr().out == content
    assert client.limits == [64, 1 << 16, 1 << 20, 1 << 20, 1 << 20, 1 << 20]


class Living(ValueClient):
    """A job that waits, runs, fails, runs again and succeeds, a step at each look."""

    step = 0

    def job(self, identity: str) -> JobDetail:
        self.step += 1
        if self.step == 1:
            return detail(job("9", because="3 go before it"))
        if self.step <= 3:
            self.logs[1, 0] = "half" if self.step == 2 else "half a line\n"
            return detail(running("9"), attempts=attempts(None))
        if self.step <= 5:
            self.logs[2, 0] = "again\n"
            return detail(running("9"), attempts=attempts(NOW, None))
        self.logs[2, 0] = "again\nend\n"
        return detail(DONE, attempts=attempts(NOW, NOW))


def test_following_goes_over_attempts_and_ends_with_the_job(capsys) -> None:
    assert treadle(Living(), "logs", "9", "-f") == 0
    out, err = capsys.readouterr()
    assert out == "half a line\nagain\nend\n"
    assert err == "treadle: attempt 2 of job 9\ntreadle: job 9 (big) succeeded\n"


def test_a_daemon_that_stays_away_ends_it_after_a_while(capsys) -> None:
    class Gone(ValueClient):
        def job(self, identity: str) -> JobDetail:
            raise UnreachableError("no daemon")

    moment = Moment()
    session = Session(connect=Gone, stopwatch=moment.stopwatch, pause=moment.pause)
    with pytest.raises(UnreachableError):
        Follower(session, "9", Printer(raw=True)).run()
    assert AWAY_MAX_S < moment.s < AWAY_MAX_S + 5


def test_ctrl_c_leaves_the_job_running(capsys) -> None:
    class Interrupted(ValueClient):
        def log(self, identity: str, **_: int) -> LogPiece:
            raise KeyboardInterrupt

    client = Interrupted(views=[running("9")])
    assert treadle(client, "logs", "9", "-f") == 101
    assert capsys.readouterr().err == (
        "treadle: detached; job 9 keeps running (treadle logs -f 9 follows it, treadle cancel 9 "
        "stops it)\n"
    )


@given(
    st.lists(st.text(alphabet="ab\xe4\u4e2d", max_size=40), max_size=60),
    st.integers(1, 20),
    st.booleans(),
)
def test_a_tail_is_the_last_lines_whatever_they_are(lines, wanted, ended) -> None:
    content = "\n".join(lines) + ("\n" if ended else "")
    client = ValueClient(logs={(1, 0): content})
    session = Session(connect=lambda: client)
    begin = tail_offset(session, "9", attempt=1, rank=0, lines=wanted)
    stripped = content.rstrip("\n")
    kept = "\n".join(stripped.split("\n")[-wanted:]) + content[len(stripped) :]
    assert content.encode()[begin:].decode() == kept


def test_a_tail_looks_further_back_until_it_has_enough() -> None:
    content = "".join(f"line {number} {'x' * 500}\n" for number in range(2000))
    session = Session(connect=lambda: ValueClient(logs={(1, 0): content}))
    begin = tail_offset(session, "9", attempt=1, rank=0, lines=1500)
    assert content[begin:].startswith("line 500 ")


def test_a_terminal_sees_colours_and_obeys_nothing_else() -> None:
    hostile = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\x1b[H\tok\r\n\x07\x9b2J\u202e"
    assert log_text(hostile) == "\x1b[31mred\x1b[0m\tok\r\n2J"
    assert plain("a\x1b[31mb\nc\u202ed") == "a?[31mb?c?d"


@given(st.text())
def test_no_text_reaches_a_terminal_with_an_escape_that_is_no_colour(text) -> None:
    left = log_text(text)
    assert "\x1b" not in left or "\x1b[" in left
    assert plain(text).isprintable()


@given(st.text(max_size=50), st.integers(2, 60))
def test_a_cut_text_is_never_wider_than_asked(text, width) -> None:
    assert width_of(cut(plain(text), width)) <= width


def test_a_table_keeps_to_its_width_and_counts_wide_letters_twice() -> None:
    columns = (Column("A", least=4), Column("B", right=True), Column("C"), Column("D", least=6))
    rows = [["\u4e2d\u6587\u4e2d\u6587", "1", "", "a long sentence"], ["x", "22", "", ""]]
    assert table(columns, rows, width=20) == (
        "A          B  D\n\u4e2d\u6587\u4e2d\u6587   1  a lo..\nx         22"
    )


def test_logs_of_a_job_that_printed_nothing_say_how_it_ended(capsys) -> None:
    because = "the command nosuch was not found"
    failed = replace(DONE, state=State.FAILED, code=127, because=because)
    assert treadle(ValueClient(views=[failed], logs={(1, 0): ""}), "logs", "9") == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"failed with exit code 127: {because}; it printed nothing\n" in shown.err
    assert treadle(ValueClient(views=[running("9")], logs={(1, 0): ""}), "logs", "9") == 0
    assert "job 9 has printed nothing yet\n" in capsys.readouterr().err


def test_logs_as_json_say_that_they_are_only_the_end(capsys) -> None:
    long = ValueClient(views=[running("9")], logs={(1, 0): "x" * 3 * 2**16})
    assert treadle(long, "logs", "9", "--json") == 0
    assert capsys.readouterr().err == (
        "treadle: rank 0: only the last 64KiB of 192KiB; without --json all of it is printed\n"
    )
    short = ValueClient(views=[running("9")], logs={(1, 0): "x"})
    assert treadle(short, "logs", "9", "--json") == 0
    assert capsys.readouterr().err == ""


def test_a_job_that_is_followed_says_that_it_waits_for_its_retry(capsys) -> None:
    class Retrying(ValueClient):
        """Backs off for a few looks, and then ends."""

        looks = 0

        def job(self, identity: str) -> JobDetail:
            self.looks += 1
            ran = detail(running(identity)).attempts
            if self.looks > 8:
                return detail(job(identity, State.SUCCEEDED, code=0), attempts=ran)
            left = f"it failed once and is tried again in {30 - self.looks} s"
            return detail(job(identity, cause="backing off", because=left), attempts=ran)

        def why(self, identity: str, *, verbose: bool = False) -> Why:
            return Why(id=identity, state=State.PENDING, code="backoff")

    client = Retrying(views=[job("9")], logs={(1, 0): "out\n"})
    assert treadle(client, "logs", "-f", "9") == 0
    out, err = capsys.readouterr()
    assert out == "out\n"
    assert err.count("job 9 waits: it failed once and is tried again in ") == 1
