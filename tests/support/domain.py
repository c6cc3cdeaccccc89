"""Files for domain_vocab.py, and what it prints of them."""

import hashlib
import json
import re

from tests.support.paths import ROOT

SCRIPT = ROOT / "data_prep" / "domain_vocab.py"
# Every \r is dropped, and a token may look like a line end to others.
VOCAB = (
    "[PAD]\n[unused1]\n[UNK]\r\n[CLS]\n[unused2]\n[SEP]\n中\n国\na\n##a\nb\n##b\nab\n"
    "##\rc\n\u2028\n##abab"
).encode()
CONFIG = {"vocab_size": 16, "hidden_size": 8, "num_attention_heads": 2, "extra": [1]}
# Of the words, cc is unknown (6 times), ☃ too (5), and abb is ab ##b (5 times).
LINES = ["中国 ab cc ☃ abb"] * 5 + ["", "  ", "cc 中 ababab"]
BEFORE = {
    "words (a CJK character is one)": 33,
    "tokens": 39,  # abb and ababab are two each
    "[UNK]": 11,
    "words in several pieces": 6,
    "words that are cut worse than before": 0,
}


class Files:
    """A corpus, a vocabulary and a config, and a run over them."""

    def __init__(self, root):
        self.root = root
        self.corpus, self.vocab = root / "corpus.txt", root / "vocab.txt"
        self.config, self.out = root / "config.json", root / "new.txt"
        self.corpus.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        self.vocab.write_bytes(VOCAB)
        self.config.write_text(json.dumps(CONFIG))

    def flags(self, **changed):
        values = {"input_file": self.corpus, "vocab_file": self.vocab, **changed}
        return [f"--{k}={v}" for k, v in values.items() if v is not None]

    def append(self, **changed):
        """Flags of a run that appends."""
        return self.flags(
            **{
                "output_vocab_file": self.out,
                "place": "append",
                "bert_config_file": self.config,
                "output_config_file": self.root / "new.json",
                **changed,
            }
        )

    def tree(self):
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.root.iterdir()
            if path.is_file()
        }


def values_of(text, column=0):
    """Numbers of the table of rates, by their names in BEFORE."""
    actual = {}
    for name in BEFORE:
        if match := re.search(rf"^{re.escape(name)}:?((?: +[\d,]+)+) *$", text, re.M):
            actual[name] = int(match[1].split()[column].replace(",", ""))
    return actual


def flat(text):
    """Without line ends, which depend on the lengths of names."""
    return " ".join(text.split())
