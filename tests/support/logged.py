"""What MLflow has of a run, and what the run's own files have."""

import collections
import json
import pathlib


def client_of(store):
    from mlflow import MlflowClient  # it takes seconds

    return MlflowClient(str(store))


def runs_of(store):
    client = client_of(store)
    experiment = client.get_experiment_by_name("bert_mgpu")
    return client, client.search_runs([experiment.experiment_id])


def only_run_of(store):
    client, (run,) = runs_of(store)
    return client, run


def lines_of(path):
    return [json.loads(line) for line in path.open()]


def written(out):
    """{metric: {step: value}} of the files of an output_dir."""
    points = collections.defaultdict(dict)
    rows = [{"set": "train", **row} for row in lines_of(out / "metrics.jsonl")]
    if (out / "evaluations.jsonl").exists():
        rows += lines_of(out / "evaluations.jsonl")
    for path in out.glob("eval_results*.txt"):
        pairs = (line.split(" = ") for line in path.read_text().splitlines())
        scores = {name: float(value) for name, value in pairs}
        rows.append({"set": path.stem, "step": scores.pop("global_step"), **scores})
    for row in rows:
        name, step, _ = row.pop("set"), row.pop("step"), row.pop("time", None)
        for key, value in row.items():
            points[f"{name}/{key}"][step] = value
    return points


def stored(client, run):
    """The same of a run in MLflow. A step that is there twice is an error."""
    points = {}
    for key in run.data.metrics:
        found = client.get_metric_history(run.info.run_id, key)
        points[key] = {one.step: one.value for one in found}
        assert len(points[key]) == len(found), key
    return points


def files_of(client, run):
    """{name: content} of the artifacts."""
    folder = pathlib.Path(client.download_artifacts(run.info.run_id, ""))
    return {path.name: path.read_bytes() for path in folder.iterdir()}
