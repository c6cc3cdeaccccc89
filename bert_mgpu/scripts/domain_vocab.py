"""How well a vocabulary fits the texts of a domain, and one that fits it better.

    python data_prep/domain_vocab.py --input_file='corpus/*.txt' \\
      --vocab_file=model/vocab.txt

reports what becomes [UNK] and what falls into pieces. With

      --output_vocab_file=model/vocab_domain.txt --add=90

it also writes a vocabulary in which new words stand in the places of [unusedN], or
with --place=append behind all others, and measures it on the same texts.
"""

from __future__ import annotations

import sys

from bert_mgpu import scripts
from bert_mgpu.preparing import domain_vocabulary


def main() -> int:
    """The command line -> the exit code."""
    return domain_vocabulary.main(sys.argv, scripts.usage(str(__doc__), sys.argv[0]))


if __name__ == "__main__":
    sys.exit(main())
