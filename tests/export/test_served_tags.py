"""The tags of raw texts in a graph are those of a run, at the same places."""

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.tagging import PIECES, WORDS
from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.export import saved_model, served_tags
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.tagging import bio, dataset
from bert_mgpu.tasks.tagging.decoding import TaggedSet
from bert_mgpu.tasks.tagging.task import Tagging
from bert_mgpu.text.tokenization import Tokenizer
from tests.export.test_graph_tokenizer import HARD
from tests.export.test_graph_tokenizer import PIECES as MORE
from tests.support.tiny import VOCAB, small_config
from tests.text.test_tokenization import FOLDERS, needs_data, sample

LENGTH = 40
TEXTS = [
    *("sun joy the rain", "suns joys", "", " ", "好新坏旧", "sun，joy", "한국 sun"),
    *("rain\u0301 joy\u0301\u0302the", "e\u0301\ufe0f 🎉 the\ufe0f sun", "ｓｕｎ joy"),
    *("sun\u200b joy\ufffdthe\u00ad \u200brain\u0301\u200c\u200b\u0301", "好\u200b坏"),
    *(text for text in HARD if len(text) < LENGTH - 2),
]
LONG = ["suns " * 40, "sun " * 38, "好" * 39, "the " + "s" * 60, "s" * 60]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    jamo = unicodedata.normalize("NFD", "한국안녕")  # a character has several pieces
    pieces = {*jamo, *(f"##{part}" for part in jamo)}
    lines = [*VOCAB, *MORE, *sorted(pieces)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Tokenizer(path, True)


@pytest.fixture(
    params=[(PIECES, False, "bio"), (WORDS, True, "bioes")], ids=["pieces", "words-crf"]
)
def tagger(request, tokenizer):
    """(task, weights): all of them drawn, so that tags differ."""
    units, crf, scheme = request.param
    tags = bio.tags_of(["A", "B"], scheme)
    size = len(tokenizer.tokens)
    config = small_config(0.0, vocab_size=size, max_position_embeddings=LENGTH)
    task = Tagging(
        "x", config, tags, max_seq_length=LENGTH, units=units, has_crf=crf, dropout=0.0
    )
    draw = np.random.default_rng(4)
    values = params_lib.initialize(task.param_specs(), 0.5, seed=3)
    for name in values:
        if name.startswith("crf/"):
            values[name] = draw.normal(size=values[name].shape).astype(np.float32)
    return task, values


def in_a_run(task, values, tokenizer, texts):
    """The set as a run decodes it, and the rows of each text."""
    examples = [Example("", text) for text in texts]
    rows = dataset.featurise(
        examples,
        tokenizer,
        task.labels,
        max_seq_length=LENGTH,
        doc_stride=(LENGTH - 2) // 2,
        by_words=task.tags_words,
    )
    logits = []
    for number in range(len(rows)):
        ids = rows.ragged["input_ids"].row(number)[None]
        row = {"input_ids": ids, "input_mask": np.ones_like(ids)}
        row |= {"segment_ids": np.zeros_like(ids), "is_real_example": np.ones(1)}
        outputs = task.outputs(values, row)
        logits.append(outputs["logits"][0].numpy())
    offsets = rows.ragged["input_ids"].offsets
    whole = {"logits": Ragged(np.concatenate(logits), offsets)}
    if "transitions" in outputs:
        whole["transitions"] = outputs["transitions"].numpy()
    return TaggedSet(
        whole, rows, task.labels, rules=task.rules, examples=lambda: examples
    )


def served(task, values, tokenizer):
    return served_tags.ServedTags(task, values, tokenizer)


def check(scored, model, texts):
    """The answers are those of a run; returns them."""
    answers = model.answers_for_texts(tf.constant(texts))
    answers = {name: value.numpy() for name, value in answers.items()}
    assert not answers["truncated"].any()
    for number, text in enumerate(texts):
        tags, shares = (part.row(number) for part in scored.decoded)
        size = len(tags)
        own = {name: values[number][:size] for name, values in answers.items()
               if name != "truncated"}  # fmt: skip
        assert own["probabilities"] == pytest.approx(shares, abs=1e-5)
        assert [tag.decode() for tag in own["tags"]] == [
            scored.tags[tag] for tag in tags
        ]
        places = [*zip(own["starts"].tolist(), own["ends"].tolist(), strict=True)]
        assert places == [*map(tuple, scored.places.row(number).tolist())], text
        assert {*answers["tags"][number][size:]} <= {b""}
        for name in ("starts", "ends", "probabilities"):
            assert {*answers[name][number][size:]} <= {-1}
    return answers


def test_texts(tagger, tokenizer):
    task, values = tagger
    scored = in_a_run(task, values, tokenizer, TEXTS)
    answers = check(scored, served(task, values, tokenizer), TEXTS)
    assert answers["tags"].shape == (len(TEXTS), max(scored.emissions.lengths))
    assert len({*answers["tags"].ravel()}) > 4


@needs_data
@pytest.mark.nightly
def test_real_texts(tagger, tokenizer):
    """Their beginnings, of which this vocabulary knows little."""
    task, values = tagger
    model = served(task, values, tokenizer)
    texts = [line[:30] for folder in FOLDERS for line in sample(folder, 200)]
    for start in range(0, len(texts), 100):
        some = texts[start : start + 100]
        check(in_a_run(task, values, tokenizer, some), model, some)


def test_texts_that_are_longer_than_a_row(tagger, tokenizer):
    """Their beginning is tagged, up to the end of a unit, as in the first window."""
    task, values = tagger
    examples = [Example("", text) for text in LONG]
    rows = dataset.featurise(
        examples,
        tokenizer,
        task.labels,
        max_seq_length=LENGTH,
        doc_stride=LENGTH - 2,
        by_words=task.tags_words,
    )
    model = served(task, values, tokenizer)
    ids = model._row(tf.constant(LONG))[0]
    for number, first in enumerate(rows.first_rows):
        wanted = rows.ragged["input_ids"].row(first).tolist()
        assert ids[number].numpy().tolist() == wanted, LONG[number]
    answers = model.answers_for_texts(tf.constant([*LONG, "sun"]))
    is_one = task.tags_words  # unit that is longer than a row, and tagged by its start
    assert answers["truncated"].numpy().tolist() == [1, 0, 1, 1, not is_one, 0]
    assert (answers["tags"].numpy()[1] != b"").sum() == 38
    if is_one:
        scored = in_a_run(task, values, tokenizer, LONG[-1:])
        (tag,), (share,) = (part.row(0) for part in scored.decoded)
        assert answers["tags"].numpy()[4][0].decode() == task.labels[tag]
        assert answers["probabilities"].numpy()[4][0] == pytest.approx(share, abs=1e-5)
        assert answers["ends"].numpy()[4][0] == 60


def test_ids(tagger, tokenizer):
    """What is no unit has no tag, and padding changes none.

    Which pieces share a character does not show in ids.
    """
    task, values = tagger
    texts = [text for text in TEXTS if not any("가" <= char <= "힣" for char in text)]
    scored = in_a_run(task, values, tokenizer, texts)
    model = served(task, values, tokenizer)
    ids = [[tokenizer.cls_id, *tokenizer.ids(text), tokenizer.sep_id] for text in texts]
    lengths = np.array([*map(len, ids)])
    mask = (np.arange(lengths.max() + 3) < lengths[:, None]).astype(np.int32)
    padded = np.zeros_like(mask)
    padded[mask > 0] = [token for one in ids for token in one]
    answers = model.answers_for_ids(padded, mask, np.zeros_like(mask))
    for number, row in enumerate(answers["tags"].numpy()):
        tags = [task.labels[tag] for tag in scored.decoded[0].row(number)]
        assert [tag.decode() for tag in row if tag] == tags
        assert row[0] == b"" and not any(row[lengths[number] - 1 :])
    assert answers["logits"].shape == (*mask.shape, len(task.labels))
    assert [*model.outputs_for_ids(padded, mask, np.zeros_like(mask))] == ["logits"]


def test_the_folder(tagger, tokenizer, tmp_path):
    """Loaded without this package's code; facts let clients decode ONNX's logits."""
    task, values = tagger
    model = served(task, values, tokenizer)
    saved_model.write(str(tmp_path / "served"), model, False)
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    for texts in (TEXTS, [], ["sun"], [""]):
        given = tf.constant(texts, tf.string)
        actual = loaded.signatures["serving_default"](text_a=given)
        wanted = model.answers_for_texts(given)
        assert {*actual} == {"tags", "starts", "ends", "probabilities", "truncated"}
        for name, value in wanted.items():
            if name == "probabilities":
                assert actual[name].numpy() == pytest.approx(value.numpy(), abs=1e-5)
            else:
                assert (actual[name].numpy() == value.numpy()).all()
    facts = model.facts
    assert (
        facts["labels"] == list(task.labels)
        and facts["tag_units"] == task.facts["tag_units"]
    )
    follow = np.array(facts["transitions"]["follow"])
    assert follow.shape == (len(task.labels),) * 2 and follow.any() == task.facts["crf"]
