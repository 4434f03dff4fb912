"""Published and measured numbers that the generators are calibrated on.

Philly: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
USENIX ATC 2019, and statistics of the log released with it (CC-BY-4.0): 109,532 jobs of 2017 with
times and GPUs. AITurbo: the job table released with Li et al., HPDC 2021 (8,692 jobs).
"""

# -- Philly -------------------------------------------------------------------------------------

# GPUs of a job -> share of the jobs.
# fmt: off
SIZE_SHARES = {
    1: 0.871544, 2: 0.022541, 4: 0.047721, 6: 9e-06, 7: 1.8e-05, 8: 0.048872, 12: 0.00011,
    16: 0.007076, 20: 9e-06, 24: 0.00031, 32: 0.001771, 48: 1.8e-05,
}
# Run time summed over attempts, in minutes, at each of these shares of the jobs of a bucket.
QUANTILES = (
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95,
    0.97, 0.99, 0.995, 0.999,
)
DURATION_MINUTES = {
    "1": (
        0.25, 0.367, 0.683, 0.95, 1.1, 1.217, 1.717, 3.267, 9.717, 18.85, 31.167, 44.05,
        57.767, 74.463, 101.797, 208.165, 700.847, 1473.895, 6581.681, 14209.774, 42290.15,
    ),
    "2-4": (
        0.133, 0.167, 0.233, 0.3, 0.383, 0.567, 1.15, 2.183, 6.617, 17.783, 139.833, 515.15,
        887.3, 1378.633, 2026.692, 3149.625, 5687.217, 8724.206, 17498.255, 24626.663,
        55067.165,
    ),
    "5-8": (
        0.2, 0.317, 0.633, 1.2, 2.35, 4.133, 6.312, 11.425, 44.45, 142.875, 336.683,
        978.975, 1503.396, 2328.733, 3374.275, 4771.767, 8603.958, 11918.632, 20842.229,
        31173.493, 56586.149,
    ),
    ">8": (
        0.233, 0.333, 0.583, 0.795, 1.217, 2.297, 4.3, 6.038, 24.52, 83.125, 241.04,
        552.533, 813.067, 1051.577, 1677.555, 2688.942, 5596.454, 8473.399, 12104.318,
        14790.416, 23785.858,
    ),
}
# Virtual cluster -> (jobs, GPUs of a job -> share of its jobs).
VIRTUAL_CLUSTERS: dict[str, tuple[int, dict[int, float]]] = {
    "6214e9": (51258, {1: 0.9646, 2: 0.0065, 4: 0.0182, 8: 0.0106}),
    "11cb48": (
        19048,
        {1: 0.8842, 2: 0.0807, 4: 0.0253, 8: 0.0039, 16: 0.005, 24: 0.0003, 32: 0.0005},
    ),
    "6c71a0": (
        14783,
        {1: 0.9027, 2: 0.0041, 4: 0.0366, 6: 0.0001, 8: 0.0547, 16: 0.0016, 32: 0.0001, 48: 0.0001},
    ),
    "b436b2": (
        9031,
        {1: 0.8631, 2: 0.0035, 4: 0.0329, 8: 0.0747, 16: 0.025, 24: 0.0006, 32: 0.0001},
    ),
    "ee9e8c": (
        5452,
        {1: 0.4114, 2: 0.0306, 4: 0.1665, 7: 0.0004, 8: 0.3094, 16: 0.0682, 20: 0.0002, 24: 0.0031,
         32: 0.0101},
    ),
    "103959": (2677, {1: 0.669, 2: 0.0161, 4: 0.3149}),
    "0e4a51": (2465, {1: 0.6337, 2: 0.1043, 4: 0.23, 8: 0.032}),
    "7f04ca": (1461, {1: 0.3634, 2: 0.0034, 4: 0.2868, 8: 0.3066, 16: 0.0246, 32: 0.0151}),
    "ed69ec": (1400, {1: 1.0}),
    "2869ce": (956, {1: 0.1391, 2: 0.023, 4: 0.0356, 8: 0.6925, 16: 0.0031, 32: 0.1067}),
    "e13805": (
        938,
        {1: 0.3689, 2: 0.0096, 4: 0.2047, 8: 0.3753, 12: 0.0128, 16: 0.0181, 24: 0.0075,
         32: 0.0032},
    ),
    "51b7ef": (63, {1: 0.4762, 2: 0.0159, 4: 0.1587, 8: 0.3492}),
}
# Virtual cluster -> GPU-hours of its jobs in the log.
GPU_HOURS = {
    "6214e9": 564_850, "11cb48": 81_332, "6c71a0": 188_812, "b436b2": 478_564, "ee9e8c": 579_185,
    "103959": 50_827, "0e4a51": 146_454, "7f04ca": 342_737, "ed69ec": 23_975, "2869ce": 106_284,
    "e13805": 114_914, "51b7ef": 806,
}
# How jobs ended: (share of the jobs, share of the GPU time); the study's table 6.
ENDS = {
    "passed": (66_696 / 96_260, 0.4453),
    "killed": (12_996 / 96_260, 0.3769),
    "unsuccessful": (16_568 / 96_260, 0.1776),
}
# Jobs of one virtual cluster no more than a minute apart are a burst. Share of the bursts -> jobs
# in one, at most; between the published quantiles (0.81, 0.9, 0.95, 0.99, 0.999) by the mean (3.1)
# and by the jobs in bursts of 10 (58 %) and 50 (51 %) or more.
BURST_JOBS = (
    (0.81, 1), (0.90, 2), (0.95, 4), (0.98, 10), (0.99, 41), (0.995, 80), (0.999, 372), (1.0, 600),
)
BURST_GAP_S = 60
BURST_SAME_SIZE = 0.97
BURST_DURATION_SPREAD = 0.5  # standard deviation of ln duration within a burst
# Arrivals of a median day by hour (UTC), and of a week by day from Monday, over their means.
HOURS = (
    1.179, 0.812, 1.205, 0.734, 0.655, 1.651, 2.751, 2.699, 0.891, 0.76, 0.576, 0.393, 0.445,
    0.393, 0.341, 0.445, 0.76, 1.048, 0.969, 0.576, 1.048, 1.1, 1.258, 1.31,
)
DAYS = (0.777, 1.01, 1.131, 1.319, 1.406, 0.752, 0.604)
# fmt: on

# -- AITurbo ------------------------------------------------------------------------------------

# Share of the jobs -> seconds. The ends are our choice: the table gives the tenth to ninetieth
# percentiles and the longest job.
PREDICTABLE_SECONDS = (
    (0.0, 60),
    (0.10, 408),
    (0.25, 2_992),
    (0.50, 8_970),
    (0.75, 15_666),
    (0.90, 32_086),
    (1.0, 89_145),
)
UNPREDICTABLE_SECONDS = (
    (0.0, 5),
    (0.10, 28),
    (0.25, 140),
    (0.50, 470),
    (0.75, 1_007),
    (0.90, 2_081),
    (1.0, 8_000),
)
# GPUs -> share of the jobs; the 11.7 % that use none are left out.
AITURBO_SIZE_SHARES = {1: 0.216, 2: 0.095, 4: 0.024, 6: 0.415, 8: 0.132}
CPU_SLOT_SHARES = {1: 0.22, 2: 0.46, 3: 0.12, 4: 0.14, 6: 0.06}  # workers -> share of the jobs
REPEATED = 0.71  # of the jobs belong to a family seen before
UNPREDICTABLE_FIRST = 0.41  # of the first submissions
UNPREDICTABLE_REPEATED = 0.043  # of the others
REPEAT_SPREAD = 0.05  # a repeated job takes its family's time, give or take
