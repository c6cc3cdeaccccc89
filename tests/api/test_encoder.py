"""Vectors in Python: of a trained model, and of one without a head."""

import threading

import numpy as np
import pytest

import bert_mgpu
from bert_mgpu.api import encoder as encoder_lib
from bert_mgpu.checkpoints import google_read
from bert_mgpu.evaluation.forward import check_finite, forward
from bert_mgpu.runs import vectors
from bert_mgpu.text.segments import Segments
from tests.reference import google_graph
from tests.support.tiny import rows

LENGTH = 16


@pytest.fixture(scope="module")
def plain(tiny):
    """A pretrained model without a head."""
    with bert_mgpu.load_encoder(tiny.model, max_seq_length=LENGTH) as model:
        yield model


def texts(count, seed=5):
    return [a for _, a, _ in rows(count, seed)]


def hidden_by_google(tiny, folder, pairs):
    """Last hidden states [rows, T, H] and masks by Google's graph, with its weights."""
    from bert_mgpu.model.config import BertConfig
    from bert_mgpu.text.pair_rows import pair_rows
    from bert_mgpu.text.tokenization import Tokenizer

    config = BertConfig.from_json_file(tiny.model / "bert_config.json")
    made = pair_rows(
        pairs, Tokenizer(tiny.model / "vocab.txt"), Segments(LENGTH)
    ).columns
    batch = {n: np.zeros((len(pairs), LENGTH), np.int32) for n in made}
    batch["input_mask"] = np.zeros((len(pairs), LENGTH), np.int32)
    for row, length in enumerate(made["input_ids"].lengths):
        batch["input_mask"][row, :length] = 1
        for name, column in made.items():
            batch[name][row, :length] = column.row(row)
    params = {
        name: value
        for name, value in google_read.read(folder).items()
        if name.startswith(("bert/", "output_")) and "/adam_" not in name
    }
    params |= {
        "output_weights": np.zeros((2, 32), "f"),
        "output_bias": np.zeros(2, "f"),
    }
    found, _ = google_graph.run(config, params, {"x": batch})
    return found["x"]["hidden"][-1], batch["input_mask"], found["x"]["pooled"]


def test_vectors_of_a_trained_model_are_those_of_its_encoder(tiny, trained):
    """Single texts and pairs, whatever the task takes."""
    folder = trained("own", num_train_epochs=2)
    pairs = [(a, b if n % 2 else None) for n, (_, a, b) in enumerate(rows(9, 2))]
    hidden, mask, pooled = hidden_by_google(tiny, folder, pairs)
    real = mask[..., None]
    wanted = {
        "mean": (hidden * real).sum(1) / real.sum(1),
        "cls": hidden[:, 0],
        "max": np.where(real, hidden, -np.inf).max(1),
        "pooler": pooled,
    }
    asked = [a if b is None else (a, b) for a, b in pairs]
    with bert_mgpu.load(folder) as model:
        before = model.predict(texts(5))
        for pooling, vectors in wanted.items():
            actual = model.encode(asked, pooling)
            assert actual.dtype == np.float32
            np.testing.assert_allclose(actual, vectors, atol=1e-5)
        unit = model.encode(asked, normalize=True)
        np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
        assert model.predict(texts(5)) == before  # and predicts as ever


def test_the_forms_of_texts(plain):
    one, two = "sun joy", ("sun", "joy")
    several = plain.encode([one, two, {"text_a": "sun", "text_b": "joy"}])
    assert several.shape == (3, 32)
    np.testing.assert_array_equal(plain.encode(one), plain.encode([one])[0])
    np.testing.assert_allclose(several[1], several[2], atol=1e-6)
    assert plain.encode({"text_a": one}).shape == (32,)
    assert plain.encode([]).shape == (0, 32)
    np.testing.assert_allclose(plain.encode(iter([one, two])), several[:2], atol=1e-6)
    # A pair of texts is two texts where a list of them is taken.
    np.testing.assert_allclose(plain.encode(two), plain.encode([*two]), atol=1e-6)


def test_blocks_and_threads_do_not_show(plain, monkeypatch):
    asked = texts(60)
    wanted = plain.encode(asked)
    monkeypatch.setattr(encoder_lib.loading, "BLOCK", 7)
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: plain.encode(asked)}))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for actual in found.values():
        np.testing.assert_allclose(actual, wanted, atol=1e-5)
    assert len(found) == 3


def test_a_text_without_finite_outputs_is_named(plain, monkeypatch):
    """In the second block, by its place among all texts."""

    def broken(rows, towers, settings, note):
        done = forward(rows, towers, settings, note=note)
        done["values"][1] = np.nan if len(rows) == 2 else 0
        check_finite(done, "bfloat16", settings.name)
        return done

    monkeypatch.setattr("bert_mgpu.api.loading.BLOCK", 5)
    monkeypatch.setattr(vectors, "forward", broken)
    with pytest.raises(bert_mgpu.Diverged, match=r"^texts\[6\]: .*=float32$"):
        plain.encode(texts(7))


def test_weights_are_not_held_twice(trained):
    with bert_mgpu.load(trained("own")) as model:
        model.encode("sun")
        predictor = model.predictor
        (extractor,) = predictor.vectors._extractors.values()
        assert extractor.towers._replicas is predictor.towers._replicas


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (3, {}, "3: pass a text"),
        (b"sun", {}, "b'sun': pass a text"),
        (["sun", 7], {}, r"texts\[1\]: 7"),
        (["sun", ("a", "b", "c")], {}, r"texts\[1\]"),
        (["\ud800"], {}, r"texts\[0\]: an unpaired surrogate"),
        ("sun", {"pooling": "sum"}, "'sum': pass one of mean, cls, max, pooler"),
        ("sun", {"normalize": "no"}, "normalize='no': pass True or False"),
        ("sun", {"normalize": 1}, "normalize=1: pass True or False"),
    ],
)
def test_mistakes(plain, asked, options, message):
    with pytest.raises(bert_mgpu.UserError, match=message):
        plain.encode(asked, **options)


def test_models_that_lack_what_is_asked_for(tiny, trained, tmp_path):
    with pytest.raises(bert_mgpu.UserError, match="no such checkpoint"):
        bert_mgpu.load_encoder(tmp_path / "x" / "y")
    stored = google_read.read(tiny.model / "bert_model.ckpt")
    kept = {n: v for n, v in stored.items() if "pooler" not in n}
    google_read.write(tmp_path / "bert_model.ckpt", kept)
    files = {
        "vocab_file": tiny.model / "vocab.txt",
        "bert_config_file": tiny.model / "bert_config.json",
    }
    model = bert_mgpu.load_encoder(tmp_path, max_seq_length=LENGTH, **files)
    with pytest.raises(bert_mgpu.UserError, match="no pooler"):
        model.encode("sun", "pooler")
    assert model.encode("sun").shape == (32,)
    model.close()
    with pytest.raises(bert_mgpu.UserError, match="closed"):
        model.encode("sun")


def test_loading_says_nothing(tiny, capfd):
    with bert_mgpu.load_encoder(tiny.model, max_seq_length=LENGTH) as model:
        model.encode(texts(3))
        assert repr(model) == f"<Encoder of {tiny.model}>"
    assert capfd.readouterr() == ("", "")
