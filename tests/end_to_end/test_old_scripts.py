"""The command lines that people have, letter by letter but for the folders."""

import pytest

from tests.support.marks import rarely
from tests.support.tiny import LINES, rows

BERT_AD = """
python -u run_classifier_mgpu.py --task_name=high_level --do_train=true
--do_predict=false --do_eval=false --data_dir=DATA/
--vocab_file=MODEL/vocab.txt --bert_config_file=MODEL/bert_config.json
--init_checkpoint=MODEL/bert_model.ckpt --max_seq_length=64
--train_batch_size=12 --learning_rate=2e-5 --num_train_epochs=5
--output_dir=OUT/ --warmup_proportion=0.1 --eval_batch_size=1 --n_gpus=6
"""
# The README of google-research/bert; XNLI's stands in its multilingual.md.
GOOGLE_MRPC = """
python run_classifier.py --task_name=MRPC --do_train=true --do_eval=true
--data_dir=DATA --vocab_file=MODEL/vocab.txt
--bert_config_file=MODEL/bert_config.json --init_checkpoint=MODEL/bert_model.ckpt
--max_seq_length=64 --train_batch_size=32 --learning_rate=2e-5
--num_train_epochs=3.0 --output_dir=OUT
"""
GOOGLE_XNLI = """
python run_classifier.py --task_name=XNLI --do_train=true --do_eval=true
--data_dir=DATA --vocab_file=MODEL/vocab.txt
--bert_config_file=MODEL/bert_config.json --init_checkpoint=MODEL/bert_model.ckpt
--max_seq_length=64 --train_batch_size=32 --learning_rate=5e-5
--num_train_epochs=2.0 --output_dir=OUT
"""
GOOGLE_PREDICT = """
python run_classifier.py --task_name=MRPC --do_predict=true --data_dir=DATA
--vocab_file=MODEL/vocab.txt --bert_config_file=MODEL/bert_config.json
--init_checkpoint=OUT --max_seq_length=64 --output_dir=OUT
"""
NLI = ("contradiction", "entailment", "neutral")


def lines(task, count, seed):
    """A file of the task, with its header; labels 0 and 1, or NLI's."""
    made = rows(count, seed)
    if task in LINES:
        header = ["h"] if task == "mrpc" else []
        return header + [LINES[task](*row) for row in made]
    if task == "mnli":
        first = "\t".join("01234567")
        return ["h"] + [f"{first}\t{a}\t{b}\t{NLI[y]}" for y, a, b in made]
    if task == "xnli-train":
        return ["h"] + [f"{a}\t{b}\t{NLI[y]}" for y, a, b in made]
    assert task == "xnli-dev"
    return ["h"] + [f"zh\t{NLI[y]}\t2\t3\t4\t5\t{a}\t{b}" for y, a, b in made]


FILES = {
    "high_level": {
        "train_without_content_0515.txt": "high_level",
        "test_without_content_0515.txt": "high_level",
    },
    "mrpc": {"train.tsv": "mrpc", "dev.tsv": "mrpc", "test.tsv": "mrpc"},
    "mnli": {"train.tsv": "mnli", "dev_matched.tsv": "mnli"},
    "cola": {"train.tsv": "cola", "dev.tsv": "cola"},
    "xnli": {
        "multinli/multinli.train.zh.tsv": "xnli-train",
        "xnli.dev.tsv": "xnli-dev",
    },
}


@pytest.fixture
def old_script(tiny, tmp_path, inside):
    """Runs a command line on small files of the task."""

    def call(task, command):
        data = tmp_path / "data"
        for seed, (name, kind) in enumerate(FILES[task].items()):
            path = data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(lines(kind, 48 if seed == 0 else 10, seed)) + "\n"
            path.write_text(text, encoding="utf-8")
        folders = {"DATA": data, "MODEL": tiny.model, "OUT": tmp_path / "out"}
        for name, folder in folders.items():
            command = command.replace(f"={name}", f"={folder}")
        flags = [word for word in command.split() if word.startswith("--")]
        code, _, err = inside([*flags, "--xla=off"])
        assert code == 0, err
        return tmp_path / "out", err

    return call


def test_bert_ads_command_trains(old_script):
    out, err = old_script("high_level", BERT_AD)
    assert "6 towers on 1 CPU device (6 each)" in err
    assert "12 examples x 6 towers = 72 per step" in err
    assert "training  steps 1 to 3" in err  # int(48 / 72 * 5)
    assert (out / "model.ckpt-3.index").exists()
    assert not (out / "eval_results.txt").exists()


@pytest.mark.parametrize(
    ("task", "command", "steps"),
    [
        ("mrpc", GOOGLE_MRPC, 4),
        *rarely(
            ("mnli", GOOGLE_MRPC.replace("MRPC", "MNLI"), 4),
            ("cola", GOOGLE_MRPC.replace("MRPC", "CoLA"), 4),
        ),
        ("xnli", GOOGLE_XNLI, 3),
    ],
)
def test_googles_commands_train_and_evaluate(old_script, task, command, steps):
    out, err = old_script(task, command)
    assert f"training  steps 1 to {steps}," in err
    results = (out / "eval_results.txt").read_text().splitlines()
    keys = [line.split(" = ")[0] for line in results[:4]]
    assert keys == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    assert results[2] == f"global_step = {steps}"


def test_google_predicts_after_it_trained(old_script):
    old_script("mrpc", GOOGLE_MRPC)
    out, _ = old_script("mrpc", GOOGLE_PREDICT)
    probabilities = (out / "test_results.tsv").read_text().splitlines()
    assert len(probabilities) == 10
    assert len((out / "predict.txt").read_text().splitlines()) == 10
