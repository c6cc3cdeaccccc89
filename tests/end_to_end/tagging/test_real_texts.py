"""Entities of 2,000 real texts: right places, the same for any batches and towers."""

import json
import shutil

import pytest
import tensorflow as tf

from bert_mgpu.tasks.tagging import bio
from tests.support.paths import DATA, SHARED

VOCAB = SHARED / "models" / "zh_e5_small_charmap" / "vocab.txt"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (DATA.is_dir() and VOCAB.is_file()),
        reason="the folder ../shared with data and models is absent",
    ),
]
CONFIG = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
CONFIG |= {"intermediate_size": 128, "hidden_act": "gelu", "type_vocab_size": 2}
CONFIG |= {"vocab_size": 21128, "max_position_embeddings": 64}
FLAGS = {"task_name": "real", "max_seq_length": 64, "repair_bio": "begin"}
TRAINED = {"do_train": True, "train_batch_size": 32, "learning_rate": 2e-3}
TRAINED |= {"report": False}
TOGETHER = 1e-5  # probabilities of two candidates that may change places


def cluener(folder):
    """10,748 texts to train on, 4 times; 1,343 and 657 of those to predict."""
    shutil.copy(DATA / "cluener" / "train.json", folder / "train.json")
    text = (DATA / "cluener" / "train.json").read_text()
    decoder, place, rows = json.JSONDecoder(), 0, []
    while len(rows) < 657:
        row, place = decoder.raw_decode(text, place)
        place += len(text[place:]) - len(text[place:].lstrip())
        rows.append(row)
    more = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    dev = (DATA / "cluener" / "dev.json").read_text().rstrip("\n")
    (folder / "dev.json").write_text(f"{dev}\n{more}")
    return {"train": "train.json", "dev": "dev.json"}, 4


def weibo(folder):
    """1,350 sentences to train on, 20 times; these and 650 others to predict."""
    names = {split: f"weiboNER_2nd_conll.{split}" for split in ("train", "dev", "test")}
    texts = {s: (DATA / "weibo_ner" / name).read_text() for s, name in names.items()}
    (folder / "train.txt").write_text(texts["train"])
    others = [b for s in ("dev", "test") for b in texts[s].strip().split("\n\n")]
    predicted = [*texts["train"].strip().split("\n\n"), *others, *others[:110]]
    (folder / "dev.txt").write_text("\n\n".join(predicted) + "\n")
    task = {"train": "train.txt", "dev": "dev.txt", "token_pattern": "(.+)[0-9]"}
    return task, 20


def line(flags):
    return [f"--{name}={value}" for name, value in flags.items()]


@pytest.mark.parametrize("files", [cluener, weibo])
def test_real_entities(inside, tmp_path, files):
    task, epochs = files(tmp_path)
    (tmp_path / "task.json").write_text(json.dumps({"type": "tags", **task}))
    (tmp_path / "bert_config.json").write_text(json.dumps(CONFIG))
    shutil.copy(VOCAB, tmp_path / "vocab.txt")
    flags = {**FLAGS, "data_dir": tmp_path, "output_dir": tmp_path / "out"}
    model = {"bert_config_file": tmp_path / "bert_config.json"}
    model |= {"vocab_file": tmp_path / "vocab.txt"}
    code, _, err = inside(
        line({**flags, **model, **TRAINED, "num_train_epochs": epochs})
    )
    assert code == 0, err
    wanted = None
    for changed in (
        {"predict_batch_size": 64},
        {"predict_batch_size": 7, "n_gpus": 2, "cpu_devices": 2},
        {"predict_batch_size": 9, "n_gpus": 4, "padding": "pack"},
        {"predict_batch_size": 1, "n_gpus": 3, "padding": "bucket"},
        {"predict_batch_size": 32, "padding": "max_length"},
    ):
        code, _, err = inside(line({**flags, "do_predict": True, **changed}))
        assert code == 0, err
        actual = predicted(tmp_path / "out")
        assert len(actual) == 2000
        wanted = wanted or actual
        assert sum(len(record["entities"]) for _, record in wanted) > 300
        differ = [n for n, pair in enumerate(actual) if pair[0] != wanted[n][0]]
        for number in differ:  # two candidates that are as likely
            print(number, wanted[number], actual[number], sep="\n")
            shares = [one["probability"] for side in (wanted, actual)
                      for one in side[number][1]["entities"]]  # fmt: skip
            assert min(abs(share - 0.5) for share in shares) < TOGETHER

    if files is cluener:
        exported = {"do_predict": True, "export_saved_model": tmp_path / "served"}
        code, _, err = inside(line({**flags, **exported}))
        assert code == 0, err
        check_served(tmp_path / "served", tmp_path / "dev.json", wanted)


def check_served(folder, path, wanted):
    """A SavedModel finds the same entities in all texts, at the same places."""
    text, place, texts = path.read_text(), 0, []
    while place < len(text):
        row, place = json.JSONDecoder().raw_decode(text, place)
        place += len(text[place:]) - len(text[place:].lstrip())
        texts.append(row["text"])
    call = tf.saved_model.load(str(folder)).signatures["serving_default"]
    assert len(texts) == len(wanted)
    for start in range(0, len(texts), 100):
        some = texts[start : start + 100]
        answers = {k: v.numpy() for k, v in call(text_a=tf.constant(some)).items()}
        assert not answers["truncated"].any()
        for number in range(len(some)):
            tags = [tag.decode() for tag in answers["tags"][number] if tag]
            starts, ends = answers["starts"][number], answers["ends"][number]
            found = " ".join(
                f"{starts[span.start]}:{ends[span.end - 1]}:{span.type}"
                for span in bio.read_spans(tags, "bio").spans
            )
            assert found == wanted[start + number][0]


def predicted(out):
    """The line of each text, and its record, whose places are checked."""
    lines = (out / "predict.txt").read_text().split("\n")[:-1]
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    for record in records:
        for entity in record["entities"]:
            text = record.get("text")
            if text is not None:
                assert text[entity["start"] : entity["end"]] == entity["text"]
    return [*zip(lines, records, strict=True)]
