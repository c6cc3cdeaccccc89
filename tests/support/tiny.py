"""A tiny model with data for several tasks, small enough to train in a second."""

import dataclasses
import json
import pathlib
import random

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GOOD, BAD, OTHER = "sun joy win 好 新", "rain loss fear 坏 旧", "a the of in it 的 了"
WORDS = [*GOOD.split(), *BAD.split(), *OTHER.split()]
VOCAB = [*SPECIAL, *WORDS, "##s", ".", "，"]
CONFIG = {
    "vocab_size": len(VOCAB),
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 128,  # times 32: just enough for moments in 8 bits
    "hidden_act": "gelu",
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
# One line of each task's files, of (label, text, second text).
LINES = {
    "mrpc": lambda label, a, b: f"{label}\t1\t2\t{a}\t{b}",
    "cola": lambda label, a, b: f"x\t{label}\t\t{a}",
    "high_level": lambda label, a, b: f"手机\t7\t{label}\t{a}",
    "own": lambda label, a, b: f"{('no', 'yes')[label]}\t{a}",
}
FILES = {  # train, dev, test
    "mrpc": ("train.tsv", "dev.tsv", "test.tsv"),
    "cola": ("train.tsv", "dev.tsv", None),
    "high_level": (
        "train_without_content_0515.txt",
        "test_without_content_0515.txt",
        None,
    ),
    "own": ("train.tsv", "dev.tsv", "test.tsv"),
}
TASK_JSON = {
    "train": "train.tsv",
    "dev": "dev.tsv",
    "test": "test.tsv",
    "label": 0,
    "text_a": 1,
}


def small_config(dropout=0.1, **changed):
    """The BertConfig of a model that no files belong to."""
    from bert_mgpu.model.config import BertConfig

    values = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2}
    values |= {"num_attention_heads": 4, "intermediate_size": 64}
    values |= {"max_position_embeddings": 16, "hidden_dropout_prob": dropout}
    return BertConfig(**values | {"attention_probs_dropout_prob": dropout} | changed)


def rows(count, seed):
    """(label, text, text): texts with good words have label 1, else bad ones."""
    rng = random.Random(seed)

    def text(label, longest):
        words = rng.choices((BAD, GOOD)[label].split(), k=rng.randint(1, 3))
        words += rng.choices(OTHER.split(), k=rng.randint(0, longest))
        return " ".join(rng.sample(words, len(words)))

    labels = [index % 2 for index in range(count)]
    return [(label, text(label, 12), text(label, 3)) for label in labels]


def write_task(folder, task, counts=(24, 13, 11)):
    """The files of a task, in a folder of its own."""
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate(zip(FILES[task], counts, strict=True)):
        if name is None:
            continue
        lines = [LINES[task](*row) for row in rows(count, seed)]
        if task == "mrpc":
            lines.insert(0, MRPC_HEADER)
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    if task == "own":
        (folder / "task.json").write_text(json.dumps(TASK_JSON))


@dataclasses.dataclass(frozen=True)
class Tiny:
    """Paths of the workspace; tests change copies only."""

    root: pathlib.Path

    @property
    def model(self):
        """bert_config.json, vocab.txt and bert_model.ckpt, as Google's are."""
        return self.root / "model"

    def data(self, task="mrpc"):
        return self.root / "data" / task

    def flags(self, output_dir, task="mrpc", **changed):
        """A command line without the script; None leaves a flag out."""
        values = {
            "task_name": task,
            "data_dir": self.data(task),
            "vocab_file": self.model / "vocab.txt",
            "bert_config_file": self.model / "bert_config.json",
            "init_checkpoint": self.model / "bert_model.ckpt",
            "output_dir": output_dir,
            "max_seq_length": 16,
            "train_batch_size": 4,
            "learning_rate": 1e-3,
            "num_train_epochs": 1,
            "xla": "off",
            "report": False,  # it takes a second
            **changed,
        }
        return [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in values.items()
            if value is not None
        ]


def write_vocab(work, tokens):
    (work.model / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))


def edit_config(work, **changed):
    values = {k: v for k, v in {**CONFIG, **changed}.items() if v is not None}
    (work.model / "bert_config.json").write_text(json.dumps(values))


def make(root, layers):
    """The workspace: a model of random weights, and the files of all tasks."""
    from bert_mgpu.checkpoints import google_read
    from bert_mgpu.model import params
    from bert_mgpu.model.config import BertConfig

    tiny = Tiny(root)
    tiny.model.mkdir()
    write_vocab(tiny, VOCAB)
    edit_config(tiny, num_hidden_layers=layers)
    config = BertConfig.from_json_file(tiny.model / "bert_config.json")
    weights = params.initialize(params.bert_specs(config), 0.3, seed=1)
    google_read.write(tiny.model / "bert_model.ckpt", weights)
    for task in FILES:
        write_task(tiny.data(task), task)
    return tiny
