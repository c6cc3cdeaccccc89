"""What a real MLflow, with a folder as its store, has of a training afterwards."""

import json
import shutil
import time
import types

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import Diverged, Preempted
from bert_mgpu.runs import mlflow_log
from tests.support.logged import (
    client_of,
    files_of,
    lines_of,
    only_run_of,
    runs_of,
    stored,
    written,
)
from tests.support.runs import assert_refused, assert_same_run, keep_only, tree

FLAGS = {"do_train": True, "num_train_epochs": 2, "save_checkpoints_steps": 2}
FLAGS |= {"keep_checkpoint_max": 0, "log_steps": 1}
LOOKS = {"do_eval": True, "eval_steps": 4}
NOBODY = "http://127.0.0.1:9"  # a port that nothing listens at


@pytest.fixture(autouse=True)
def folders_are_stores(monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.fixture(scope="session")
def evaluated(tiny, trained, tmp_path_factory):
    """(output_dir, store) of a run with two sets and a report."""
    store = tmp_path_factory.mktemp("mlflow") / "store"
    later = f"later={tiny.data('own') / 'test.tsv'}"
    flags = {**FLAGS, **LOOKS, "eval_files": later, "report": True, "n_gpus": 1}
    return trained("own", **flags, mlflow=store), store


def test_every_number_of_the_files_is_there_with_its_step(evaluated):
    out, store = evaluated
    client, run = only_run_of(store)
    actual = stored(client, run)
    assert actual == written(out)
    assert [*actual["train/loss"]] == [*range(1, 13)]
    assert [*actual["dev/eval_accuracy"]] == [4, 8, 12]
    assert {"later/eval_loss", "eval_results/loss", "eval_results_later/loss"} < {
        *actual
    }
    # By the clock of the training; an evaluation has the time of the step before it.
    times = {row["step"]: row["time"] for row in lines_of(out / "metrics.jsonl")}
    for name in ("train/loss", "dev/eval_loss"):
        for point in client.get_metric_history(run.info.run_id, name):
            assert point.timestamp == int(1000 * times[point.step])


def test_flags_and_versions_are_those_of_run_json(evaluated, tiny):
    out, store = evaluated
    _, run = only_run_of(store)
    facts = json.loads((out / "run.json").read_text())
    given = [flag[2:].partition("=") for flag in tiny.flags(out, "own", mlflow=store)]
    given = {name for name, _, _ in given} | {*FLAGS, *LOOKS, "eval_files", "n_gpus"}
    flags = {name: facts["flags"][name] for name in given}
    texts = {name: json.dumps(value).strip('"') for name, value in flags.items()}
    assert run.data.params == texts
    assert run.data.params["do_train"] == "true"
    tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
    assert tags == {
        **facts["versions"],
        "host": facts["training"]["host"],
        "devices": ", ".join(facts["training"]["devices"]),
        "task": "own",
        "output_dir": str(out),
    }
    assert run.info.run_name == str(out) and run.info.status == "FINISHED"


def test_the_report_and_the_scores_are_kept_and_no_weights(evaluated):
    out, store = evaluated
    names = ("run.json", "report.html", "eval_results.txt", "eval_results_later.txt")
    wanted = {name: (out / name).read_bytes() for name in names}
    assert files_of(*only_run_of(store)) == wanted


def test_it_changes_no_bit_of_a_training(tiny, evaluated, inside, tmp_path):
    out, _ = evaluated
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **FLAGS))
    assert code == 0 and "MLflow" not in err, err
    assert_same_run(out, tmp_path / "out")
    assert not (tmp_path / "out" / "mlflow.json").exists()


def test_a_resume_goes_on_in_the_same_run_and_doubles_nothing(tiny, inside, tmp_path):
    out, store = tmp_path / "out", tmp_path / "store"
    flags = {**FLAGS, **LOOKS, "mlflow": store}
    code, _, err = inside(tiny.flags(out, **flags))
    assert code == 0, err
    _, first = only_run_of(store)
    assert f"logged in MLflow: {store}, run {first.info.run_id}" in err
    # As if it had been killed after step 10, with more logged than saved.
    keep_only(out, 10)
    for epochs, ends in ((2, [12]), (3, [12, 18])):
        code, _, err = inside(tiny.flags(out, **{**flags, "num_train_epochs": epochs}))
        assert code == 0, err
        client, run = only_run_of(store)
        assert run.info.run_id == first.info.run_id
        assert run.info.status == "FINISHED"
        actual, wanted = stored(client, run), written(out)
        assert [*actual["train/loss"]] == [*range(1, ends[-1] + 1)]
        assert [*actual["eval_results/loss"]] == ends
        for name, points in wanted.items():
            # Steps that were made twice have the speed of the first time.
            if "second" not in name:
                assert points.items() <= actual[name].items(), name
        current = json.loads(files_of(client, run)["run.json"])
        assert current["flags"]["num_train_epochs"] == epochs
    # MLflow lets no param change.
    assert run.data.params["num_train_epochs"] == "2.0"


def test_a_finished_run_is_logged_whole_by_the_same_command(tiny, inside, tmp_path):
    out, store = tmp_path / "out", tmp_path / "store"
    assert inside(tiny.flags(out, **FLAGS))[0] == 0
    before = tree(out)
    code, _, err = inside(tiny.flags(out, **FLAGS, mlflow=store))
    assert code == 0 and "nothing left to train" in err, err
    assert stored(*only_run_of(store)) == written(out)
    assert tree(out).keys() - before.keys() == {"mlflow.json"}
    # Another store gets all of it too, and once.
    other = tmp_path / "other"
    for _ in range(2):
        assert inside(tiny.flags(out, **FLAGS, mlflow=other))[0] == 0
        assert stored(*only_run_of(other)) == written(out)
    # A report that this command did not ask for is not sent: it has texts.
    (out / "report.html").write_text("an earlier command's")
    third = tmp_path / "third"
    assert inside(tiny.flags(out, **FLAGS | {"report": False}, mlflow=third))[0] == 0
    assert files_of(*only_run_of(third)).keys() == {"run.json"}


def test_each_seed_has_a_run(tiny, inside, tmp_path):
    out, store = tmp_path / "out", tmp_path / "store"
    flags = {"do_train": True, "do_eval": True, "seeds": 2, "log_steps": 2}
    code, _, err = inside(tiny.flags(out, **flags, mlflow=store))
    assert code == 0, err
    client, runs = runs_of(store)
    by_name = {run.info.run_name: run for run in runs}
    folders = [out / "seed-42", out / "seed-43"]
    assert by_name.keys() == {*map(str, folders)}
    for folder in folders:
        run = by_name[str(folder)]
        assert stored(client, run) == written(folder)
        assert run.data.params["seed"] == folder.name[5:]


def test_a_server_that_is_not_there_costs_one_warning(
    tiny, inside, tmp_path, monkeypatch
):
    monkeypatch.setattr(mlflow_log, "_SECONDS", 0.05)  # so that many looks fail
    out = tmp_path / "out"
    took = {}
    for name, more in (("without", {}), ("with", {"mlflow": NOBODY})):
        began = time.monotonic()
        code, _, err = inside(tiny.flags(out / name, **FLAGS, **more))
        took[name] = time.monotonic() - began
        assert code == 0, err
    warnings = [line for line in err.splitlines() if "MLflow" in line]
    assert len(warnings) == 1 and "Connection refused" in warnings[0], err
    assert warnings[0].startswith(f"WARNING: MLflow at {NOBODY}: ")
    assert took["with"] < took["without"] + 10
    assert_same_run(out / "without", out / "with")
    assert not (out / "with" / "mlflow.json").exists()


@pytest.fixture
def later(evaluated, tmp_path):
    """A run that was at step 2 without MLflow; `grow` adds the records up to a step."""
    out, _ = evaluated
    copy, store = tmp_path / "out", tmp_path / "store"
    shutil.copytree(out, copy)
    (copy / "mlflow.json").unlink()
    config = FinetuneConfig(mlflow=str(store), do_train=True)

    def grow(steps):
        for name in ("metrics.jsonl", "evaluations.jsonl"):
            rows = [row for row in lines_of(out / name) if row["step"] <= steps]
            (copy / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    grow(2)
    group = types.SimpleNamespace(rank=0)
    topology = types.SimpleNamespace(group=group)
    run = types.SimpleNamespace(config=config, output_dir=copy, topology=topology)
    return run, grow, store


def steps_of(store, name="train/loss"):
    """The steps of a metric in a store that may have no run yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = client_of(store)
        experiment = client.get_experiment_by_name("bert_mgpu")
        runs = client.search_runs([experiment.experiment_id]) if experiment else []
        return [
            point.step
            for run in runs
            for point in client.get_metric_history(run.info.run_id, name)
        ]


def meanwhile(read, *of):
    """Reads a store that is written to: a file may be empty or absent for a moment."""
    from mlflow.exceptions import MlflowException

    until = time.monotonic() + 60
    while True:
        try:
            return read(*of)
        # "Metric ... is malformed. No data found.", "Run ... not found"
        except (ValueError, MlflowException):
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def wait_for(wanted, store):
    until = time.monotonic() + 60
    while (found := meanwhile(steps_of, store)) != wanted:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def test_curves_grow_while_it_trains(later, monkeypatch):
    monkeypatch.setattr(mlflow_log, "_SECONDS", 0.05)
    run, grow, store = later
    with mlflow_log.following(run):
        grow(3)
        wait_for([1, 2, 3], store)
        _, found = meanwhile(only_run_of, store)
        assert found.info.status == "RUNNING"
        grow(7)
        wait_for([*range(1, 8)], store)
        assert meanwhile(steps_of, store, "dev/eval_loss") == [4]
        assert meanwhile(steps_of, store, "eval_results/loss") == []
        grow(9)
    assert steps_of(store) == [*range(1, 10)]
    assert steps_of(store, "dev/eval_loss") == [4, 8]
    assert steps_of(store, "eval_results/loss") == [12]


@pytest.mark.parametrize(
    ("error", "status"), [(Preempted, "KILLED"), (Diverged, "FAILED")]
)
def test_a_training_that_ends_early_has_its_curves(later, error, status):
    run, grow, store = later

    def end():
        grow(3)
        raise error("here")

    with pytest.raises(error), mlflow_log.following(run):
        end()
    client, found = only_run_of(store)
    assert found.info.status == status and steps_of(store) == [1, 2, 3]
    assert files_of(client, found) == {}
    with mlflow_log.following(run):
        pass
    assert only_run_of(store)[1].info.status == "FINISHED"


def test_what_is_refused_leaves_no_trace(later, tiny, inside):
    run, grow, store = later
    flags = {**FLAGS, "seed": 1, "mlflow": store}
    refused = tiny.flags(run.output_dir, "own", **flags)
    assert_refused(inside(refused), "--seed (was 42")  # it was trained without MLflow
    assert not (run.output_dir / "mlflow.json").exists()
    assert {*tree(store)} == {"0/meta.yaml"}  # which MLflow's client makes
    with mlflow_log.following(run):
        pass
    before = tree(store)
    assert_refused(inside(refused), "--seed (was 42")
    assert tree(store) == before


def test_a_run_that_was_deleted_is_made_anew(later):
    run, grow, store = later
    with mlflow_log.following(run):
        pass
    client, first = only_run_of(store)
    client.delete_run(first.info.run_id)
    grow(7)
    with mlflow_log.following(run):
        pass
    _, second = only_run_of(store)
    assert second.info.run_id != first.info.run_id
    assert steps_of(store) == [*range(1, 8)]
    assert second.info.status == "FINISHED"


def logged_in(run, step):
    """The id of the run in MLflow, once it has this step of the training."""
    until, path = time.monotonic() + 60, run.output_dir / "mlflow.json"
    while time.monotonic() < until:
        state = json.loads(path.read_text()) if path.exists() else {"logged": {}}
        if state["logged"].get("train") == step:
            return state["run_id"]
        time.sleep(0.05)
    raise TimeoutError(f"step {step} is not logged")


def test_a_run_that_is_deleted_while_it_trains_is_made_anew(later, monkeypatch, capsys):
    monkeypatch.setattr(mlflow_log, "_SECONDS", 0.05)
    run, grow, store = later
    with mlflow_log.following(run):
        grow(3)
        first = logged_in(run, 3)
        client_of(store).delete_run(first)
        grow(7)
        second = logged_in(run, 7)
    assert only_run_of(store)[1].info.run_id == second != first
    assert steps_of(store) == [*range(1, 8)]
    assert capsys.readouterr().err.count("WARNING: MLflow") == 1


def test_only_the_first_process_logs(later):
    run, _, store = later
    run.topology.group.rank = 1
    with mlflow_log.following(run):
        pass
    assert not store.exists() and not (run.output_dir / "mlflow.json").exists()


def test_many_records_are_sent_in_parts(later):
    """A request takes 1,000 metrics; here are 1,500 of the training."""
    run, _, store = later
    rows = [{"step": step, "time": 9.0, "a": 1, "b": 2, "c": 3} for step in range(500)]
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (run.output_dir / "metrics.jsonl").write_text(text)
    with mlflow_log.following(run):
        pass
    for name in "abc":
        assert steps_of(store, f"train/{name}") == [*range(500)]


def test_long_values_and_many_flags_fit(later):
    run, _, store = later
    path = run.output_dir / "run.json"
    facts = json.loads(path.read_text())
    facts["flags"] |= {"freeze": "x" * 9000} | {f"flag{n}": n for n in range(150)}
    facts["training"]["devices"] = ["GPU"] * 4000
    path.write_text(json.dumps(facts))
    with mlflow_log.following(run):
        pass
    _, found = only_run_of(store)
    assert found.data.params["freeze"] == "x" * 497 + "..."
    assert len(found.data.tags["devices"]) == 500
    assert {f"flag{n}" for n in range(150)} < found.data.params.keys()


def test_mlflow_chooses_the_experiment(later, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "reviews")
    run, _, store = later
    with mlflow_log.following(run):
        pass
    names = {one.name for one in client_of(store).search_experiments()}
    assert "reviews" in names and "bert_mgpu" not in names
