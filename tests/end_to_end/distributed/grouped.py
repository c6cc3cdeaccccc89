"""A script whose processes add as those with GPUs do, by `grouped_allreduce`.

Here gloo's ring stands in the place of NCCL:

    horovodrun -np 2 python tests/end_to_end/distributed/grouped.py classifier FLAGS
"""

import sys

from bert_mgpu.cli import run_classifier, run_pretraining
from bert_mgpu.distributed import collective, launcher


def main():
    original = collective.Horovod.__init__

    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        self.uses_nccl = True

    collective.Horovod.__init__ = init
    kind, *rest = sys.argv[1:]
    work = {"classifier": run_classifier.run, "pretraining": run_pretraining.run}[kind]
    return work([sys.argv[0], *rest], launcher.restart_in_parts)


if __name__ == "__main__":
    sys.exit(main())
