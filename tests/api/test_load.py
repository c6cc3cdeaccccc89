"""`bert_mgpu.load`: what it takes and refuses, and the process that it leaves alone."""

import gc
import shutil
import subprocess
import sys
import weakref

import pytest
import tensorflow as tf

import bert_mgpu
from bert_mgpu.api import loading
from bert_mgpu.distributed import devices
from bert_mgpu.training.towers import Towers
from tests.api.test_model import same, texts
from tests.support.memory import no_memory
from tests.support.paths import ROOT
from tests.support.runs import tree


def test_several_models_at_once(trained):
    with (
        bert_mgpu.load(trained("own", num_train_epochs=4)) as one,
        bert_mgpu.load(trained("mrpc")) as other,
    ):
        assert one.predict("sun").label in ("no", "yes")
        assert other.predict([("sun", "rain")])[0].label in ("0", "1")
        assert one.predict("sun").label in ("no", "yes")


def test_nothing_is_said_or_written(trained, capfd):
    out = trained("own", num_train_epochs=4)
    before = tree(out)
    capfd.readouterr()
    with bert_mgpu.load(str(out)) as model:
        model.predict(texts(3))
    assert tree(out) == before
    assert capfd.readouterr() == ("", "")


def test_weights_that_do_not_fit_are_an_exception(trained, monkeypatch):
    monkeypatch.setattr(Towers, "load", lambda *rest: no_memory())
    with pytest.raises(bert_mgpu.OutOfMemory, match="own: .*: pass --device=cpu"):
        bert_mgpu.load(trained("own", num_train_epochs=4))


def test_gpus_that_are_hidden_are_none(monkeypatch):
    """As after tf.config.set_visible_devices([], "GPU")."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["a card"])
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    assert [*{name[:3] for name in devices.present("auto")}] == ["CPU"]
    with pytest.raises(bert_mgpu.UserError, match="has hidden it: pass --device=cpu"):
        devices.present("gpu")


@pytest.mark.parametrize(
    ("first", "then", "refused"),
    [("float32", "tf32", True), ("tf32", "float32", True), ("tf32", "tf32", False),
     ("tf32", "bfloat16", False), (None, "tf32", False)],
)  # fmt: skip
def test_cards_round_as_the_first_model_asked(monkeypatch, first, then, refused):
    """Where there are cards; None: TensorFlow was the program's own."""
    monkeypatch.setattr(loading, "_CONFIGURED", {"precision": first} if first else {})
    monkeypatch.setattr(devices, "present", lambda device: ["GPU:0"])
    if refused:
        with pytest.raises(bert_mgpu.UserError, match=f"loaded with '{first}', which"):
            loading.own_devices("auto", then)
    else:
        assert loading.own_devices("auto", then) == ["GPU:0"]
    monkeypatch.setattr(devices, "present", lambda device: ["CPU:0"])
    assert loading.own_devices("auto", then) == ["CPU:0"]


def test_closing_frees_the_weights(trained):
    """At once, though functions of TensorFlow hold one another."""
    model = bert_mgpu.load(trained("own", num_train_epochs=4))
    model.predict("sun")
    kept = weakref.ref(model.predictor.towers)
    gc.disable()
    try:
        model.close()
        assert kept() is None
    finally:
        gc.enable()


def test_a_closed_standard_error_is_no_obstacle(trained):
    """Services may start so. The first load silences TensorFlow's C++ code there."""
    code = (
        "import os, bert_mgpu\n"
        "os.close(2)\n"
        f"with bert_mgpu.load({str(trained('own', num_train_epochs=4))!r}) as model:\n"
        "    print(model.predict('sun').label)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert printed.returncode == 0 and printed.stdout in ("no\n", "yes\n")


def test_the_settings_of_tensorflow_stay(trained):
    def settings():
        return (
            tf.config.optimizer.get_experimental_options(),
            tf.config.experimental.tensor_float_32_execution_enabled(),
            tf.config.list_logical_devices(),
        )

    tf.config.experimental.enable_tensor_float_32_execution(True)
    try:
        before = settings()
        with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
            model.predict("sun")
        assert settings() == before
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(False)


def test_towers_share_the_texts(trained, monkeypatch):
    made = []
    make = Towers.__init__

    def counted(self, task, n_towers, *rest, **named):
        made.append(n_towers)
        make(self, task, n_towers, *rest, **named)

    monkeypatch.setattr(Towers, "__init__", counted)
    out = trained("own", num_train_epochs=4)
    with bert_mgpu.load(out, n_gpus=3) as three, bert_mgpu.load(out) as one:
        assert made == [3, 1]
        assert all(
            same(a, b.record)
            for a, b in zip(
                three.predict(texts(20)), one.predict(texts(20)), strict=True
            )
        )


def test_folders_that_are_no_model(trained, tmp_path):
    for wrong in (None, 3, b"x"):
        with pytest.raises(bert_mgpu.UserError, match="pass the folder of a model"):
            bert_mgpu.load(wrong)
    with pytest.raises(bert_mgpu.UserError, match="none: no such folder"):
        bert_mgpu.load(tmp_path / "none")
    with pytest.raises(bert_mgpu.UserError, match="no trained model, since it has no"):
        bert_mgpu.load(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(bert_mgpu.UserError, match="does not name the task"):
        bert_mgpu.load(tmp_path)
    out = shutil.copytree(trained("own"), tmp_path / "out")
    with pytest.raises(bert_mgpu.UserError, match="--n_gpus=0: pass at least 1"):
        bert_mgpu.load(out, n_gpus=0)
    (weights,) = out.glob("model.ckpt-*.data*")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(bert_mgpu.UserError):
        bert_mgpu.load(out)


def test_the_best_weights_and_exports(trained, tmp_path):
    out = trained("own", eval_steps=2, export_hf=tmp_path / "hf")
    with (
        bert_mgpu.load(out / "best") as best,
        bert_mgpu.load(out, use_best=True) as same_best,
        bert_mgpu.load(out) as last,
        bert_mgpu.load(tmp_path / "hf") as exported,
    ):
        asked = texts(5)
        assert best.predict(asked) == same_best.predict(asked)
        assert last.predict(asked) == exported.predict(asked)


def test_importing_the_package_loads_no_tensorflow():
    code = (
        "import sys, bert_mgpu; bert_mgpu.load; bert_mgpu.train; bert_mgpu.UserError;"
        "assert dir(bert_mgpu) == bert_mgpu.__all__; print(*sys.modules)"
    )
    names = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert "tensorflow" not in names.split()
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = bert_mgpu.lode
