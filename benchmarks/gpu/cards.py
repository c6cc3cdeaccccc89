"""NVIDIA cards: what their data sheets promise, and what nvidia-smi reports."""

from __future__ import annotations

import contextlib
import re
import subprocess
from typing import NamedTuple


class Peak(NamedTuple):
    """Dense TFLOP/s (without "structured sparsity", which doubles the printed figures).

    low: bfloat16, or float16 where there is no bfloat16; accumulates in float32.
    """

    low: float
    tf32: float | None
    float32: float
    bfloat16: bool = True  # in hardware

    def of(self, precision: str) -> float | None:
        """The peak in a precision; None if the card does not support it."""
        if precision == "bfloat16" and not self.bfloat16:
            return None
        return {"tf32": self.tf32, "float32": self.float32}.get(precision, self.low)


# The first pattern that matches a name counts, so variants come before the card itself.
# Figures that are printed "with sparsity" are halved here.
PEAKS: tuple[tuple[str, Peak], ...] = (
    # NVIDIA Blackwell architecture technical brief (HGX B200)
    (r"\bB200\b", Peak(2250, 1125, 75)),
    # H200 Tensor Core GPU datasheet: NVL, SXM
    (r"\bH200 NVL\b", Peak(835.5, 417.5, 60)),
    (r"\bH200\b", Peak(989.5, 494.7, 67)),
    # H20, sold in China: vendors' data sheets
    (r"\bH20\b", Peak(148, 74, 44)),
    # H100 NVL and H100 Tensor Core GPU datasheets: NVL, PCIe, SXM
    (r"\bH100 NVL\b", Peak(835.5, 417.5, 60)),
    (r"\bH100 PCIe\b", Peak(756, 378, 51)),
    (r"\bH(100|800)\b", Peak(989.5, 494.7, 67)),
    # A100, A30, A40, A10 Tensor Core GPU datasheets
    (r"\bA(100|800)\b", Peak(312, 156, 19.5)),
    (r"\bA30\b", Peak(165, 82, 10.3)),
    (r"\bA40\b", Peak(149.7, 74.8, 37.4)),
    (r"\bA10G\b", Peak(70, 35, 31.5)),  # Amazon's, EC2 G5 instances
    (r"\bA10\b", Peak(125, 62.5, 31.2)),
    # L40S, L40 and L4 Tensor Core GPU datasheets
    (r"\bL40S\b", Peak(362, 183, 91.6)),
    (r"\bL40\b", Peak(181, 90.5, 90.5)),
    (r"\bL4\b", Peak(121, 60, 30.3)),
    # V100 datasheet: PCIe, SXM2; T4 datasheet
    (r"\bV100-PCIE\b", Peak(112, None, 14, bfloat16=False)),
    (r"\bV100\b", Peak(125, None, 15.7, bfloat16=False)),
    (r"\bT4\b", Peak(65, None, 8.1, bfloat16=False)),
    # RTX Blackwell, Ada and Ampere GA102 whitepapers, "FP16/BF16 with FP32 Accumulate"
    (r"\bRTX 5090\b", Peak(209.5, 104.8, 104.8)),
    (r"\bRTX 4090\b", Peak(165.2, 82.6, 82.6)),
    (r"\bRTX 6000 Ada\b", Peak(364.2, 182.1, 91.1)),
    (r"\bRTX A6000\b", Peak(154.8, 77.4, 38.7)),
    (r"\bRTX 3090 Ti\b", Peak(80, 40, 40)),
    (r"\bRTX 3090\b", Peak(71, 35.6, 35.6)),
    # GeForce RTX 2080 Ti, Turing whitepaper, "FP16 with FP32 Accumulate"
    (r"\bRTX 2080 Ti\b", Peak(53.8, None, 13.4, bfloat16=False)),
)


def peak_of(name: str) -> Peak | None:
    """The peak in a card's data sheet; None for a card that is not in the table."""
    return next((peak for sign, peak in PEAKS if re.search(sign, name)), None)


_FACTS = (
    "name,driver_version,memory.total,power.limit,power.default_limit,"
    "clocks.max.sm,clocks.max.mem,pcie.link.gen.max,pcie.link.width.max,"
    "mig.mode.current,persistence_mode,ecc.mode.current"
)
_STATE = "clocks.sm,power.draw,temperature.gpu,utilization.gpu"


def smi(fields: str, *more: str) -> list[dict[str, str]]:
    """What nvidia-smi reports of each card; [] where there is no nvidia-smi."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", *more]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if told.returncode == 0:
            names = fields.split(",")
            rows = (line.split(", ") for line in told.stdout.splitlines())
            return [dict(zip(names, row, strict=False)) for row in rows]
    return []


def facts() -> list[dict[str, str]]:
    """The name, driver, memory, power limit and clocks of each card."""
    return smi(_FACTS) or smi("name,driver_version,memory.total")


def state() -> dict[str, str]:
    """The present clock, power, temperature and utilisation of the first card."""
    return next(iter(smi(_STATE)), {})


def links() -> str:
    """How the cards are connected: nvidia-smi's topology matrix."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "topo", "-m"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return re.sub(r"\x1b\[[0-9;]*m", "", told.stdout) * (told.returncode == 0)
    return ""
