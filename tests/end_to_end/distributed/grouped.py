"""A script whose processes add as those with GPUs do, by `grouped_allreduce`.

Here gloo's ring stands in the place of NCCL:

    horovodrun -np 2 python tests/end_to_end/distributed/grouped.py classifier FLAGS
"""

import sys

from bert_mgpu.cli import run_classifier, run_pretraining
from bert_mgpu.distributed import collective


def main():
    original = collective.Horovod.__init__

    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        self.uses_nccl = True

    collective.Horovod.__init__ = init
    kind, *rest = sys.argv[1:]
    work = {"classifier": run_classifier.main, "pretraining": run_pretraining.main}[
        kind
    ]
    sys.argv[1:] = rest
    return work()


if __name__ == "__main__":
    sys.exit(main())
