"""The seven models of Rubick's evaluation: facts, links and fitted factors.

Source: the artifact of Rubick (Zhang et al., MLSys'25; AlibabaPAI/reconfigurable-dl-scheduler,
Apache-2.0): parameter counts, batches, forward times and the 512 measured iteration times on
servers of eight A800 GPUs. Dimensions of the networks are those of their published descriptions.

The factors are `fit.fit` of measured iteration times, to four places, on these rows and no
others: for all but LLaMA every plan on one node, on two nodes of four and on four nodes of two
(GPT-2 also on two nodes of five; RoBERTa without one device, where its rows contradict each other);
for LLaMA-7B every plan on one node, two nodes of eight and four nodes of four. LLaMA-30B has eleven
rows: it takes the factors of 7B, and only its forward is fitted, to its three rows on four and five
nodes. Each has a comment with the mean error over the fitted rows, then over all measured rows.
`tests/exact/test_rubick_ranking.py` repeats the fits.

The links are one set for all. In the measured times a node with one or two devices in use reaches
others at 20 GB/s, with three or four at 40, with eight at 80: a card for each pair of devices.
"""

from collections.abc import Mapping

from treadle.models.plans.iteration_time import Factors, Links, ModelFacts, ModelType

A800 = Links(inner=150.0, outer=20.0, host=16.0, devices_per_card=2, chunks=False)

_LLAMA = Factors(
    k_bwd=1.716, k_sync=1.0, k_opt=0.04192, k_opt_off=27.51, k_const=47.1, k_off=2050.0, k_swap=0.0
)

TYPES: Mapping[str, ModelType] = {
    "vit": ModelType(  # 3.9 %, 39.6 %: see below
        ModelFacts("vit", 85_952_456, 64, 197, 768, 12, 12, 40.0, recompute=1.076, splits=False),
        A800,
        Factors(1.755, 1.0, 0.0, 1.098, 16.98, 19.05, 16.98, sharded_extra=0.3878),
    ),
    "roberta": ModelType(  # 1.6 %, 6.0 %
        ModelFacts(
            "roberta", 355_412_057, 64, 512, 1024, 24, 16, 480.0, recompute=0.9447, splits=False
        ),
        A800,
        Factors(1.607, 1.471, 0.04826, 0.6729, 25.93, 120.8, 29.05, sharded_extra=0.2368),
    ),
    "bert": ModelType(  # 2.1 %, 4.2 %
        ModelFacts(
            "bert",
            *(336_297_858, 32, 512, 1024, 24, 16, 226.0, 13.4),
            recompute=0.8416,
            splits=False,
        ),
        A800,
        Factors(1.761, 1.0, 0.02503, 1.01, 13.77, 88.25, 13.77, sharded_extra=0.08971),
    ),
    "t5": ModelType(  # 2.0 %, 9.0 %
        ModelFacts(
            "t5",
            *(1_240_809_472, 16, 512, 1024, 48, 16, 358.0, 14.0),
            tensor_efficiency=((2, 0.3252), (4, 0.3168), (8, 0.2692)),
            recompute=0.756,
        ),
        A800,
        Factors(1.643, 1.046, 0.07715, 0.9032, 14.21, 368.7, 8.193, sharded_extra=0.07588),
    ),
    "gpt2": ModelType(  # 1.7 %, 4.0 %
        ModelFacts(
            "gpt2",
            *(1_557_686_400, 16, 1024, 1600, 48, 25, 1100.0, 9.7),
            tensor_efficiency=((5, 0.8622),),
            recompute=0.7364,
        ),
        A800,
        Factors(2.065, 1.004, 0.08382, 1.683, 0.0, 495.4, 0.0, sharded_extra=0.00371),
    ),
    "llama7b": ModelType(  # 0.6 %, 0.8 %
        ModelFacts("llama7b", 6_738_423_808, 8, 2048, 4096, 32, 32, 2990.0, 8.0), A800, _LLAMA
    ),
    "llama30b": ModelType(  # 0.3 %, 6.6 %
        ModelFacts("llama30b", 33_170_309_120, 4, 2048, 6656, 60, 52, 6518.0, 8.0), A800, _LLAMA
    ),
}
# ViT on four or eight devices with an odd number of them on some node was measured two to six times
# slower than elsewhere, under every plan but off-load. T5 shows it too, by up to 1.6 times; the
# other models do not, and no term here explains it.

# The names that Rubick's traces use.
ALIASES: Mapping[str, str] = {"llama7": "llama7b", "llama30": "llama30b"}

# By every name, for a `Planner`.
KNOWN: Mapping[str, ModelType] = {
    **TYPES,
    **{alias: TYPES[name] for alias, name in ALIASES.items()},
}
