"""What `bert_mgpu doctor data` says of rows that were planted, and of sound ones."""

import csv
import gzip
import html
import io
import json
import re
import shutil

import pytest

from bert_mgpu.cli.doctor import task_data

LONG = "the film is a joy from its first minute on"
SUBJECTS = ("film", "hotel", "phone", "book", "meal", "song", "game", "shirt")
ENDS = ("and so do all of my friends", "though it was not cheap at all")


def sound(count, start=0):
    """Lines of texts that are all different, and two labels."""
    return [
        f"{start + n} times I saw this {SUBJECTS[n % 8]} {ENDS[n % 2]}\t{'ab'[n % 2]}"
        for n in range(count)
    ]


@pytest.fixture
def doctor(tmp_path, capsys):
    """doctor(train=lines, ...) -> (exit code, all that is printed)."""

    def run(*flags, suffix="tsv", **sets):
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        for name, lines in sets.items():
            text = "".join(f"{line}\n" for line in lines)
            (data / f"{name}.{suffix}").write_text(text, encoding="utf-8")
        if not sets:
            (data / "task.json").unlink(missing_ok=True)
            code = task_data.main(["--task_name=mine", *flags])
            printed = capsys.readouterr()
            return code, printed.out + printed.err
        task = {name: f"{name}.{suffix}" for name in sets}
        columns = {"text_a": 0, "label": 1}
        if suffix == "jsonl":
            columns = {"text_a": "text", "label": "label"}
        (data / "task.json").write_text(json.dumps(task | columns))
        given = ["--task_name=mine", f"--data_dir={data}", *flags]
        code = task_data.main(given)
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).replace(f"{data}/", "")

    return run


def problems(out):
    return [line[2:] for line in out.splitlines() if line.startswith("- ")]


def test_nothing_is_said_of_sound_rows(doctor):
    code, out = doctor(train=sound(40), dev=sound(20, 100))
    assert code == 0 and problems(out) == [] and "no problems found" in out
    assert "looked for: lines that cannot be read, " in out


def test_many_sets_have_several_tables(doctor, tmp_path):
    names = [f"set{number}" for number in range(5)]
    for number, name in enumerate(names):
        lines = "".join(f"{line}\n" for line in sound(16, 100 * (2 + number)))
        (tmp_path / f"{name}.tsv").write_text(lines)
    given = ",".join(f"{name}={tmp_path / name}.tsv" for name in names)
    sets = {"train": sound(40), "dev": sound(16, 100)}
    code, out = doctor(f"--eval_files={given}", **sets)
    assert code == 0, out
    tables = [block for block in out.split("\n\n") if "0 a " in block]
    headings = [block.strip().splitlines()[0].split() for block in tables]
    assert sum((line[1:] for line in headings), []) == ["train", "dev", *names]


def test_near_rows_by_place_and_label(doctor):
    train = [*sound(40), f"{LONG}\ta", f"{LONG.title()}!\ta", f"{LONG[1:]}\tb"]
    near = [line.replace("\t", ".\t") for line in sound(4)]
    code, out = doctor(train=train, dev=[*sound(15, 100), *near, f"{LONG}s\tb"])
    assert code == 0
    assert problems(out) == [
        "train.tsv:42 like 41: 1 row with nearly the text of an earlier row and its"
        " label",
        "train.tsv:43 like 41: 1 row with nearly the text of an earlier row and another"
        " label",
        "dev.tsv:16 like 1, 17 like 2, 18 like 3 and 1 more: 4 rows (20.0%) with nearly"
        " the text of a row of train.tsv, and its label: a leak",
        "dev.tsv:20 like 41: 1 row (5.0%) with nearly the text of a row of train.tsv,"
        " and another label",
    ]


def test_the_same_text_is_no_near_one(doctor):
    train = [*sound(40), sound(1)[0]]
    _, out = doctor(train=train, dev=[*sound(20, 100), sound(2)[1]])
    assert [line for line in problems(out) if "nearly" in line] == []
    assert len(problems(out)) == 2


def test_wrong_labels_are_listed_with_what_the_model_says(doctor):
    train = sound(60)
    train[10] = train[10][:-1] + "b"
    code, out = doctor("--check_labels=true", train=train, dev=sound(20, 100))
    assert code == 0
    (row,) = [line for line in out.splitlines() if "train.tsv:11 " in line]
    assert row.split()[1:3] == ["b", "a"] and "10 times I saw" in row
    assert "right in 98.8% of 80 rows" in " ".join(out.split())
    assert problems(out) == [
        "train.tsv:11: 1 row (1.7%) whose label a quick model doubts: read the first"
        " ones"
    ]
    tables = out.partition("\nlooked for")[0]
    assert all(len(line) <= 80 for line in tables.splitlines())


def test_rows_command_no_terminal(doctor):
    train = [line.replace("saw", "\x1b[2Jsaw") for line in sound(60)]
    train = [line.replace("\ta", "\ta\x1b]0;t\x07\u202e") for line in train]
    train[10] = train[10].partition("\t")[0] + "\tb"
    code, out = doctor("--check_labels=true", train=train)
    assert code == 0 and "I \\u001b[2Jsaw" in out and "a\\u001b]0;t" in out
    assert not {*"\x1b\x07\u202e"} & {*out}


def test_the_same_text_again_and_again_is_one_to_learn_from(doctor):
    """A reply that a machine writes: five folds of one text there are not."""
    rows = [*sound(40), *["thank you for your call\tc"] * 40]
    code, out = doctor("--check_labels=true", train=rows)
    assert code == 0 and "Traceback" not in out
    assert "train.tsv:42, 43, 44 and 36 more: 39 rows with the text" in out
    code, out = doctor("--check_labels=true", train=["a b\ta", "c d\tb"] * 20)
    assert code == 0 and "labels are not doubted" in out
    code, out = doctor("--check_labels=true", train=sound(80))
    assert code == 0 and "no label is doubted by a quick model, right in" in out


def test_a_model_that_learns_nothing_doubts_nothing(doctor):
    rows = [f"{line[:-1]}{'ab'[n % 3 == 0]}" for n, line in enumerate(sound(60))]
    _, out = doctor("--check_labels=true", train=rows)
    assert "labels are not doubted: a quick model is right in" in out
    assert problems(out) == []


def test_labels_of_another_type_are_not_doubted(doctor):
    rows = [f"{line[:-1]}{n}" for n, line in enumerate(sound(20))]
    flags = ["--check_labels=true", "--task_type=regression"]
    code, out = doctor(*flags, train=rows)
    assert code == 2
    assert "--check_labels: mine has no single label for a row" in out


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
    assert signs.endswith(", in new texts too; --repaired_dir=NEW writes such copies")
    assert len(problems(out)) == 4, out
    assert "rows of train: 2 repeated, 2 in other files" in out
    assert f"train.{suffix}: 4 rows left out, signs written plainly in 2 rows" in out
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
    assert code == 0 and "signs written plainly in 3 rows" in out, out
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


def test_the_page_has_what_is_printed(doctor, tmp_path):
    page = tmp_path / "new" / "page.html"
    rows = [*sound(40), f"{LONG} <b>\ta", f"{LONG.title()} <b>!\ta"]
    code, out = doctor(f"--html={page}", train=rows, dev=sound(20, 100))
    assert code == 0 and f"wrote {page}" in out
    text = page.read_text(encoding="utf-8")
    found = problems(out)
    assert found and f"{len(found)} problem" in text and 'class="verdict bad"' in text
    shown = html.unescape(re.sub("<[^>]*>", "", text))
    for line in [*found, *out.partition("\nproblems:")[0].splitlines()]:
        assert line in shown.replace(str(tmp_path / "data") + "/", ""), line
    code, out = doctor(f"--html={page}", train=sound(40), dev=sound(20, 100))
    assert code == 0 and "no problems found" in page.read_text(encoding="utf-8")
    train = tmp_path / "data" / "train.tsv"
    before = train.read_bytes()
    code, out = doctor(f"--html={train}", train=sound(40))
    assert code == 2 and "it exists and is no page: pass another" in out
    assert train.read_bytes() == before


def test_a_page_is_written_of_rows_that_cannot_be_read(doctor, tmp_path):
    page = tmp_path / "page.html"
    code, out = doctor(f"--html={page}", train=[*sound(9), "no label"])
    assert code == 2 and "train.tsv:10" in out
    assert "train.tsv:10" in page.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_told_of_first(doctor, tmp_path):
    (tmp_path / "file").write_text("x")
    code, out = doctor(f"--html={tmp_path}/file/page.html", train=sound(9))
    assert code == 2 and "per example" not in out and f"{tmp_path}/file" in out
