"""transformers with torch on the same card: BERT-base in bfloat16, eager and compiled.

With the settings of transformers' Trainer: autocast over float32 weights, scaled-dot-
product attention, torch's fused AdamW, gradient clipping.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks import flops
from benchmarks.gpu import cards, shapes
from benchmarks.gpu.process import is_dry

RATE, ROUNDS = 2e-5, 5
_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "labels": "label_ids",
}


def trains(batch: int, length: int, *, compiled: bool) -> dict[str, Any]:
    """A row: the time of a training step."""
    import torch
    import transformers

    shape = shapes.base(batch, length)
    device = "cuda" if torch.cuda.is_available() and not is_dry() else "cpu"
    torch.manual_seed(1)
    config = transformers.BertConfig(num_labels=shapes.CLASSES, **shape.google_config)
    model = transformers.BertForSequenceClassification(config).to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), RATE, weight_decay=0.01, fused=True
    )
    rows = {
        n: a.reshape(-1, *a.shape[2:]) for n, a in shapes.drawn(shape, 1, 0).items()
    }
    placed = {
        name: torch.tensor(rows[ours]).long().to(device)
        for name, ours in _NAMES.items()
    }
    forward = torch.compile(model) if compiled else model

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = forward(**placed).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def several(count: int) -> float:
        """Seconds for some steps; losses are read at the end, which favours torch."""
        began = time.perf_counter()
        losses = [step() for _ in range(count)]
        float(losses[-1])
        return time.perf_counter() - began

    first = several(1)
    several(3)
    count = max(3, round((0.05 if is_dry() else 1.0) / (several(3) / 3)))
    middle = statistics.median(several(count) / count for _ in range(ROUNDS))
    rate = flops.model_flops(shape) / middle / 1e12
    figures: dict[str, Any] = {
        "first_step_s": first,
        "step_ms": middle * 1e3,
        "examples_per_s": shape.batch / middle,
        "tflops": rate,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    words = f"{middle * 1e3:.4g} ms a step of {shape}, {shape.batch / middle:.4g}"
    words += f" examples/s, {rate:.4g} TFLOP/s"
    if device == "cuda":
        held = torch.cuda.max_memory_allocated() / 1e9
        figures["peak_gb"] = held
        words += f"; {held:.3g} GB"
        sheet = cards.peak_of(torch.cuda.get_device_name())
        if sheet and sheet.bfloat16:
            figures["share_of_peak"] = rate / sheet.low
            words += f"; {rate / sheet.low:.0%} of the peak"
    return {"told": words, "figures": figures}
