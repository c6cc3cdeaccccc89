"""`Model.predict`: its predictions are those of the script, in any order and number."""

import itertools
import json
import shutil
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_mgpu
from bert_mgpu.api.model import Model
from bert_mgpu.evaluation.forward import check_finite, forward
from bert_mgpu.runs import predictor
from tests.end_to_end import failing
from tests.support.paths import ROOT
from tests.support.tiny import rows

# Flags of a training on "own" or "mrpc", by the type of its task.
TYPES = {
    "single": ("own", {}),
    "pairs": ("mrpc", {}),
    "several labels": ("own", {"task_type": "multi", "labels": "no,yes"}),
    "lower-cased": ("high_level", {}),
}


@pytest.fixture(scope="module")
def folder(trained):
    """folder(type) -> the output_dir of a training of this type."""

    def run(kind):
        task, flags = TYPES[kind]
        return trained(task, num_train_epochs=2, **flags)

    return run


@pytest.fixture
def loaded(trained):
    """A model of single texts with the labels no and yes."""
    with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
        yield model


def texts(count, seed=5):
    return [a for _, a, _ in rows(count, seed)]


def same(prediction, record):
    """Equal up to the rounding of other shapes of batches."""
    wanted = {k: v for k, v in record.items() if k not in ("id", "line")}
    actual = dict(prediction.record)
    shares = actual.pop("probabilities", {}), wanted.pop("probabilities", {})
    assert shares[0] == pytest.approx(shares[1], abs=2e-6)
    value = actual.pop("value", 0.0), wanted.pop("value", 0.0)
    assert value[0] == pytest.approx(value[1], abs=2e-6)
    assert actual == wanted
    return True


@pytest.mark.parametrize("kind", [*TYPES])
def test_predictions_are_those_of_the_script(folder, tmp_path, inside, kind):
    out = shutil.copytree(folder(kind), tmp_path / "model")
    data = rows(21, 8)
    asked = [(a, b) if kind == "pairs" else a for _, a, b in data]
    file = tmp_path / "new.txt"
    lines = ("\t".join(one) if kind == "pairs" else one for one in asked)
    file.write_text("".join(f"{line}\n" for line in lines))
    args = [f"--output_dir={out}", "--do_predict=true", f"--predict_file={file}",
            "--xla=off", "--predict_format=text"]  # fmt: skip
    code, _, err = inside(args)
    assert code == 0, err
    wanted = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    with bert_mgpu.load(out) as model:
        predicted = model.predict(asked)
        assert len(predicted) == len(wanted) == 21
        assert all(map(same, predicted, wanted))
        fields = [{"text_a": a, "text_b": b} for _, a, b in data]
        if kind != "pairs":
            fields = [{"text_a": a} for _, a, _ in data]
        assert model.predict(fields) == predicted


def test_attributes_of_each_type(trained):
    with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
        (one,) = model.predict(["sun joy"])
        assert one.label in model.labels == ["no", "yes"]
        assert one.probability == one.probabilities[one.label] >= 0.5
        assert str(one) == one.label
        assert repr(one).startswith(f"Prediction(label={one.label!r}, probability=0.")
        with pytest.raises(AttributeError, match="no 'value'; it has label, prob"):
            _ = one.value
        assert one == model.predict("sun joy") != model.predict("rain loss")
    flags = {"task_type": "multi", "labels": "no,yes"}
    with bert_mgpu.load(trained("own", **flags), threshold=0.01) as model:
        assert model.predict("sun").labels == ["no", "yes"]
    each = {"no": 1, "yes": 0.01}
    with bert_mgpu.load(trained("own", **flags), threshold=each) as model:
        assert model.predict("sun").labels == ["yes"]
    with bert_mgpu.load(trained("own", **flags), threshold=1) as model:
        one = model.predict("sun")
        assert one.labels == [] and str(one) == "no label"


def test_a_number(tiny, tmp_path, inside):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    lines = (f"{label - 0.5}\t{a}\n" for label, a, _ in rows(24, 1))
    (data / "train.tsv").write_text("".join(lines))
    task = {"train": "train.tsv", "dev": "train.tsv", "text_a": 1, "label": 0}
    (data / "task.json").write_text(json.dumps({**task, "type": "regression"}))
    flags = {"data_dir": data, "do_train": True, "do_predict": True}
    assert inside(tiny.flags(out, "scores", **flags))[0] == 0
    wanted = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    with bert_mgpu.load(out) as model:
        predicted = model.predict([a for _, a, _ in rows(24, 1)])
    assert all(map(same, predicted, wanted))
    assert predicted[0].value == predicted[0].record["value"]
    assert str(predicted[0]) == str(predicted[0].value)


def test_a_pair_alone_is_one_prediction(trained):
    with bert_mgpu.load(trained("mrpc")) as model:
        assert isinstance(model, Model) and model.takes_pairs
        pair = ("sun joy", "rain")
        assert model.predict(pair) == model.predict([pair])[0]
        assert model.predict([list(pair)]) == model.predict([pair])


def test_a_dict_is_one_text(loaded):
    assert loaded.predict({"text_a": "sun"}) == loaded.predict("sun")


MISTAKES = [
    (["sun", 3], r"texts\[1\]: 3: pass a string"),
    (["sun", ("a", "b", "c")], r"texts\[1\]: \('a', 'b', 'c'\): pass a string"),
    (["sun", ("a", "b")], r'texts\[1\]: own is a task of single texts: pass "text"'),
    ([{"text": "sun"}], r"texts\[0\]: {'text': 'sun'}: its keys must be 'text_a'"),
    ([None], r"texts\[0\]: None: pass a string"),
    (7, "7: pass a text, or a list of texts"),
    (types.SimpleNamespace(columns=["text"], __iter__=iter), "pass a text, or a list"),
    (b"sun", "b.sun.: pass a text, or a list of texts"),
    (["\ud83d"], r"texts\[0\]: an unpaired surrogate"),
]


@pytest.mark.parametrize(("asked", "message"), MISTAKES)
def test_what_is_no_text_is_refused(loaded, asked, message):
    with pytest.raises(bert_mgpu.UserError, match=message):
        loaded.predict(asked)
    assert loaded.predict("sun").label  # it goes on


def test_an_iterator_is_read_as_it_is_used(loaded):
    taken = itertools.count()
    predictions = loaded.predict(text for text in texts(5000) if next(taken) >= 0)
    assert next(taken) == 0
    first = [next(predictions) for _ in range(3)]
    assert next(taken) <= 2000  # a block, however many there are
    assert first == loaded.predict(texts(5000)[:3])


def test_no_texts_have_no_predictions(loaded):
    assert loaded.predict([]) == [] and [*loaded.predict(iter([]))] == []


def test_blocks_do_not_show(loaded, monkeypatch):
    asked = texts(50)
    wanted = loaded.predict(asked)
    monkeypatch.setattr("bert_mgpu.api.loading.BLOCK", 7)
    assert all(
        same(one, other.record)
        for one, other in zip(loaded.predict(asked), wanted, strict=True)
    )


def test_later_blocks_name_the_right_text(loaded, monkeypatch):
    monkeypatch.setattr("bert_mgpu.api.loading.BLOCK", 2)
    with pytest.raises(bert_mgpu.UserError, match=r"texts\[5\]: 7"):
        loaded.predict([*texts(5), 7])


def test_a_text_without_finite_outputs_is_named(loaded, monkeypatch):
    def broken(rows, towers, settings, note):
        done = forward(rows, towers, settings, note=note)
        done["logits"][0] = np.nan if len(rows) == 1 else 0
        check_finite(done, settings.precision, settings.name)
        return done

    monkeypatch.setattr("bert_mgpu.api.loading.BLOCK", 3)
    monkeypatch.setattr(predictor, "forward", broken)
    with pytest.raises(bert_mgpu.Diverged, match=r"^texts\[6\]: .* another model$"):
        loaded.predict(texts(7))


def test_threads_get_their_own_answers(loaded):
    asked = [texts(20, seed) for seed in range(8)]
    wanted = [loaded.predict(own) for own in asked]
    actual = [None] * 8

    def ask(number):
        for _ in range(3):
            actual[number] = loaded.predict(asked[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert actual == wanted


def test_a_closed_model_says_so(trained):
    model = bert_mgpu.load(trained("own", num_train_epochs=4))
    later = model.predict(iter(["sun"] * 3))
    model.close()
    model.close()
    for ask in (lambda: model.predict("sun"), lambda: next(later)):
        with pytest.raises(bert_mgpu.UserError, match="is closed: load it again"):
            ask()


def test_what_does_not_fit_is_an_exception(loaded, monkeypatch, capfd):
    failing.plant(failing.Failure(0, -1, 0), monkeypatch.setattr)
    with pytest.raises(bert_mgpu.OutOfMemory, match="with one row at a time: pass --"):
        loaded.predict(texts(3))
    assert "error:" not in capfd.readouterr().err  # TensorFlow's own lines alone


def test_a_batch_that_does_not_fit_is_halved_in_silence(trained, monkeypatch, capfd):
    with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
        wanted = model.predict(texts(20))
    failing.plant(failing.Failure(0, -1, 2), monkeypatch.setattr)
    with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
        assert all(
            same(one, other.record)
            for one, other in zip(model.predict(texts(20)), wanted, strict=True)
        )
    assert "continuing with batches" not in capfd.readouterr().err


def test_where_xla_fails_the_plain_program_goes_on(trained, monkeypatch):
    with bert_mgpu.load(trained("own", num_train_epochs=4)) as model:
        wanted = model.predict(texts(9))
        programs = model.predictor.towers.programs
        programs._xla = programs._xla._replace(forward_after=0)

        def fail(*rest, **named):
            raise tf.errors.InternalError(None, None, "libdevice is absent")

        monkeypatch.setattr(programs._compiled_forward, "_function", fail)
        monkeypatch.setattr(programs._compiled_forward, "trace", fail)
        assert [*model.predict(texts(9))] == [*wanted]
        assert programs._xla.forward_after is None


@pytest.mark.nightly
def test_a_hundred_thousand_texts_in_flat_memory(loaded):
    """From an iterator: what 20,000 texts need is enough for 100,000."""

    def resident():
        pages = int((ROOT / "/proc/self/statm").read_text().split()[1])
        return pages * 4096

    peaks = []
    for count in (20_000, 100_000):
        own = (f"sun {number}" for number in range(count))
        peak = 0
        for number, _ in enumerate(loaded.predict(own)):
            if number % 1000 == 0:
                peak = max(peak, resident())
        peaks.append(peak)
    assert peaks[1] < 1.05 * peaks[0]
