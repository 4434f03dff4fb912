"""Progress from the last lines of a log, as libraries and people print it."""

import time

import pytest

from treadle.control.learning.progress_lines import TAIL_BYTES, Seen, read

HF = " 12%|█▏        | 120/1000 [01:02<07:35,  1.93it/s]"
BAR = " 45%|####5     | 450/1000 [00:10<00:12, 44.5it/s]"

CASES = {
    # -- tqdm
    "a bar": (BAR, Seen(450, 1000, None)),
    "a bar with a name": (f"Training:{BAR}", Seen(450, 1000, None)),
    "a bar in blocks": ("100%|██████████| 10/10 [00:01<00:00,  9.9it/s]", Seen(10, 10, None)),
    "a bar with its loss": (
        " 45%|####5     | 450/1000 [00:10<00:12, 44.5it/s, loss=0.53]",
        Seen(450, 1000, 0.53),
    ),
    "the newest of many on one line": (
        "\r  1%| | 1/100 [00:00<?, ?it/s]\r  2%| | 2/100 [00:01<01:38,  1.0s/it]",
        Seen(2, 100, None),
    ),
    "a bar that has only begun": ("  0%|          | 0/1000 [00:00<?, ?it/s]", Seen(0, 1000, None)),
    "a bar in thousands": (
        " 12%|█▏ | 1.20k/10.0k [00:10<01:10, 120it/s]",
        Seen(1200, 10_000, None),
    ),
    "a bar with commas": (
        " 12%|█▏ | 1,200/10,000 [00:10<01:10, 120it/s]",
        Seen(1200, 10_000, None),
    ),
    "a bar without a total": ("450it [00:10, 44.5it/s]", None),
    "a bar in seconds each": (" 5%|▌ | 5/100 [10:00<3:10:00, 120.0s/it]", Seen(5, 100, None)),
    "a nested bar of epochs": (
        f"Epochs:  30%|███       | 3/10 [10:00<20:00, 200s/it]\n{BAR}",
        Seen(3450, 10_000, None),
    ),
    "a named epoch of several around a bar": (f"Epoch 3/10: {BAR}", Seen(2450, 10_000, None)),
    "a bar of epochs alone": (
        "Epoch:  30%|███       | 3/10 [10:00<20:00, 200s/it]",
        Seen(3, 10, None),
    ),
    # -- what is no training
    "a download": ("model.bin:  45%|████▌     | 2.25G/5.00G [00:10<00:12, 220MB/s]", None),
    "a map of a data set": (
        "Map:  50%|█████     | 25000/50000 [00:10<00:10, 2500 examples/s]",
        None,
    ),
    "shards that are loaded": (
        "Loading checkpoint shards: 100%|██████████| 4/4 [00:05<00:00,  1.2s/it]",
        None,
    ),
    "training after the map of a data set": (
        f"Map: 100%|█████| 50000/50000 [00:10<00:00, 2500 examples/s]\n{HF}",
        Seen(120, 1000, None),
    ),
    "an evaluation in the middle of training": (
        f"{HF}\n\n  2%|▏         | 1/50 [00:00<00:10,  4.9it/s]",
        Seen(120, 1000, None),
    ),
    "an evaluation that says so": (
        f"{HF}\nEvaluating:  2%|▏    | 100/5000 [00:00<00:10,  4.9it/s]",
        Seen(120, 1000, None),
    ),
    # -- Hugging Face
    "the trainer's bar": (HF, Seen(120, 1000, None)),
    "the trainer's bar and its words": (
        f"{HF}\n{{'loss': 0.5312, 'grad_norm': 1.27, 'learning_rate': 2e-05, 'epoch': 1.27}}\n",
        Seen(120, 1000, 0.5312),
    ),
    "the trainer's words behind its bar": (
        "{'loss': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.03}\n" + HF,
        Seen(120, 1000, 1.25),
    ),
    "the trainer's last words": (
        "{'train_runtime': 62.1, 'train_loss': 0.41}\n100%|███| 1000/1000 [01:02<00:00, 16it/s]\n",
        Seen(1000, 1000, 0.41),
    ),
    # -- Lightning
    "an epoch without a total": (
        "Epoch 3:  45%|████▌     | 45/100 [00:10<00:12,  4.50it/s, v_num=0, train_loss=0.530]",
        Seen(345, None, 0.53),
    ),
    "the first epoch of Lightning": (
        "Epoch 0:   5%|▌         | 5/100 [00:10<00:12,  4.50it/s, v_num=0]",
        Seen(5, None, None),
    ),
    "Lightning's check of its sanity": (
        "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00,  1.2it/s]",
        None,
    ),
    # -- Keras
    "Keras 2": (
        "Epoch 3/10\n 45/100 [============>.................] - ETA: 12s - loss: 0.5300",
        Seen(245, 1000, 0.53),
    ),
    "Keras 3": (
        "Epoch 1/2\n\r 50/100 ━━━━━━━━━━━━━━━━━━━━ 12s 230ms/step - accuracy: 0.9 - loss: 0.3",
        Seen(50, 200, 0.3),
    ),
    # -- other libraries
    "Megatron": (
        " iteration      450/    1000 | consumed samples:  28800 | lm loss: 6.543210E+00 | nan: 0",
        Seen(450, 1000, 6.54321),
    ),
    "timm": ("Train: 3 [ 450/1000 ( 45%)]  Loss: 0.53 (0.60)  Time: 0.1s", Seen(3450, None, 0.53)),
    "the examples of PyTorch": (
        "Train Epoch: 3 [45000/60000 (75%)]\tLoss: 0.530000",
        Seen(225_000, None, 0.53),
    ),
    "ImageNet's example": ("Epoch: [3][ 450/1000]\tTime  0.1\tLoss 0.53", Seen(3450, None, 0.53)),
    "mmengine by iterations": (
        "11/15 12:00:00 - mmengine - INFO - Iter(train) [ 450/1000]  lr: 1e-3  loss: 0.53",
        Seen(450, 1000, 0.53),
    ),
    "detectron2": ("eta: 0:10:20  iter: 459  total_loss: 1.2  lr: 0.02", Seen(459, None, 1.2)),
    "a small GPT": ("iter 450: loss 0.5300, time 12.10ms, mfu 30.00%", Seen(450, None, 0.53)),
    # -- people
    "step of": ("step 450/1000 loss=0.53", Seen(450, 1000, 0.53)),
    "in brackets": ("[450/1000] loss: 0.53", Seen(450, 1000, 0.53)),
    "in words": ("iteration: 45 of 100", Seen(45, 100, None)),
    "a global step": ("global_step=450/1000", Seen(450, 1000, None)),
    "epochs alone": ("Epoch 3/10, loss: 0.5, accuracy: 0.9", Seen(3, 10, 0.5)),
    "epochs in brackets": ("Epoch [3/10] Step [45/100] Loss: 0.5", Seen(245, 1000, 0.5)),
    "a loss of the step's own line": (
        "step 1/10 loss=0.9\nstep 2/10 loss=0.7\nvalidated, loss 3.1",
        Seen(2, 10, 0.7),
    ),
    "not the loss of an evaluation": (
        "loss: 0.53\n[4/10] 12 s\nval_loss: 0.6, eval loss 0.7, test/loss: 0.8",
        Seen(4, 10, 0.53),
    ),
    "a loss below zero": ("step 1/10 loss=-3.5e-2", Seen(1, 10, -0.035)),
    "a loss that is no number": ("step 1/10 loss=nan", Seen(1, 10, None)),
    # -- nothing
    "no progress at all": ("Loading the model ...\nok\n", None),
    "nothing": ("", None),
    "a date in brackets": ("[11/15/2026 12:00:01] started", None),
    "a date the other way round": ("[2026/11/15 12:00:01] started", None),
    "a path": ("reading /data/12/34", None),
    "more steps than there are": ("step 1200/1000", None),
    "a total of nothing": ("step 0/0", None),
    "a rank of so many": ("rank 3/8 is ready", None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_end_of_a_log_says_how_far_the_job_is(name: str) -> None:
    text, seen = CASES[name]
    assert read(text) == seen
    assert read(f"something else\n{text}\n") == seen


@pytest.mark.parametrize(
    "text",
    [
        "|" * TAIL_BYTES,
        "| 1" * (TAIL_BYTES // 3),
        "[" * TAIL_BYTES,
        "[ " * (TAIL_BYTES // 2),
        "epoch " * (TAIL_BYTES // 6),
        "step " * (TAIL_BYTES // 5),
        "9" * TAIL_BYTES,
        "loss" * (TAIL_BYTES // 4),
        "\r" * TAIL_BYTES,
        "1/" * (TAIL_BYTES // 2),
        ("Epoch 1/3: 45%|##| " + "9" * 1980 + "\n") * 8,
        "\x00\ufffd" * (TAIL_BYTES // 2),
    ],
)
def test_time_to_read_grows_with_the_length_of_hostile_output_and_not_faster(text: str) -> None:
    def cpu_s(size: int) -> float:
        best_s = 9.0
        for _ in range(3):
            begun_s = time.process_time()
            read(text[:size])
            best_s = min(best_s, time.process_time() - begun_s)
        return best_s

    # Eight times the text, with room for a noisy machine; a square would be 64.
    assert cpu_s(TAIL_BYTES) < 24 * cpu_s(TAIL_BYTES // 8) + 0.01
