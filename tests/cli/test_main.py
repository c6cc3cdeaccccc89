"""`bert_mgpu COMMAND`: one name for every script."""

import importlib
import sys

import pytest

import bert_mgpu
from bert_mgpu.cli import main


@pytest.fixture
def called(monkeypatch, capfd):
    """called(*arguments) -> (exit code, stdout, stderr) of the command line."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bert_mgpu", *map(str, arguments)])
        capfd.readouterr()
        return main.main(), *capfd.readouterr()

    return run


def test_help_names_every_command(called):
    code, out, err = called()
    assert (code, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    for name in (*main.SCRIPTS, *main.COMMANDS):
        assert f"\n  bert_mgpu {name}" in out
    assert called("--help") == called("-h") == called("help") == (code, out, err)


def test_an_unknown_command_names_the_known_ones(called):
    code, out, err = called("tarin")
    assert (code, out) == (2, "")
    known = "pass one of train, predict,"
    assert err.startswith(f"error: tarin: no such command: did you mean train? {known}")
    assert called("xyz")[2].startswith(f"error: xyz: no such command: {known}")


def test_the_version(called):
    assert called("--version") == called("version")
    assert called("--version") == (0, f"bert_mgpu {bert_mgpu.__version__}\n", "")


@pytest.mark.parametrize("name", [*main.SCRIPTS])
def test_a_script_by_its_short_name(called, name):
    """With the help of its script, and without a flag with its errors."""
    module, _ = main.SCRIPTS[name]
    code, out, err = called(name, "--help")
    doc = importlib.import_module(f"bert_mgpu.cli.{module}").__doc__
    assert (code, err) == (0, "") and out.startswith(doc.strip().splitlines()[0])
    code, out, err = called(name)
    assert (code, out) == (2, "") and " is missing" in err


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["train", "--seed=3"], {"do_train": True, "do_predict": False, "seed": 3}),
        (["train", "--do_train=false"], {"do_train": False}),
        (["predict"], {"do_train": False, "do_predict": True}),
        (["predict", "--predict_text=a b"], {"do_predict": False,
                                             "predict_text": "a b"}),
        (["predict", "a model"], {"do_predict": True, "output_dir": "a model"}),
        (["pretrain"], {"do_train": True}),
    ],
)  # fmt: skip
def test_what_a_name_stands_for(called, monkeypatch, arguments, flags):
    """The command line of the script: sys.argv, which a restart keeps."""
    module, _ = main.SCRIPTS[arguments[0]]
    script = importlib.import_module(f"bert_mgpu.cli.{module}")
    settings = []

    def checked(config):
        settings.append(config)
        raise SystemExit(7)

    monkeypatch.setattr(script, "check", checked)
    with pytest.raises(SystemExit):
        called(*arguments)
    for name, value in flags.items():
        assert getattr(settings[0], name) == value


def test_the_folder_to_predict_with(called, tmp_path):
    """An output_dir takes the predictions; an export needs another folder for them."""
    for name, exists in (("none", False), ("out", True), ("exported", True)):
        if exists:
            (tmp_path / name).mkdir()
            (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "out" / "model.ckpt-12.index").touch()
    wanted = ["output_dir", "output_dir", "init_checkpoint"]
    for name, flag in zip(("none", "out", "exported"), wanted, strict=True):
        assert main._flag_of_model(str(tmp_path / name)) == flag
    folder = str(tmp_path / "exported")
    flags = ("--task_name=a", "--predict_file=-")
    code, _, err = called("predict", folder, *flags)
    assert code == 2 and "--output_dir is missing (the folder that the run" in err
