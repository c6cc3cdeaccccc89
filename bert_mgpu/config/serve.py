"""The settings of `bert_mgpu serve`."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import FILES, SPEED, TASK, TEST, FlagTable, flag
from bert_mgpu.config.rewriting import WITHOUT_SLOTS, WRITES_FROM


@dataclasses.dataclass(frozen=True)
class ServeConfig(FlagTable):
    """The settings of `bert_mgpu serve`."""

    # fmt: off
    output_dir: str | None = flag(None, TASK, "folder of the trained model: an output_dir, its best/, or an export; `bert_mgpu serve FOLDER` is the same")
    model_name: str | None = flag(None, TASK, "name in /v1/models/NAME [the task's name]")
    host: str = flag("127.0.0.1", TASK, "address to listen on; any but a loopback address lets other machines in")
    port: int = flag(8501, TASK, "port to listen on; 0 takes a free one", minimum=0, maximum=65535)
    allowed_hosts: str | None = flag(None, TASK, "names, comma-separated, by which other machines call this server [host, and those of the loopback]")
    report: bool = flag(True, TASK, "show report.html beside the page; it shows texts of the training data")

    use_best: bool = flag(False, TEST, "use the weights in output_dir/best, not the last ones")
    threshold: str | None = flag(None, TEST, "as in run_classifier_mgpu.py [as in the training]")
    keep_bias: float | None = flag(None, TEST, "type rewrite: as in run_classifier_mgpu.py [as in the training]")
    num_candidates: int | None = flag(None, TEST, "type rewrite: as in run_classifier_mgpu.py [as in the training]", minimum=1, maximum=100)
    fill_rounds: int | None = flag(None, TEST, "type rewrite: as in run_classifier_mgpu.py [as in the training]", minimum=1, maximum=100)
    insert_from: str | None = flag(None, TEST, "type rewrite: as in run_classifier_mgpu.py [as in the training]", choices=WRITES_FROM)
    without_slots: str | None = flag(None, TEST, "type rewrite: as in run_classifier_mgpu.py [as in the training]", choices=WITHOUT_SLOTS)
    max_answer_length: int | None = flag(None, TEST, "type qa: as in run_classifier_mgpu.py [as in the training]", minimum=1)
    n_best_size: int | None = flag(None, TEST, "type qa: as in run_classifier_mgpu.py [as in the training]", minimum=1, maximum=1000)
    null_score_diff_threshold: float | None = flag(None, TEST, "type qa: as in run_classifier_mgpu.py [as in the training]")
    predict_batch_size: int | None = flag(None, TEST, "rows per tower and batch [as in the script]", minimum=1, maximum=2**20)

    n_gpus: int = flag(1, SPEED, "towers (copies of the model), spread over the GPUs", minimum=1, maximum=4096)
    device: str = flag("auto", SPEED, "auto, cpu or gpu", choices=("auto", "cpu", "gpu"))
    precision: str = flag("float32", SPEED, "number format of the encoder's matrix products", choices=("float32", "tf32", "bfloat16", "float16"))

    max_body_bytes: int = flag(1 << 20, FILES, "bytes of a request; larger ones get status 413", minimum=1024)
    max_rows: int = flag(256, FILES, "rows of a request; more get status 413", minimum=1)
    max_characters: int = flag(100_000, FILES, "characters of a row; longer ones get status 413", minimum=1)
    max_waiting_rows: int = flag(4096, FILES, "rows that may wait; a request beyond that gets status 429", minimum=1)
    timeout: float = flag(30.0, FILES, "seconds after which a request that is not answered gets status 503", minimum=0.1, maximum=3600)
    # fmt: on
