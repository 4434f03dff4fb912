"""Published measurements of models: stage times by size, with their source.

Muri (Zhao et al., SIGCOMM'22; the authors' artifact, trace files): V100 GPUs, eight to a node.
Milliseconds of one iteration: alone, then reading and preparing data, computing, synchronising.

Reading and preparing were measured as one. A profile here counts half of it as reading from storage
and half as preparing on the CPU: an assumption, and the one that Muri makes by spreading this stage
over two of its four slots.
"""

from collections.abc import Mapping

from treadle.core.job import Profile

# model -> size -> (alone, data, compute, network), in milliseconds
MURI: Mapping[str, Mapping[int, tuple[float, float, float, float]]] = {
    "vgg16": {
        1: (107, 117, 68, 0),
        2: (191, 114, 72, 40),
        4: (201, 82, 72, 67),
        8: (214, 82, 75, 66),
        16: (332, 83, 68, 110),
        32: (336, 87, 67, 131),
    },
    "vgg19": {
        1: (109, 114, 80, 0),
        2: (205, 115, 83, 41),
        4: (212, 84, 85, 73),
        8: (226, 82, 88, 60),
        16: (302, 102, 78, 123),
        32: (356, 89, 79, 141),
    },
    "resnet18": {
        1: (779, 711, 110, 0),
        2: (881, 687, 110, 95),
        4: (921, 723, 113, 73),
        8: (1010, 784, 117, 77),
        16: (1055, 736, 108, 93),
        32: (1059, 712, 111, 93),
    },
    "shufflenet_v2_x1_0": {
        1: (798, 706, 59, 0),
        2: (850, 747, 58, 18),
        4: (886, 703, 62, 17),
        8: (957, 769, 57, 10),
        16: (1006, 776, 57, 21),
        32: (1019, 799, 56, 24),
    },
    "bert": {
        1: (178, 0.5, 160, 0),
        2: (195, 0.5, 163, 18),
        4: (190, 0.5, 163, 18),
        8: (192, 0.5, 167, 59),
        16: (244, 0.5, 166, 86),
        32: (260, 0.5, 166, 133),
    },
    "gpt2": {
        1: (426, 0.6, 410, 0),
        2: (464, 0.7, 416, 40),
        4: (433, 0.6, 413, 20),
        8: (437, 0.6, 419, 49),
        16: (491, 0.6, 415, 137),
        32: (514, 0.7, 414, 216),
    },
    "a2c": {
        1: (517, 514, 14, 0),
        2: (525, 504, 14, 0.5),
        4: (533, 502, 10, 0.3),
        8: (555, 502, 14, 0.4),
        16: (567, 514, 14, 1.2),
        32: (585, 507, 14, 2),
    },
    "dqn": {
        1: (490, 446, 8, 0),
        2: (495, 441, 8, 0.6),
        4: (505, 440, 8, 0.4),
        8: (509, 435, 8, 0.5),
        16: (525, 438, 8, 1.2),
        32: (546, 437, 8, 1.6),
    },
}


def muri_profile(model: str, size: int) -> Profile:
    """The measured profile of one of Muri's models."""
    alone, data, compute, network = (ms / 1000.0 for ms in MURI[model][size])
    return Profile(
        load_s=data / 2,
        prepare_s=data / 2,
        compute_s=compute,
        sync_s=network,
        alone_s=alone,
        size=size,
        model=model,
    )
