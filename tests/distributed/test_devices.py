"""The device of a process among several, with made-up GPUs: no test machine has two."""

import re
import types

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed import devices, launcher
from bert_mgpu.runs import init_distributed

CARDS = ["card0", "card1", "card2", "card3"]


@pytest.fixture
def visible(monkeypatch):
    """What a process makes visible of four cards; TensorFlow takes other ones once."""
    taken = []

    def take(cards, kind):
        assert kind == "GPU"
        if taken and cards != taken:
            raise RuntimeError("cannot be modified after being initialized")
        taken[:] = cards

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: CARDS)
    monkeypatch.setattr(tf.config, "set_visible_devices", take)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [*taken])
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *_: None)
    return taken


@pytest.mark.parametrize("local_rank", range(4))
def test_each_process_takes_the_card_of_its_place(visible, local_rank):
    assert devices.configure_local("auto", local_rank, 4) == ["GPU:0"]
    assert visible == [CARDS[local_rank]]


def test_a_scheduler_may_show_each_process_its_own_card(visible, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["mine"])
    assert devices.configure_local("gpu", 3, 4) == ["GPU:0"]
    assert visible == ["mine"]


def test_fewer_cards_than_processes_are_refused(visible):
    with pytest.raises(UserError, match="5 processes on this host, but 4 visible GPUs"):
        devices.configure_local("auto", 0, 5)


def test_the_last_process_of_an_elastic_job_takes_cards_for_all_towers(
    visible, monkeypatch
):
    run = FinetuneConfig()
    own = launcher.ProcessRank()
    init_distributed._devices(run, own)
    assert visible == CARDS[:1]
    visible.clear()
    monkeypatch.setenv("BERT_MGPU_TOWERS", "3")
    init_distributed._devices(run, own)
    assert visible == CARDS[:3]


def test_a_second_run_of_a_process_has_the_cards_of_the_first(visible):
    """As in a notebook, whose load took all cards."""
    assert len(devices.configure("auto", 1, 3)) == 4
    for fewer in (1, 3):
        assert devices.configure("auto", 1, fewer)[:fewer]
        assert visible == CARDS[:3]
    with pytest.raises(UserError, match="--n_gpus=4: this process already has 3 GPUs"):
        devices.configure("auto", 1, 9)


def test_threads_are_a_share_of_the_cores_or_what_is_asked_for(monkeypatch):
    monkeypatch.setattr(launcher, "_CORES", [*range(8)])
    assert [devices.threads(size) for size in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    assert devices.threads(2) == 3


@pytest.mark.parametrize(
    ("cores", "local_rank", "local_size", "asked", "kept"),
    [
        ([2, 3, 6, 7], 0, 2, "", [2, 3]),
        ([2, 3, 6, 7], 1, 2, "", [6, 7]),
        ([0, 1, 2, 3, 4], 1, 2, "", [2, 3]),
        ([0, 1], 3, 4, "", None),  # more processes than cores
        ([0, 1, 2, 3], 0, 2, "4", None),  # asked for threads
    ],
)
def test_processes_keep_to_their_share_of_the_cores(
    monkeypatch, cores, local_rank, local_size, asked, kept
):
    bound = []
    monkeypatch.setattr(launcher, "_CORES", cores)
    monkeypatch.setattr(devices.os, "sched_setaffinity", lambda *to: bound.append(to))
    monkeypatch.setattr(devices, "configure", lambda *_, **__: ["CPU:0"])
    threads = tf.config.threading
    monkeypatch.setattr(threads, "set_intra_op_parallelism_threads", lambda _: None)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", asked)
    devices.configure_local("cpu", local_rank, local_size)
    assert bound == ([] if kept is None else [(0, kept)])


def test_processes_with_other_threads_are_refused_on_cpus_alone(monkeypatch):
    """The norm of a gradient would differ in its last bit, and then all weights."""
    compared = []
    monkeypatch.setattr(
        init_distributed.collective,
        "check_equal",
        lambda _, facts: compared.append(facts),
    )
    monkeypatch.setattr(init_distributed.collective, "all_gather_json", lambda *_: [])
    monkeypatch.setattr(devices, "identify", lambda _: None)
    group = types.SimpleNamespace(uses_nccl=False, version="0.28.1")
    for device in ("CPU:0", "GPU:0"):
        init_distributed._agree(group, FinetuneConfig(), [device], threads=4)
    name = "threads of a process (TF_NUM_INTRAOP_THREADS sets them)"
    assert compared[0][name] == 4 and name not in compared[1]


def test_processes_with_cards_of_other_kinds_are_refused(monkeypatch):
    """They round differently: nothing that they train could be saved."""
    compared = []
    monkeypatch.setattr(
        init_distributed.collective,
        "check_equal",
        lambda _, facts: compared.append(facts),
    )
    monkeypatch.setattr(init_distributed.collective, "all_gather_json", lambda *_: [])
    monkeypatch.setattr(devices, "identify", lambda _: None)
    group = types.SimpleNamespace(uses_nccl=False, version="0.28.1")
    for card in ("NVIDIA A", "NVIDIA B"):
        details = {"device_name": card}
        monkeypatch.setattr(devices, "_details", lambda _, one=details: [one])
        init_distributed._agree(group, FinetuneConfig(), ["GPU:0"], threads=4)
    first, second = compared
    assert {name for name in first if first[name] != second[name]} == {"GPU"}


@pytest.mark.parametrize(
    ("words", "card"),
    [
        (
            "device: 1, name: NVIDIA H200, pci bus id: 0000:0a:00.0, x: 9",
            "0000:0a:00.0",
        ),
        ("device: 0, name: NVIDIA H200 MIG 1g.18gb, pci bus id: 0000:0a:00.0, x", None),
    ],
)
def test_a_card_is_asked_for_with_the_settings_of_this_process(
    monkeypatch, words, card
):
    """With others TensorFlow would call the first card of the host GPU:0 as well."""

    def listed(config):
        assert config == context.context().config
        kinds = {"CPU": "", "GPU": words}
        return [
            types.SimpleNamespace(device_type=kind, physical_device_desc=text)
            for kind, text in kinds.items()
        ]

    monkeypatch.setattr(devices, "list_local_devices", listed)
    assert devices.identify("GPU:0") == card
    assert devices.identify("CPU:0") is None


def test_processes_that_share_a_card_are_refused(monkeypatch):
    cards = [("a", "x"), ("a", "y"), ("b", "x"), ("a", None), ("a", None)]
    compared = [
        {"machine": m, "card": c, "host": "h", "towers": None} for m, c in cards
    ]
    monkeypatch.setattr(init_distributed.collective, "check_equal", lambda *_: None)
    monkeypatch.setattr(
        init_distributed.collective, "all_gather_json", lambda *_: compared
    )
    monkeypatch.setattr(devices, "identify", lambda _: None)
    group = types.SimpleNamespace(uses_nccl=True, version="0.28.1")
    assert (
        init_distributed._agree(group, FinetuneConfig(), ["GPU:0"], threads=1)
        == compared
    )
    compared.append(compared[2])
    with pytest.raises(UserError, match="processes 2 and 5 share the GPU x of h"):
        init_distributed._agree(group, FinetuneConfig(), ["GPU:0"], threads=1)


OLD, NEW = (7, 5), (9, 0)


@pytest.mark.parametrize(
    ("cards", "precision", "fragments"),
    [
        ([("T4", OLD)], "float32", []),
        ([("H100", NEW)], "bfloat16", []),
        ([("H100", NEW)], "float32", ["H100 multiplies several times as fast with"]),
        ([("T4", OLD)], "tf32", ["T4 has no tf32 in hardware: products are"]),
        (
            [("T4", OLD), ("H100", NEW)],
            "bfloat16",
            ["different models (H100, T4)", "no bfloat16 in hardware: it is emulated"],
        ),
        ([("H100", NEW), ("H100", NEW)], "tf32", []),
    ],
    ids=str,
)
def test_remarks_on_cards(monkeypatch, cards, precision, fragments):
    details = [{"device_name": n, "compute_capability": c} for n, c in cards]
    monkeypatch.setattr(devices, "_details", lambda _: details)
    named = [f"GPU:{number}" for number in range(len(cards))]
    texts = devices.remarks(named, precision)
    assert len(texts) == len(fragments)
    for text, fragment in zip(texts, fragments, strict=True):
        assert fragment in text
    assert devices.remarks(["CPU:0"], precision) == []


@pytest.mark.parametrize(
    ("device", "named", "driver", "fragment"),
    [
        ("auto", "0,1", False, "CUDA_VISIBLE_DEVICES=0,1:"),
        ("auto", "", True, "/dev/nvidia0 exists:"),
        ("auto", "-1", True, "CUDA_VISIBLE_DEVICES=-1:"),
        ("auto", "-1", False, None),
        ("auto", "", False, None),
        ("cpu", "0", True, None),
    ],
)
def test_cards_that_tensorflow_does_not_see(
    monkeypatch, device, named, driver, fragment
):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    exists = devices.os.path.exists
    monkeypatch.setattr(
        devices.os.path,
        "exists",
        lambda path: driver if path == "/dev/nvidia0" else exists(path),
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    warning = devices.missing_gpus(device, has_log=True)
    if fragment is None:
        assert warning is None
    else:
        assert "sees no GPU and takes the CPU, though" in warning
        assert fragment in warning and "or pass --device=cpu" in warning
        assert "(tensorflow.log in output_dir" in warning
        warning = devices.missing_gpus(device, has_log=False)
        assert "tensorflow.log" not in warning and "(bert_mgpu doctor" in warning


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"plan": True}, "--plan takes one process: leave horovodrun out"),
        ({"predict_file": "-"}, "--predict_file=- takes one process: leave horovodrun"),
        ({"cpu_devices": 2}, "--cpu_devices: a process of horovodrun has one device"),
    ],
)
def test_what_takes_one_process_is_refused_with_two(changed, fragment):
    config, two = FinetuneConfig(**changed), launcher.ProcessRank(0, 2, 0, 2)
    with pytest.raises(UserError, match=re.escape(fragment)):
        init_distributed.init_distributed(config, [], two, watchdog=None)
