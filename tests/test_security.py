"""What SECURITY.md promises, where no other test checks it."""

import ast
import socket

import pytest

from bert_mgpu.core import files
from tests.test_layout import MODULES, PACKAGE, imports_of, name_of

# They meet other processes, or ask for this machine's name.
NETWORK = {
    "distributed/launcher.py",
    "distributed/rendezvous.py",
    "distributed/peers.py",
    "cli/doctor/environment.py",
    "cli/serve.py",  # which listens
    "serving/guard.py",  # addresses are taken apart
}


def calls(path):
    """(name of what is called, its keywords) in a module, a.b.c as a whole."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            words = {one.arg: ast.unparse(one.value) for one in node.keywords}
            yield ast.unparse(node.func), words


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_that_is_read_can_run(path):
    for name, words in calls(path):
        assert name not in ("eval", "exec", "compile", "__import__"), name
        if name in ("np.load", "numpy.load"):
            assert words.get("allow_pickle") == "False"
        if name.endswith("saved_model.load"):
            assert path.name == "saved_model.py" and path.parent.name == "export"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_few_modules_know_the_network(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {name.split(".")[0] for _, name in imports_of(tree)}
    network = {"socket", "urllib", "http", "requests", "ftplib", "socketserver"}
    if str(path.relative_to(PACKAGE)) not in NETWORK:
        assert not imported & network


@pytest.mark.parametrize("mlflow", [None, "store"])
def test_one_process_opens_no_connection(tiny, tmp_path, inside, monkeypatch, mlflow):
    opened = []

    def refused(self, address):
        opened.append(address)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    steps = {"do_train": True, "do_eval": True, "do_predict": True, "report": True}
    steps["mlflow"] = mlflow and tmp_path / mlflow
    code, _, err = inside(tiny.flags(tmp_path / "out", **steps))
    assert code == 0, err
    assert (tmp_path / "out" / "report.html").exists() and opened == []


def test_a_link_is_replaced_and_not_written_through(tmp_path):
    target, link = tmp_path / "elsewhere", tmp_path / "predict.txt"
    target.write_text("theirs")
    link.symlink_to(target)
    files.write_text(link, "ours")
    assert not link.is_symlink() and link.read_text() == "ours"
    assert target.read_text() == "theirs"
