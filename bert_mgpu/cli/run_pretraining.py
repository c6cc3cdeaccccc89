"""Pretrains BERT on N towers: from random weights, or further on your own texts.

Make records from a text file (one sentence per line, blank lines between
documents), train on two GPUs (or on a CPU), and evaluate:

  python data_prep/create_pretraining_data.py --input_file=corpus.txt \\
    --output_file=corpus.tfrecord --vocab_file=model/vocab.txt

  python run_pretraining_mgpu.py --input_file=corpus.tfrecord \\
    --bert_config_file=model/bert_config.json --output_dir=out \\
    --init_checkpoint=model/bert_model.ckpt --do_train=true --do_eval=true \\
    --num_train_steps=10000 --num_warmup_steps=1000 --learning_rate=5e-5 \\
    --n_gpus=2

Exit codes: 0 done, 1 a bug in bert_mgpu, 2 bad usage or data, 3 diverged,
4 out of memory, 5 another process failed or was lost, 75 SIGTERM and
130 Ctrl-C, both resumable.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_mgpu.cli import session
from bert_mgpu.cli.flag_checks import check_common_flags, check_needed, check_used
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core.errors import UserError

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.distributed.topology import Topology


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    argv: None means sys.argv; see `session.run`.
    """
    return session.run(argv, str(__doc__), PretrainConfig, check=check, work=work)


def work(config: PretrainConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """Does what the flags ask for."""
    from bert_mgpu.runs import pretrain

    pretrain.pretrain(config, output_dir, topology)


def check(config: PretrainConfig) -> None:
    """Raises UserError for missing or contradictory flags."""
    reads = config.do_train or (config.do_eval and config.eval_input_file is None)
    check_needed(config, ["input_file"] if reads else [])
    check_common_flags(config)
    if config.eval_input_file and not config.do_eval:
        raise UserError("--eval_input_file is given: pass --do_eval=true as well")
    if config.do_predict and config.predict_file is None:
        raise UserError("--do_predict scores the lines of a file: pass --predict_file")
    if not config.dynamic_masking:
        check_used(
            config.given, ["masking", "masked_lm_prob"], "--dynamic_masking=true"
        )
    elif config.masking == "infill" and "masked_lm_prob" in config.given:
        raise UserError(
            "--masked_lm_prob: --masking=infill masks a span of the ad as long as the"
            " phrase: leave the flag out"
        )


if __name__ == "__main__":
    sys.exit(main())
