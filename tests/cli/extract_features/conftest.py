"""A file of lines, Google's answer, and the script on the same file."""

import pytest

from bert_mgpu.cli import extract_features
from tests.reference import google_extract
from tests.support.feature_lines import model_flags, read, write_lines


@pytest.fixture(scope="session")
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
