"""What `--elastic auto` writes of a script that is not there is known to the classifier."""

import pytest

from treadle.failures.classifier import classify
from treadle.train.auto.__main__ import main


def test_a_script_that_is_not_there_is_a_wrong_path(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nosuch.py"])
    assert classify(capsys.readouterr().err).rule == "wrong-path"
