"""How busy the devices of attempts were."""

from treadle.control.learning.device_use import DeviceUse
from treadle.core.launch import AttemptId
from treadle.core.machine import Measurement

A = AttemptId("a", 1)


def test_the_mean_over_measurements_is_kept_until_the_attempt_is_forgotten() -> None:
    use = DeviceUse()
    use.see([Measurement(A, 0.75)])
    use.see([Measurement(A, 0.25), Measurement(AttemptId("b", 1), 1.0)])
    assert use.mean(A) == 0.5
    use.forget(A)
    assert use.mean(A) is None
    assert use.mean(AttemptId("b", 1)) == 1.0


def test_an_attempt_that_was_not_measured_has_no_mean() -> None:
    use = DeviceUse()
    use.see([Measurement(A, None)])
    assert use.mean(A) is None
