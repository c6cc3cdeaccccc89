"""The format that is found for a file to predict."""

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.tasks import predict_format, registry


def task_of(flags):
    return registry.find_task_files(FinetuneConfig(**{"task_name": "mine", **flags}))


def found(path, flags, asked=None, data_dir=None):
    task = task_of(flags)
    chosen = predict_format.find_format(
        task, str(path), task.columns_of("test"), asked=asked, data_dir=data_dir
    )
    return task, chosen
