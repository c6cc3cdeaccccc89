"""How well a vocabulary fits the texts of a domain, and one that fits it better.

    python data_prep/domain_vocab.py --input_file='corpus/*.txt' \\
      --vocab_file=model/vocab.txt

reports what becomes [UNK] and what falls into pieces. With

      --output_vocab_file=model/vocab_domain.txt --add=90

it also writes a vocabulary in which new words stand in the places of [unusedN], or
with --place=append behind all others, and measures it on the same texts.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.preparing import domain_vocabulary

if __name__ == "__main__":
    sys.exit(domain_vocabulary.main(sys.argv, str(__doc__)))
