"""mlflow.json, and whether MLflow still has the run that it names."""

import types

import pytest

from bert_mgpu.runs import mlflow_state


def test_it_is_of_one_store(tmp_path):
    empty = {"uri": "here", "run_id": None, "logged": {}}
    assert mlflow_state.read(tmp_path, "here") == empty
    mlflow_state.write(tmp_path, "here", "1", logged={"train": 7})
    assert mlflow_state.read(tmp_path, "here")["logged"] == {"train": 7}
    assert mlflow_state.read(tmp_path, "there") == {**empty, "uri": "there"}
    (tmp_path / "mlflow.json").write_text("{")
    assert mlflow_state.read(tmp_path, "here") == empty


class Refused(Exception):
    """As MLflow raises it."""

    def __init__(self, code):
        super().__init__(code)
        self.error_code = code


class Client:
    """A store with one run."""

    def __init__(self, stage=None, error=None):
        self._stage, self._error = stage, error

    def get_run(self, run_id):
        if self._error:
            raise self._error
        return types.SimpleNamespace(
            info=types.SimpleNamespace(lifecycle_stage=self._stage)
        )


def test_a_run_that_was_deleted_is_not_there():
    assert mlflow_state.is_there(Client("active"), "1")
    assert not mlflow_state.is_there(Client("deleted"), "1")
    assert not mlflow_state.is_there(
        Client(error=Refused("RESOURCE_DOES_NOT_EXIST")), "1"
    )


@pytest.mark.parametrize("error", [Refused("INTERNAL_ERROR"), OSError("no network")])
def test_a_store_that_does_not_answer_says_nothing_of_it(error):
    with pytest.raises(type(error)):
        mlflow_state.is_there(Client(error=error), "1")
