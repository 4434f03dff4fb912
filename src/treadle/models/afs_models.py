"""The models of AFS' evaluation: iteration times as measured.

Iteration times were measured by the authors of AFS (Hwang et al., NSDI'21) on nodes of four GPUs
(repository TuftsNATLab/PCS at 4ed6b2e45b31, simulation/models.py; MIT). The number in a model's
name is its global batch. A table ends where more GPUs stop helping, or were not tried.
"""

from collections.abc import Mapping

from treadle.models.fitted import Point

COUNTS: tuple[int, ...] = (1, 2, *range(4, 65, 4))
# model -> seconds of one iteration at each of COUNTS, up to the largest measured
# fmt: off
ITERATION_S: Mapping[str, tuple[float, ...]] = {
    "VggnetModel256": (3.020532, 1.659208, 0.868694, 0.456675),
    "GooglenetModel128": (0.34697, 0.18714, 0.106182, 0.061929, 0.047692, 0.042424, 0.041039),
    "Inception4Model256": (
        5.834222, 2.988258, 1.46861, 0.748649, 0.510674, 0.421657, 0.344953, 0.303976, 0.273867,
        0.257504, 0.237342, 0.227508, 0.203455, 0.199246, 0.183125,
    ),
    "Resnet50Model128": (
        0.94117, 0.474975, 0.25992, 0.158287, 0.114529, 0.104129, 0.093466, 0.090556, 0.088089,
    ),
    "DeepspeechModel64": (0.619714, 0.415717, 0.356149, 0.339434, 0.333786, 0.316334, 0.309056),
    "AutoencoderModel51200": (
        17.823579, 9.131074, 4.671065, 2.26294, 1.56015, 1.110429, 0.823213, 0.744334, 0.669837,
        0.576488, 0.474042, 0.418247, 0.415891, 0.405689, 0.354215, 0.341132, 0.326437, 0.296833,
    ),
    "TransformerModel4096": (
        39.936031, 20.050013, 9.915959, 5.010328, 3.322359, 2.489734, 2.001489, 1.681022, 1.446014,
        1.269672, 1.119196, 0.995758, 0.913531, 0.846589, 0.76226, 0.725532, 0.666628, 0.620395,
    ),
    "TransformerModel256": (
        2.776298, 1.466578, 0.808534, 0.425236, 0.365623, 0.281928, 0.239742, 0.229748, 0.225357,
        0.213839, 0.212868, 0.20131, 0.195461,
    ),
    "DcganModel256": (0.282031, 0.15558, 0.089254, 0.060117, 0.055566, 0.047983, 0.044481),
    "ChatbotModel256": (0.114644, 0.080233, 0.066419),
    "VideopredictionModel64": (
        1.123488, 0.625106, 0.379974, 0.294777, 0.261078, 0.249234, 0.230291, 0.219267, 0.218602,
    ),
}
# fmt: on


def measured(model: str) -> tuple[Point, ...]:
    """The measured curve of a model: seconds of one iteration by size."""
    return tuple(zip(COUNTS, ITERATION_S[model], strict=False))
