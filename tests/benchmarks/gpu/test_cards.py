"""Operations of a step, counted by hand, and what data sheets say."""

import pytest

from benchmarks import flops
from benchmarks.gpu import cards
from benchmarks.gpu.shapes import Shape

BASE = Shape(12, 768, 12, batch=2, length=128)


def test_parameters_of_the_encoder():
    # docs/architecture.md: a layer of BERT-base has 7,087,872 values.
    assert flops.encoder_parameters(BASE) == 12 * 7_087_872


def test_operations_of_a_step_by_hand():
    # One layer of width 2, inner width 8, one row of 3 tokens.
    tiny = Shape(1, 2, 1, batch=1, length=3)
    kernels = 4 * (2 * 2) + 2 * (2 * 8)
    biases_and_norms = 4 * 2 + 8 + 2 + 4 * 2
    # A token's query meets 3 keys: 3 x 2 multiplications, as many additions; then it
    # weighs 3 values. Twice that again on the way back.
    attention = 3 * (2 * 3 * 2 + 2 * 3 * 2)
    wanted = 3 * (6 * (kernels + biases_and_norms) + attention)
    assert flops.model_flops(tiny) == wanted


def test_operations_grow_with_rows_and_more_than_with_tokens():
    one = flops.model_flops(BASE)
    assert flops.model_flops(BASE._replace(batch=4)) == 2 * one
    assert flops.model_flops(BASE._replace(length=256)) > 2 * one


def test_the_needed_products_are_fewer_by_most_of_a_layer():
    share = flops.needed_flops(BASE, 10) / flops.model_flops(BASE)
    assert 11 / 12 < share < 1


@pytest.mark.parametrize(
    ("name", "low"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA H200", 989.5),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", 70),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("Tesla V100-PCIE-16GB", 112),
        ("Tesla V100-SXM2-32GB", 125),
        ("Tesla T4", 65),
        ("NVIDIA GeForce RTX 3090", 71),
        ("NVIDIA RTX 6000 Ada Generation", 364.2),
    ],
)
def test_peaks_by_the_names_that_drivers_give(name, low):
    assert cards.peak_of(name).low == low


def test_what_a_card_does_not_have_has_no_peak():
    assert cards.peak_of("A card of tomorrow") is None
    turing = cards.peak_of("Tesla T4")
    assert turing.of("bfloat16") is None and turing.of("tf32") is None
    assert turing.of("float16") == 65 and turing.of("float32") == 8.1
    assert cards.peak_of("NVIDIA H200").of("tf32") == 494.7


def test_nvidia_smi_that_is_not_there_tells_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cards.facts() == [] and cards.state() == {} and cards.links() == ""


def test_what_nvidia_smi_tells(monkeypatch, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '1980 MHz, 650.12 W, 60, 100 %'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert cards.state() == {
        "clocks.sm": "1980 MHz",
        "power.draw": "650.12 W",
        "temperature.gpu": "60",
        "utilization.gpu": "100 %",
    }
