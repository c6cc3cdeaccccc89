"""`bert_mgpu doctor data` on rows of a test."""

import json

import pytest

from bert_mgpu.cli.doctor import task_data


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
