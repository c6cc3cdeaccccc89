"""`bert_mgpu serve`: a trained model's answers, its ends, and mistakes."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import bert_mgpu
from bert_mgpu.cli import main, serve
from bert_mgpu.config.serve import ServeConfig
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.processes import process
from tests.support.runs import tree
from tests.support.tiny import rows

NIGHTLY = pytest.mark.nightly
# Flags of a training, by the type of its task.
TYPES = {
    "single": ("own", {"threshold": 0.45}),
    "several labels": ("own", {"task_type": "multi", "labels": "no,yes"}),
    "pairs": ("mrpc", {}),
    "long texts": ("own", {"max_seq_length": 8, "max_segments": 4}),
}


def asked(kind, count=21):
    pairs = [(a, b) for _, a, b in rows(count, 9)]
    if kind == "long texts":
        return [(f"{a} {b}" * 2,) for a, b in pairs]
    return pairs if kind == "pairs" else [(a,) for a, _ in pairs]


@pytest.mark.parametrize(
    "kind",
    [
        "single",
        *(pytest.param(kind, marks=pytest.mark.nightly) for kind in [*TYPES][1:]),
    ],
)
def test_answers_are_those_of_the_script_and_of_the_saved_model(
    tiny, tmp_path, inside, kind
):
    """Field by field, in TensorFlow Serving's row form."""
    task, flags = TYPES[kind]
    out, exported, file = tmp_path / "out", tmp_path / "saved", tmp_path / "new.txt"
    texts = asked(kind)
    file.write_text("".join("\t".join(own) + "\n" for own in texts))
    flags |= {"do_train": True, "do_predict": True, "export_saved_model": exported}
    flags |= {"predict_file": file, "predict_format": "text"}
    assert inside(tiny.flags(out, task, **flags))[0] == 0
    served = serve.LoadedModel(ServeConfig(output_dir=str(out)))
    assert served.name == task and served.report is None
    answers = served.answer([served.example(*own) for own in texts])
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    columns = {
        name: tf.constant([own[index] for own in texts])
        for index, name in enumerate(served.inputs)
    }
    for name, values in signature(**columns).items():
        wanted = values.numpy()
        actual = [answer.pop(name) for answer in answers]
        if wanted.dtype == object:
            assert actual == [text.decode() for text in wanted]
        else:
            np.testing.assert_allclose(np.array(actual), wanted, atol=2e-6)
            assert np.array(actual).shape == wanted.shape
    assert answers == [{}] * len(texts)  # and no others
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    for own, record in zip(texts, records, strict=True):
        shown = served.explain(served.example(*own))
        shares = dict(shown["bars"])
        for label, share in record["probabilities"].items():
            assert shares[label] == pytest.approx(share, abs=2e-6)
        label = record["label"]
        wanted = label if isinstance(label, str) else ", ".join(label) or "no label"
        assert shown["text"] == wanted


def test_what_was_not_read_is_explained(trained):
    served = serve.LoadedModel(ServeConfig(output_dir=str(trained("own"))))
    text = "xyzzy " + "sun " * 20 + "joy, 你"
    answer = served.explain(served.example(text))
    assert answer["tokens"] == 14 and answer["of"] == 24  # of 16 with [CLS] and [SEP]
    assert answer["cut"] == "sun " * 7 + "joy, 你"
    assert answer["unknown"] == ["xyzzy", ",", "你"]
    answer = served.explain(served.example("sun"))
    assert (answer["cut"], answer["unknown"], answer["tokens"]) == ("", [], 1)


@pytest.fixture
def serving(trained):
    """serving(*flags) -> (process, port) of a server of the model of "own"."""
    started = []

    def start(*flags):
        command = ["bert_mgpu", "serve", trained("own"), "--port=0", *flags]
        run = process(command, program="-m")
        started.append(run)
        assert run.stderr.readline().startswith(f"loading {trained('own')}: takes ")
        line = run.stderr.readline()
        address = re.search(r"serving own at http://127\.0\.0\.1:(\d+) ", line)
        assert address, line + run.stderr.read()
        return run, int(address[1])

    yield start
    for run in started:
        run.kill()
        run.wait()


def ended(run):
    """What a server printed from its third line on; communicate() would lose lines."""
    code, err = run.wait(60), run.stderr.read()
    assert code == 0 and run.stdout.read() == "", err
    return err


def predict(port, texts, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"instances": texts})
    connection.request("POST", "/v1/models/own:predict", body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_what_was_taken(serving, trained, number):
    before = tree(trained("own"))
    run, port = serving()
    status, answer = predict(port, ["sun joy", "rain"])
    assert status == 200 and len(answer["predictions"]) == 2
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"instances": ["sun"] * 200})
    connection.request("POST", "/v1/models/own:predict", body)
    run.send_signal(number)
    assert len(json.loads(connection.getresponse().read())["predictions"]) == 200
    err = ended(run)
    assert err.endswith("stopped: every accepted request has been answered\n")
    assert "Traceback" not in err
    with pytest.raises(ConnectionError):
        predict(port, ["sun"])
    assert tree(trained("own")) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_right_at_the_start_is_heard(serving, number):
    run, _ = serving()
    run.send_signal(number)
    err = ended(run)
    assert "\n  1 tower on 1 CPU device\n" in err
    assert err.endswith("stopped: every accepted request has been answered\n")


def test_a_second_signal_ends_it_at_once(serving):
    run, port = serving()
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(
            b"POST /v1/models/own:predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 100\r\n\r\nabc"  # and no more
        )
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for the request
            run.wait(1)
        run.send_signal(signal.SIGINT)
        err = ended(run)
    assert "Traceback" not in err
    assert err.endswith("by a second signal: some requests may be unanswered\n")


def test_a_server_that_is_killed_gives_no_wrong_answer(serving):
    run, port = serving()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"instances": ["sun"] * 200})
    connection.request("POST", "/v1/models/own:predict", body)
    run.kill()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        connection.getresponse().read()


def refused(capfd, monkeypatch, *flags):
    monkeypatch.setattr("sys.argv", ["bert_mgpu", "serve", *map(str, flags)])
    capfd.readouterr()
    code = main.main()
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1
    return code, err


def test_mistakes(trained, tmp_path, capfd, monkeypatch):
    def check(message, *flags):
        code, err = refused(capfd, monkeypatch, *flags)
        assert code == 2 and err.startswith("error: ") and message in err

    check("--output_dir is missing (bert_mgpu serve FOLDER)")
    check("none: no such folder", tmp_path / "none", "--port=0")
    check("no trained model, since it has no run.json", tmp_path, "--port=0")
    check("there is no such flag: did you mean --port", tmp_path, "--prot=1")
    check("cannot listen there", trained("own"), "--host=203.0.113.7")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # an empty variable
        port = taken.getsockname()[1]
        check(f"--host=127.0.0.1 --port={port}: cannot listen", trained("own"),
              f"--port={port}", "--host=")  # fmt: skip
    check("--model_name=a/b: pass letters", trained("own"), "--model_name=a/b",
          "--port=0")  # fmt: skip
    check("--allowed_hosts: 'a:80': pass a host's name", trained("own"), "--port=0",
          "--allowed_hosts=b, a:80")  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check(f"--port={port}: cannot listen there", trained("own"), f"--port={port}")


def test_without_the_extra_it_says_how_to_get_it(trained, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "bert_mgpu.serving.server", raising=False)
    code, err = refused(capfd, monkeypatch, trained("own"))
    assert code == 2 and "serve needs uvicorn: pip install" in err
    assert "bert_mgpu[serve]" in err or ".[serve]" in err


def test_the_report_is_that_of_the_run(trained, tmp_path):
    out = shutil.copytree(trained("own", eval_steps=2), tmp_path / "out")
    (out / "report.html").write_text("<p>")
    for folder, shown in ((out, True), (out / "best", True)):
        served = serve.LoadedModel(ServeConfig(output_dir=str(folder)))
        assert (served.report is not None) == shown
    served = serve.LoadedModel(ServeConfig(output_dir=str(out), report=False))
    assert served.report is None


def test_vectors_are_those_of_python(trained, monkeypatch):
    folder = trained("mrpc")
    served = serve.LoadedModel(ServeConfig(output_dir=str(folder)))
    assert served.poolings == ("mean", "cls", "max", "pooler") and served.width == 32
    texts = ["sun joy", "rain", "a " * 40]
    tokenized, batch_ids = [], Tokenizer.batch_ids

    def counted(self, texts):
        tokenized.extend(texts)
        return batch_ids(self, texts)

    monkeypatch.setattr(Tokenizer, "batch_ids", counted)
    found = served.encode(texts, "cls", True)
    assert sorted(filter(None, tokenized)) == sorted(texts)  # once
    with bert_mgpu.load(folder) as model:
        wanted = model.encode(texts, "cls", True)
        length = model.max_seq_length
    np.testing.assert_allclose([vector for vector, _ in found], wanted, atol=1e-6)
    assert [count for _, count in found] == [4, 3, length]
