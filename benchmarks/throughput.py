"""Training steps beside Google's graph and transformers: a part of speed.py.

    python benchmarks/throughput.py [--rounds=5]

4 layers x 256 at batch 32 and BERT-base at batch 8, length 128, float32.
"""

import sys

import speed

if __name__ == "__main__":
    sys.exit(speed.main(["--only=small,base", *sys.argv[1:]]))
