"""POST /v1/embeddings: OpenAI's form, with which pooling, and what is refused."""

import base64
import concurrent.futures
import json

import numpy as np
import pytest

from bert_mgpu.serving import embeddings
from tests.support.served import LIMITS, Reverser


def ask(client, **body):
    status, _, answer = client("POST", "/v1/embeddings", body)
    return status, json.loads(answer)


def test_the_form_of_openai(client):
    """As platform.openai.com/docs/api-reference/embeddings has it."""
    status, answer = ask(client, input=["abc", "你好"], model="turn")
    assert status == 200
    assert answer == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [3.0, 0, False]},
            {"object": "embedding", "index": 1, "embedding": [2.0, 0, False]},
        ],
        "model": "turn",
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
    }
    assert ask(client, input="abc")[1]["data"] == answer["data"][:1]


def test_what_is_asked_for(client):
    answer = ask(client, input="abc", pooling="cls", normalize=True)[1]
    assert answer["data"][0]["embedding"] == [3.0, 1, True]
    # The form that OpenAI's own client asks for.
    status, answer = ask(client, input="abc", encoding_format="base64")
    raw = base64.b64decode(answer["data"][0]["embedding"])
    assert status == 200
    assert np.frombuffer(raw, "<f4").tolist() == [3.0, 0.0, 0.0]


def test_null_is_as_good_as_nothing(client):
    """Clients send it for what they were not given; and the width of a vector."""
    names = "encoding_format", "pooling", "dimensions", "user", "normalize"
    wanted = ask(client, input="abc")
    assert ask(client, input="abc", **dict.fromkeys(names)) == wanted
    assert ask(client, input="abc", dimensions=3, user="me") == wanted


def test_numbers_have_the_digits_of_float32(served):
    """Nine at most, which give the same float32 again."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(0, 1, 500), rng.normal(0, 1e-9, 500), [0, 1]])
    values = values.astype("f")

    class Model(Reverser):
        def encode(self, texts, pooling, normalize):
            return [(values.tolist(), 3)] * len(texts)

    _, _, raw = served(Model())("POST", "/v1/embeddings", {"input": "abc"})
    embedding = json.loads(raw, parse_float=str)["data"][0]["embedding"]
    digits = [text.split("e")[0].replace(".", "").lstrip("-0") for text in embedding]
    assert max(map(len, digits)) == 9
    np.testing.assert_array_equal(np.array(embedding).astype("f"), values)


REFUSED = [
    ({}, 400, 'pass {"input": "..."}'),
    ({"input": []}, 400, 'pass {"input": "..."}'),
    ({"input": {"text": "x"}}, 400, 'pass {"input": "..."}'),
    ({"input": ["x", 7]}, 400, "input[1]: 7: pass a text"),
    ({"input": [[1, 2]]}, 400, "input[0]: [1, 2]: pass a text"),
    ({"input": ["x"] * 9}, 413, "9 rows: pass at most 8"),
    ({"input": "x" * 501}, 413, "input[0]: more than 500 characters"),
    ({"input": "\ud800"}, 400, "an unpaired surrogate"),
    ({"input": "x", "model": "other"}, 404, "'other': turn is served"),
    ({"input": "x", "model": None}, 404, "None: turn is served"),
    ({"input": "x", "pooling": "max"}, 400, "pooling: 'max': pass one of mean, cls"),
    ({"input": "x", "pooling": ["cls"]}, 400, "pooling: ['cls']"),
    ({"input": "x", "normalize": 1}, 400, "normalize: 1: pass one of false, true"),
    ({"input": "x", "normalize": "true"}, 400, "normalize: 'true'"),
    ({"input": "x", "encoding_format": "hex"}, 400, "encoding_format: 'hex'"),
    ({"input": "x", "dimensions": 2}, 400, "dimensions: 2: pass 3"),
    ({"input": "x", "dimensions": 3.0}, 400, "dimensions: 3.0: pass 3"),
    ({"input": "x", "dimensions": "3"}, 400, "dimensions: '3': pass 3"),
]


@pytest.mark.parametrize(("body", "status", "message"), REFUSED)
def test_what_is_refused(client, body, status, message):
    actual, answer = ask(client, **body)
    assert actual == status and message in answer["error"]
    assert ask(client, input="abc")[0] == 200  # it goes on
    assert client("POST", "/v1/embeddings", "{")[0] == 400
    assert client("GET", "/v1/embeddings")[0] == 405


def test_vectors_and_predictions_share_batches(served):
    """Each row gets what it has asked for, in any mixture."""
    model = Reverser()
    client = served(model, LIMITS._replace(waiting=64))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        vectors = [
            pool.submit(ask, client, input=["abc"] * n, normalize=n % 2 == 0)
            for n in range(1, 6)
        ]
        plain = [pool.submit(client.predict, {"instances": ["abc"]}) for _ in range(6)]
    for n, future in enumerate(vectors, 1):
        status, answer = future.result()
        found = [one["embedding"] for one in answer["data"]]
        assert status == 200 and found == [[3.0, 0, n % 2 == 0]] * n
    wanted = {"predictions": [{"label": "cba", "class": 1}]}
    assert [future.result() for future in plain] == [(200, wanted)] * 6


def test_requests_are_counted(client):
    ask(client, input="abc")
    ask(client, input=[])
    text = client("GET", "/metrics")[2].decode()
    assert 'bert_mgpu_requests_total{status="200"} 1.0' in text
    assert 'bert_mgpu_requests_total{status="400"} 1.0' in text


def test_kinds_are_compared_by_value():
    """So that rows of several requests go through the model together."""
    assert embeddings.VectorKind("cls", True) == embeddings.VectorKind("cls", True)
    assert len({embeddings.VectorKind("cls", n) for n in (True, False, True)}) == 2
