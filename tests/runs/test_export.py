"""Exports for servers: what is refused before a run, and what is written after it."""

import importlib.util
import types

import numpy as np
import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs import export
from bert_mgpu.runs.run import FinetuningRun
from bert_mgpu.tasks.registry import BUILTIN

FLAGS = ("export_saved_model", "export_hf", "export_onnx")
NONE = dict.fromkeys(FLAGS) | {"export_tokenizer": "tf"}


@pytest.mark.parametrize("flag", FLAGS)
def test_what_is_no_export_is_not_replaced(tmp_path, flag):
    """The first process alone looks, and writes."""
    folder = tmp_path / "served"
    flags = NONE | {flag: str(folder)}
    export.check(0, True, **flags)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    export.check(1, True, **flags)
    with pytest.raises(UserError, match=f"{folder}: exists and is not just an export"):
        export.check(0, True, **flags)


def test_a_tokenizer_without_its_package_is_refused(tmp_path, monkeypatch):
    """Where it is asked for, in the process that exports."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: (
            None if name == "tensorflow_text" else find(name, package)
        ),
    )
    flags = NONE | {"export_saved_model": str(tmp_path / "served")}
    export.check(0, True, **flags)
    flags["export_tokenizer"] = "tf_text"
    export.check(1, True, **flags)
    expected = r"--export_tokenizer=tf_text needs tensorflow_text: pip .*\[tf_text\]'$"
    with pytest.raises(UserError, match=expected):
        export.check(0, True, **flags)


@pytest.fixture
def written(monkeypatch):
    """written(data, rank, ...) -> what is called and said, in its order."""
    calls = []

    class Served:
        def __init__(self, task, params, tokenizer, truncation, head_tokens, in_graph):
            calls.append(("served", truncation, head_tokens, in_graph.__name__))

    def note(name, result=None):
        return lambda *args, **named: (calls.append((name, args[0])), result)[1]

    monkeypatch.setattr(export.saved_model, "Served", Served)
    monkeypatch.setattr(export, "say", note("say"))
    for module in ("saved_model", "onnx"):
        of = getattr(export, module)
        monkeypatch.setattr(of, "write", note(f"{module}.write"))
        monkeypatch.setattr(of, "difference", note(f"{module}.difference", 2e-7))
    of_ids = note("saved_model.ids_difference", 2e-7)
    monkeypatch.setattr(export.saved_model, "ids_difference", of_ids)
    forwarded = []

    def forward(rows, towers, settings, note):
        forwarded.append(rows)
        return {"logits": 0}

    monkeypatch.setattr(export, "forward", forward)

    class Rows(list):
        """Two rows of each example; the first ones answer for them."""

        @property
        def first_rows(self):
            return np.arange(0, len(self), 2)

        def take(self, numbers):
            return Rows(self[number] for number in np.asarray(numbers))

    def write(
        needed=(),
        rank=0,
        token_outputs=(),
        *,
        task_name="mrpc",
        cased=False,
        examples=lambda name, shown: [*range(100)],
        **flags,
    ):
        calls.clear()
        forwarded.clear()
        data = types.SimpleNamespace(
            needed=list(needed),
            examples=examples,
            read=lambda name: (Rows(range(200)), "key"),
            has_pairs=False,
            files=BUILTIN[task_name],
        )
        model = types.SimpleNamespace(
            required_tokenizer=None,
            required_vocab_file="vocab.txt",
            do_lower_case=not cased,
        )
        task = types.SimpleNamespace(token_outputs=token_outputs)
        topology = single_process(1, ["CPU:0"])
        config = FinetuneConfig(**flags)
        job = FinetuningRun(
            config, model, task, data=data, topology=topology, output_dir=None
        )
        towers = types.SimpleNamespace(group=types.SimpleNamespace(rank=rank))
        export.write(job, {}, towers)
        return list(calls), list(forwarded)

    return write


def test_without_a_flag_nothing_is_done(written):
    assert written(["dev", "test"]) == ([], [])


def test_it_is_compared_on_the_first_64_rows_of_the_last_set(written):
    calls, forwarded = written(["dev", "test"], export_saved_model="x")
    assert forwarded == [[*range(0, 128, 2)]]
    names = [name for name, _, *_ in calls if name != "say"]
    assert names == ["served", "saved_model.write", "saved_model.difference"]
    output = [text for name, text in [c[:2] for c in calls] if name == "say"]
    assert (
        output[-1] == "  given the texts of 64 examples, its outputs differ by 2.0e-07"
    )


def test_each_export_is_compared_by_what_it_takes(written):
    calls, _ = written(["dev"], export_saved_model="x", export_onnx="y")
    output = [text for name, text in [c[:2] for c in calls] if name == "say"]
    assert [line.split(" of 64")[0] for line in output if "differ" in line] == [
        "  given the texts",
        "  given the ids",
    ]
    calls, _ = written(["dev"], export_saved_model="x", token_outputs={"logits"})
    assert "saved_model.ids_difference" in [name for name, *_ in calls]
    assert "given the ids of 64 examples" in calls[-1][1]


def test_what_has_to_be_imported_is_said(written):
    said = "  Python has to `import tensorflow_text` before it loads the model"
    for name, made in (("tf", "GraphTokenizer"), ("tf_text", "KernelTokenizer")):
        calls, _ = written(export_saved_model="x", export_tokenizer=name)
        assert ("served", "head", 128, made) in calls
        assert (("say", said) in calls) == (name == "tf_text")


@pytest.mark.parametrize(
    ("task_name", "cased", "done"),
    [
        ("wos5736", False, "split into text_a and text_b"),
        ("sentiment", True, "split into text_a and text_b"),
        ("abuse", True, "in lower case"),
        ("abuse", False, None),
        ("toutiao", True, None),
        ("mrpc", True, None),
    ],
)
def test_what_a_client_has_to_do_to_texts_is_said(written, task_name, cased, done):
    calls, _ = written(export_saved_model="x", task_name=task_name, cased=cased)
    said = [text for name, text, *_ in calls if name == "say"]
    told = [line for line in said if "clients must send" in line]
    assert told == (
        [f"  clients must send texts {done}, as this run prepares them"] if done else []
    )


def test_without_rows_that_is_said(written):
    calls, forwarded = written(export_saved_model="x", export_onnx="y")
    output = [text for name, text in [c[:2] for c in calls] if name == "say"]
    assert output[0].startswith("to compare the export with the run, add --do_predict")
    names = [name for name, _, *_ in calls]
    assert forwarded == [] and not [n for n in names if n.endswith("difference")]
    assert "saved_model.write" in names and "onnx.write" in names


def test_texts_that_changed_since_they_were_predicted_are_not_compared(written):
    """It is written and served all the same; its ids are compared."""

    def changed(name, shown):
        raise UserError("dev.tsv: was written to while the run read it")

    flags = {"export_saved_model": "x", "export_onnx": "y", "examples": changed}
    calls, _ = written(["dev"], **flags)
    names = [name for name, *_ in calls]
    assert "saved_model.write" in names and "saved_model.difference" not in names
    told = "the export is not compared with the run: dev.tsv: was written to while"
    assert [text for name, text, *_ in calls if name == "say" and told in text]
    assert names[-2:] == ["onnx.difference", "say"]


def test_the_first_process_alone_writes(written):
    """All of them work the rows out, which takes them all."""
    calls, forwarded = written(["dev"], rank=1, export_saved_model="x")
    assert calls == [] and len(forwarded) == 1


def test_texts_are_cut_as_in_the_run(written):
    flags = {"truncation": "head_tail", "head_tokens": 3}
    calls, _ = written(export_onnx="y", **flags)
    assert ("served", "head_tail", 3, "GraphTokenizer") in calls
