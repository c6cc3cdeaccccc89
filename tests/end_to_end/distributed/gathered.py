"""Processes that gather bytes in parts of a few bytes; each prints "whole" at its end:

horovodrun -np 2 python tests/end_to_end/distributed/gathered.py
"""

import sys

from bert_mgpu.distributed import collective


def main():
    collective._MAX_BYTES = 10
    group = collective.Horovod(False, "float32", print, pausing=print)
    for lengths in ((0, 0), (3, 0), (0, 5), (5, 5), (5, 6), (27, 1), (0, 23), (40, 40)):
        values = [bytes(range(rank, rank + n)) for rank, n in enumerate(lengths)]
        assert group.all_gather(values[group.rank]) == values, lengths
    print("whole")


if __name__ == "__main__":
    sys.exit(main())
