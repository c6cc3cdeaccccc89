"""A script whose processes add as those with GPUs do, by `grouped_allreduce`.

Here gloo's ring stands in the place of NCCL:

    horovodrun -np 2 python tests/run/distributed/grouped.py classifier FLAGS
"""

import sys

from bert_mgpu import launch, run
from bert_mgpu.train import collective


def main():
    original = collective.Horovod.__init__

    def init(self, *arguments):
        original(self, *arguments)
        self.ring = True

    collective.Horovod.__init__ = init
    kind, *rest = sys.argv[1:]
    work = {"classifier": run.finetune, "pretraining": run.pretrain}[kind]
    return work([sys.argv[0], *rest], "usage", launch.start_anew)


if __name__ == "__main__":
    sys.exit(main())
