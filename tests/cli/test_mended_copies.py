"""What `bert_mgpu doctor data --repaired_dir` writes."""

import csv
import gzip
import io
import json
import shutil

import pytest

from tests.support.doctored import LONG, problems, sound

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"\"'.,-?!",
    "it",
    "is",
    "good",
]


@pytest.fixture
def vocab(tmp_path):
    words = {word.lower() for line in [*sound(8), LONG] for word in line.split()}
    tokens = [
        *VOCABULARY,
        *sorted(words),
        *"0123456789",
        *(f"##{n}" for n in range(10)),
    ]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in dict.fromkeys(tokens)))
    return f"--vocab_file={path}"


def rewritten(lines, suffix):
    """The lines of TSV in another format."""
    cells = [line.split("\t") for line in lines]
    if suffix == "jsonl":
        return [
            json.dumps({"text": text, "label": label}, ensure_ascii=False)
            for text, label in cells
        ]
    return [f"{text},{label}" for text, label in cells] if suffix == "csv" else lines


def test_a_train_file_whose_rows_are_all_elsewhere_stays(doctor, tmp_path):
    rows, new = sound(12), tmp_path / "new"
    train = [*rows, rows[0]]
    code, out = doctor(f"--repaired_dir={new}", train=train, dev=[*rows, *sound(5, 60)])
    assert code == 0
    assert (
        "rows of train: 0 repeated, 13 in other files, which stay: without them none"
        " would be left to learn from"
    ) in " ".join(out.split())
    assert (new / "train.tsv").read_text().splitlines() == train


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_a_mended_copy_is_sound(doctor, vocab, tmp_path, suffix):
    """Repeated rows, rows that leak and signs of print go; other rows stay."""
    train, dev = sound(40), sound(20, 100)
    plain = ["\"it\" is good - 'good'...\ta", "it 'is' \"good\"?\tb"]
    print_ = ["“it” is good — ‘good’…\ta", "it ‘is’ “good”?\tb"]
    planted = [*train, *print_, train[3], train[4], dev[5], f"{dev[6][:-2]}!\ta"]
    sets = {"train": rewritten(planted, suffix), "dev": rewritten(dev, suffix)}
    new = tmp_path / "new"
    code, out = doctor(vocab, f"--repaired_dir={new}", suffix=suffix, **sets)
    assert code == 0, out
    (signs,) = [line for line in problems(out) if "become [UNK]" in line]
    assert signs.startswith(f"train.{suffix}:41: ‘ ’ “ ” — … become [UNK], 10 times")
    assert signs.endswith("in new texts; --repaired_dir=NEW writes repaired copies")
    assert len(problems(out)) == 4, out
    assert "rows of train: 2 repeated, 2 in other files" in out
    replaced = "typographic characters replaced in 2 rows"
    assert f"train.{suffix}: 4 rows left out, {replaced}" in out
    text = (new / f"train.{suffix}").read_text(encoding="utf-8")
    if suffix == "tsv":
        assert text.splitlines() == [*train, *plain]
        assert (new / "dev.tsv").read_text().splitlines() == dev
    before = text
    (tmp_path / "data").rename(tmp_path / "old")
    code, out = doctor(vocab, f"--data_dir={new}", suffix=suffix)
    assert code == 0 and problems(out) == [], out
    assert (new / f"train.{suffix}").read_text(encoding="utf-8") == before


QUOTED = ["“it” is good\ta", "it ‘is’ good\tb’", "it is ‘good’\ta"]


def mended(doctor, tmp_path, vocab, *flags, **files):
    """The mended copies of files with headers, by name; a name holds / as _."""
    data, new = tmp_path / "own", tmp_path / "new"
    task = {"text_a": "text", "label": "label"}
    for name, (where, lines) in files.items():
        (data / where).parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(lines) + "\n"
        pack = gzip.compress if where.endswith(".gz") else bytes
        (data / where).write_bytes(pack(text.encode()))
        task[name] = where
    (data / "task.json").write_text(json.dumps(task))
    code, out = doctor(vocab, f"--data_dir={data}", f"--repaired_dir={new}", *flags)
    assert code == 0, out
    shutil.rmtree(data)
    (new / "task.json").unlink()
    (data).mkdir()
    (data / "task.json").write_text(json.dumps(task))
    for where in [*new.rglob("*")]:
        if where.is_file():
            own = data / where.relative_to(new)
            own.parent.mkdir(exist_ok=True)
            shutil.copyfile(where, own)
    code, again = doctor(vocab, f"--data_dir={data}", *flags)
    assert code == 0 and not any("become [UNK]" in line for line in problems(again))
    found = {}
    for name, (where, _) in files.items():
        raw = (data / where).read_bytes()
        raw = gzip.decompress(raw) if where.endswith(".gz") else raw
        found[name] = raw.decode().splitlines()
    return found


def test_a_mended_folder_has_the_files_that_task_json_names(doctor, vocab, tmp_path):
    """Also of one name in two folders, packed, and without labels."""
    rows = [line.replace("I saw", "“I” saw") for line in sound(40)]
    files = {
        "train": ("tr/data.tsv", ["text\tlabel", *rows]),
        "dev": ("de/data.tsv.gz", ["text\tlabel", *sound(20, 100), *QUOTED[::2]]),
        "test": ("test.tsv", ["text", *(line[:-2] for line in QUOTED[::2])]),
    }
    found = mended(doctor, tmp_path, vocab, **files)
    assert found["train"] == ["text\tlabel", *(r.replace("“I”", '"I"') for r in rows)]
    assert found["dev"][-2:] == ['"it" is good\ta', "it is 'good'\ta"]
    assert found["test"] == ["text", '"it" is good', "it is 'good'"]


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_labels_and_headers_stay(doctor, vocab, tmp_path, suffix):
    """A label that loses its quote is another label; JSON may escape the sign."""
    train = [line.replace("\tb", "\tb’") for line in sound(40)] + QUOTED
    text, label = "text’", "label’"
    if suffix == "jsonl":
        cells = [line.split("\t") for line in train]
        lines = [json.dumps({text: one, label: two}) for one, two in cells]
    else:
        lines = rewritten([f"{text}\t{label}", *train], suffix)
    data, new = tmp_path / "own", tmp_path / "new"
    data.mkdir()
    task = {"train": f"train.{suffix}", "text_a": text, "label": label}
    (data / "task.json").write_text(json.dumps(task))
    (data / f"train.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, out = doctor(vocab, f"--data_dir={data}", f"--repaired_dir={new}")
    assert code == 0 and "typographic characters replaced in 3 rows" in out, out
    made = (new / f"train.{suffix}").read_text(encoding="utf-8")
    plain = ['"it" is good\ta', "it 'is' good\tb’", "it is 'good'\ta"]
    if suffix == "jsonl":
        rows = [[*json.loads(line).values()] for line in made.splitlines()]
        assert ["\t".join(row) for row in rows] == [*train[:40], *plain]
    elif suffix == "csv":
        rows = ["\t".join(row) for row in csv.reader(io.StringIO(made))]
        assert rows == [f"{text}\t{label}", *train[:40], *plain]
    else:
        assert made.splitlines() == [f"{text}\t{label}", *train[:40], *plain]


def test_signs_that_the_vocabulary_has_stay(doctor, vocab, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(path.read_text() + "“\n”\n", encoding="utf-8")
    _, out = doctor(vocab, train=[*sound(40), "“it” is good\ta"])
    assert "become [UNK]," not in out


def test_tokens_are_those_of_a_cased_model(doctor, vocab, tmp_path):
    """Whose vocabulary a flag names as well; a new output_dir says nothing."""
    model = tmp_path / "model"
    model.mkdir()
    size = len((tmp_path / "vocab.txt").read_text().splitlines())
    content = {"model_type": "bert", "vocab_size": size, "hidden_size": 8,
               "num_hidden_layers": 1, "num_attention_heads": 1,
               "intermediate_size": 8}  # fmt: skip
    (model / "config.json").write_text(json.dumps(content))
    (model / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    train = [line.replace("film", "Film") for line in sound(40)]
    for given, known in ((f"init_checkpoint={model}", False), ("output_dir=out", True)):
        code, out = doctor(vocab, f"--{given}", "--max_seq_length=32", train=train)
        assert code == 0, out
        assert ("every word is in the vocabulary" in out) == known
        assert ("Film 5" in out) != known


def test_a_folder_that_is_there_is_not_written_to(doctor, tmp_path):
    (tmp_path / "new").mkdir()
    code, out = doctor(f"--repaired_dir={tmp_path / 'new'}", train=sound(20))
    assert code == 2 and "it exists already" in out
    assert [*(tmp_path / "new").iterdir()] == []


def test_a_text_of_two_labels_is_not_mended(doctor, tmp_path):
    """Nobody knows which is wrong."""
    train = [*sound(40), f"{sound(1)[0][:-1]}b"]
    code, out = doctor(f"--repaired_dir={tmp_path / 'new'}", train=train)
    assert code == 0 and "left out" not in out
    assert (tmp_path / "new" / "train.tsv").read_text().splitlines() == train
