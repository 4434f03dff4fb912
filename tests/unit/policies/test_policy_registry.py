"""From `name?parameter=value` to a policy, and what is said when that does not work."""

import sys
from math import inf
from pathlib import Path

import pytest

from tests.unit.stories import play
from treadle.core.errors import InvalidInputError
from treadle.models.scaling import ScalingModel
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.testing.builders import job
from treadle.wire.parameters import parameters

THIRD_PARTY = '''
from treadle.policies.base.ordered import Ordered
from treadle.core.ranking import Rank


def latest(placement, belief, *, tag="x", rounds=3):
    """Last come, first served.

    More about it.
    """
    return Ordered(lambda job, now: Rank(-job.sequence), placement)


def bare(placement, belief):
    return latest(placement, belief)


def plain(inner, placement, belief, *, tag="y"):
    """Changes nothing."""
    return inner
'''


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with policies of its own, one of which claims the name fifo."""
    (tmp_path / "latest_first.py").write_text(THIRD_PARTY)
    info = tmp_path / "latest_first-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latest-first\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[treadle.policies]\n"
        "latest = latest_first:latest\n"
        "bare = latest_first:bare\n"
        "fifo = latest_first:latest\n"
        "[treadle.wrappers]\n"
        "plain = latest_first:plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "latest_first", raising=False)


def refusal(text: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        registry.policy(text, placement("count"), ScalingModel())
    return str(caught.value)


def test_an_unknown_policy_is_answered_with_the_nearest_name() -> None:
    assert refusal("tiresia") == (
        "there is no policy 'tiresia'; did you mean tiresias? (`treadle policies` lists them all)"
    )
    assert refusal("qqqqqq") == "there is no policy 'qqqqqq' (`treadle policies` lists them all)"


def test_an_unknown_parameter_is_answered_with_those_there_are() -> None:
    assert refusal("las?margins=3") == (
        "policy las has no parameter 'margins' (it takes share, margin_s, quantum_s); "
        "did you mean margin_s?"
    )
    assert refusal("max-min?zzz=3") == (
        "policy max-min has no parameter 'zzz' (it takes quantum_s, turns)"
    )
    assert refusal("fifo?strict=on") == "policy fifo has no parameter 'strict' (it takes none)"


def test_a_parameter_without_a_value_says_how_to_write_one() -> None:
    assert refusal("las?margin_s") == "policy las needs a value for margin_s: write margin_s=VALUE"


@pytest.mark.parametrize("second", ["3", "2"])
def test_a_parameter_that_is_given_twice_is_refused(second: str) -> None:
    sentence = "policy weave-l is given group twice; once is enough"
    assert refusal(f"weave-l?group=2&group={second}") == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("las?margin_s=soon", "policy las parameter margin_s takes a finite number, not 'soon'"),
        ("las?margin_s=", "policy las parameter margin_s takes a finite number, not ''"),
        ("las?quantum_s=nan", "policy las parameter quantum_s takes a number, or inf, not 'nan'"),
        ("sjf?strict=maybe", "policy sjf parameter strict takes on or off, not 'maybe'"),
        (
            "tiresias?limits=1:b",
            "policy tiresias parameter limits takes finite numbers as a:b:c, not '1:b'",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_right_kind(text: str, sentence: str) -> None:
    assert refusal(text) == sentence


@pytest.mark.parametrize(
    "text",
    [
        *("las?margin_s=-1", "las?quantum_s=0", "gittins?keep=0.5", "afs-p?quantum_s=0"),
        *("tiresias?limits=5:5", "tiresias?limits=0", "tiresias?promote=-1"),
        *("max-min?quantum_s=0", "themis?lease_s=-3", "synergy?restart_s=-1"),
        *("sia?power=1", "sia?idle=0", "sia?restart_s=-1"),
        *("rubick?gate=2", "rubick?knee=-1", "rubick?restart_s=-1", "rubick?quotas=a"),
        *("philly?quotas=a:0", "philly?r1=5&r2=2", "philly?tick_s=0", "philly?granted=0"),
        *("philly?most=0.5", "antman?quotas=a:x"),
        *("aiturbo?fidelity=x", "aiturbo?every_s=0", "aiturbo?limits=5:5", "aiturbo?restart_s=-1"),
        *("weave?group=9", "weave?power=-3", "weave?least=0", "weave?restart_s=-1"),
        *("weave-l?deadline=-1", "fifo+locality?share=-1", "fifo+overtaking?limit=-1"),
        *("fifo+dedicated?from=0", "fifo+defrag?cooldown_s=-1", "fifo+try-small?seconds=0"),
    ],
)
def test_a_value_out_of_range_names_the_policy_and_the_parameter(text: str) -> None:
    name, _, parameter = text.rpartition("+")[2].partition("=")[0].partition("?")
    said = refusal(text)
    assert said.startswith(f"{name} ")
    assert parameter in said


def test_a_whole_number_is_asked_for_where_the_default_is_one(third_party: None) -> None:
    assert refusal("latest?rounds=2.5") == (
        "policy latest parameter rounds takes a whole number, not '2.5'"
    )


@pytest.mark.parametrize("word", ["on", "True", "OFF", "false"])
def test_yes_and_no_are_written_as_words(word: str) -> None:
    policy = registry.policy(f"sjf?strict={word}", placement("count"), ScalingModel())
    assert policy.in_order == (word in ("on", "True"))


def test_every_built_in_policy_says_what_it_is_in_one_line() -> None:
    assert registry.names() == list(registry.BUILT_IN)
    for name in registry.names():
        line = registry.first_line(registry.factory(name))
        assert line[0].isupper(), name
        assert 20 < len(line) <= 90, name


def test_a_third_partys_policy_is_found_listed_and_run(third_party: None) -> None:
    assert registry.names() == [*registry.BUILT_IN, "bare", "latest"]
    assert registry.first_line(registry.factory("latest")) == "Last come, first served."
    assert registry.first_line(registry.factory("bare")) == "(no description)"
    jobs = [job("a", size=4, length_s=2.0), job("b", size=4, length_s=2.0, at=1.0)]
    jobs.append(job("c", size=4, length_s=2.0, at=1.0))
    starts = [line for line in play("latest?tag=anything&rounds=4", jobs) if "start" in line]
    assert [line.split()[2] for line in starts] == ["a", "c", "b"]


def test_a_built_in_name_cannot_be_taken_over(third_party: None) -> None:
    assert registry.first_line(registry.factory("fifo")).startswith("First come, first served")
    assert registry.names().count("fifo") == 1


def test_a_third_partys_wrapper_is_found_listed_and_worn(third_party: None) -> None:
    assert registry.names(registry.WRAPPER) == [*registry.WRAPPERS, "plain"]
    assert registry.first_line(registry.factory("plain", registry.WRAPPER)) == "Changes nothing."
    jobs = [job("a", size=4, length_s=2.0), job("b", size=4, length_s=2.0, at=1.0)]
    assert play("fifo+plain?tag=z+defrag", jobs) == play("fifo", jobs)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999"])
def test_no_parameter_takes_a_number_without_end_unless_that_is_its_default(value: str) -> None:
    made = [(name, "", registry.factory(name)) for name in registry.names()]
    made += [
        (name, "fifo+", registry.factory(name, registry.WRAPPER))
        for name in registry.names(registry.WRAPPER)
    ]
    checked = 0
    for name, before, make in made:
        for parameter, known in parameters(make).items():
            endless = known.default == inf and value in {"inf", "1e999"}
            if isinstance(known.default, float | tuple) and not endless:
                sentence = refusal(f"{before}{name}?{parameter}={value}")
                assert f"{name} parameter {parameter} takes " in sentence
                checked += 1
    assert checked > 20
