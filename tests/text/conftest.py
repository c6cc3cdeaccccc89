"""Google's own tokenizer, and a vocabulary for where the real ones are absent."""

import importlib.util
import json
import subprocess
import sys

import pytest

from tests.support.paths import REFERENCE

DRIVER = REFERENCE / "google_tokenize.py"
SMALL_VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "ab", "abc", "##a", "##b", "##c", "##bc", "##abc", "e", "##e"),
    *("B", "##B", "é", "##é", "σ", "##σ", "ς", "##ς", "Σ", "##Σ"),
    *("中", "##中", "文", "#", "##", "##g", "!", "[", "]", "UNK"),
    *("1", "##1", "12", "ᄒ", "##ᅡ", "##ᆫ"),
    *("\u302e", "##\u302e", "##\u302f", "\U0001d157", "##\U0001d165"),
    *("##\U0001d16d", "cbacbacba"),
]


@pytest.fixture
def small_vocab(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(SMALL_VOCAB), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def google():
    """Asks Google's tokenizer for the ids, or words, of each text."""
    if importlib.util.find_spec("bert") is None:
        pytest.skip("Google's code is not here: pip install bert-tensorflow==1.0.4")
    driver = subprocess.Popen(
        [sys.executable, DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # TensorFlow talks there
        text=True,
    )

    def ask(vocab_file, lower_case, texts, words=False):
        request = {
            "vocab_file": str(vocab_file),
            "lower_case": lower_case,
            "texts": texts,
            "words": words,
        }
        driver.stdin.write(json.dumps(request) + "\n")
        driver.stdin.flush()
        answer = driver.stdout.readline()
        assert answer, f"ended before it answered: {DRIVER}"
        return json.loads(answer)

    yield ask
    driver.stdin.close()
    driver.wait(timeout=60)
