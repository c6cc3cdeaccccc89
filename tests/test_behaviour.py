"""The recorder behind `make behaviour`: one changed digit in any file is found."""

import numpy as np
import onnx
import pytest
import safetensors.numpy
import tensorflow as tf
from onnx import numpy_helper
from PIL import Image

from tests.support.behaviour import __main__ as recorder
from tests.support.behaviour import readable
from tests.support.behaviour.commands import CASES, PROGRAMS


def write_text(template):
    return lambda path, value: path.write_text(template.format(value))


def write_checkpoint(path, value):
    prefix = str(path).removesuffix(".index")
    tensor = tf.constant([value, 1.0])
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["a"], shape_and_slices=[""], tensors=[tensor]
    )


def write_safetensors(path, value):
    safetensors.numpy.save_file({"a": np.array([value, 1.0])}, path)


def write_events(path, value):
    writer = tf.summary.create_file_writer(str(path.parent))
    with writer.as_default(step=1):
        tf.summary.scalar("loss", value)
    writer.close()
    (written,) = path.parent.glob("events.out.tfevents.*")
    written.rename(path)


def write_record(path, value):
    numbers = tf.train.FloatList(value=[value, 1.0])
    features = tf.train.Features(feature={"a": tf.train.Feature(float_list=numbers)})
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())


def write_saved_model(path, value):
    module = tf.Module()
    call = tf.function(lambda text_a: {"logits": tf.fill([tf.size(text_a)], value)})
    spec = tf.TensorSpec([None], tf.string, "text_a")
    signatures = {"serving_default": call.get_concrete_function(spec)}
    tf.saved_model.save(module, str(path.parent), signatures)


def write_onnx(path, value):
    weight = numpy_helper.from_array(np.array([value, 1.0], np.float32), "w")
    graph = onnx.helper.make_graph([], "g", [], [], [weight])
    onnx.save(onnx.helper.make_model(graph), str(path))


def write_picture(path, value):
    pixels = np.full((4, 4, 3), round(100 * value), np.uint8)
    Image.fromarray(pixels).save(path)


KINDS = {
    "model.ckpt-6.index": write_checkpoint,
    "model.safetensors": write_safetensors,
    "cache/own-train-0123.safetensors": write_safetensors,
    "events.out.tfevents.1": write_events,
    "made.tfrecord": write_record,
    "saved_model.pb": write_saved_model,
    "model.onnx": write_onnx,
    "confusion_dev.png": write_picture,
    "predict.txt": write_text("yes\n{}\n"),
    "metrics.jsonl": write_text('{{"step": 1, "loss": {}, "seconds": 3.2}}\n'),
    "run.json": write_text('{{"flags": {{"learning_rate": {}}}}}'),
    "report.html": write_text("<td>{}</td><img src='data:image/png;base64,xy'>"),
    "step 1": write_text("classifier: exit code {}\nstdout: done\n"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_changed_digit_is_found_in_each_kind_of_file(tmp_path, capsys, name):
    folders = {}
    for folder, value in {"one": 0.25, "same": 0.25, "other": 0.26}.items():
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True)
        KINDS[name](path, value)
        lines = readable.read(path, {str(tmp_path / folder): "WORK"})
        folders[folder] = tmp_path / "kept" / folder
        recorder._write(folders[folder] / name, lines, {})
    assert recorder.compare(folders["one"], folders["same"]) == 0
    assert recorder.compare(folders["one"], folders["other"]) == 1
    assert f"{name}: 2 lines" in capsys.readouterr().out


def test_a_file_that_only_one_has_is_found(tmp_path):
    for folder in ("one", "other"):
        recorder._write(tmp_path / folder / "step 1", ["exit code 0"], {})
    recorder._write(tmp_path / "other" / "predict.txt", [], {})
    assert recorder.compare(tmp_path / "one", tmp_path / "other") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-23 10:00:00 done in 3.4 s, 12.5 examples/s", "DATE done in TIME"),
        ('{"seconds": 1.5, "loss": 0.25}', '{"seconds": TIME, "loss": 0.25}'),
        ('{"epoch": 1.0, "time": 1795792319.4}', '{"epoch": 1.0, "time": TIME}'),
        (
            "step 6/6  loss 0.8379  231.9 ex/s  wait 8.2 ms",
            "step 6/6  loss 0.8379  SPEED",
        ),
        ("step 6/6  loss 0.8379  207.9 ex/s", "step 6/6  loss 0.8379  SPEED"),
        ("memory of the process, with TensorFlow, 799 MB)", "SIZE)"),
        ("about 1 MB a device, of 24.0 GB", "about 1 MB a device, of SIZE"),
        ("wrote /tmp/a/b/out/predict.txt", "wrote WORK/out/predict.txt"),
        ("bert_mgpu 0.1.0, TensorFlow 2.21.0", "bert_mgpu VERSION, TensorFlow VERSION"),
        ("step 3 of 60, eval_accuracy 0.9660", "step 3 of 60, eval_accuracy 0.9660"),
    ],
)
def test_what_differs_from_run_to_run_is_blanked(text, shown):
    assert shown in readable.blanked(text, {"/tmp/a/b": "WORK"})


def test_what_is_run():
    steps = [step for case in CASES.values() for step in case]
    assert len(CASES) >= 16 and {step.program for step in steps} == {*PROGRAMS}
    assert len(CASES["mistakes"]) >= 10
