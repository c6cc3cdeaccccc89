"""Trains google-research/bert's own graph for some steps, in its own process.

    python -m tests.reference.google_trajectory FOLDER densify|unmodified

FOLDER holds bert_config.json, model.ckpt and batches.npz (arrays [steps, B, ...],
learning rate, steps, warm-up); outputs.npz is written there. `densify` makes the
gradient of the word embeddings dense before Google's clip, which otherwise
counts words that occur twice in a batch wrong.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from bert_mgpu.checkpoints import google_read
from tests.reference import google_graph
from tests.support.paths import ROOT

SPAN_LOGITS = "span_logits"


def run(config, params, batches, schedule, how):
    """Weights and losses after the batches, as Google's code computes them.

    batches: arrays [steps, B, ...]; schedule: learning_rate, steps, warmup.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "bert_config.json").write_text(config.to_google_json())
        google_read.write(folder / "model.ckpt", params)
        np.savez(folder / "batches.npz", **batches, **schedule)
        done = subprocess.run(
            [sys.executable, "-m", "tests.reference.google_trajectory", scratch, how],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "",
                "TF_USE_LEGACY_KERAS": "1",
            },
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        with np.load(folder / "outputs.npz") as archive:
            outputs = dict(archive)
    return outputs, outputs.pop("losses")


def _main(folder, how):
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    google_graph.provide_contrib(tf)
    from bert import modeling, optimization

    batches = dict(np.load(folder / "batches.npz"))
    rate, steps, warmup = (
        batches.pop(name).item() for name in ("learning_rate", "steps", "warmup")
    )
    if how == "densify":
        gradients = tf.gradients
        tf.gradients = lambda loss, variables: [
            # Without the pooler's, on which some losses do not depend.
            None if grad is None else tf.convert_to_tensor(grad)
            for grad in gradients(loss, variables)
        ]
    # create_model hard-codes dropout 0.1 before the classifier while training.
    tf.nn.dropout = lambda values, *args, **kwargs: values
    config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
    checkpoint = str(folder / "model.ckpt")
    inputs = {
        name: tf.placeholder(value.dtype, value.shape[1:])
        for name, value in batches.items()
    }
    makers = {"masked_lm_ids": _pretraining, "start_positions": _answers}
    make = next((makers[name] for name in makers if name in inputs), _classification)
    loss = make(tf, config, inputs, folder)
    tf.train.get_or_create_global_step()
    train_op = optimization.create_optimizer(loss, rate, steps, warmup, False)
    variables = tf.trainable_variables()
    assignments, _ = modeling.get_assignment_map_from_checkpoint(variables, checkpoint)
    tf.train.init_from_checkpoint(checkpoint, assignments)
    losses = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(len(batches["input_ids"])):
            feed = {inputs[name]: value[step] for name, value in batches.items()}
            # Nothing orders its reads of the step before its increment.
            feed["global_step/read:0"] = step
            losses.append(session.run([loss, train_op], feed)[0])
        weights = session.run({v.op.name: v for v in variables})
        if make is _answers:  # of the last batch, with the weights after all steps
            weights[SPAN_LOGITS] = session.run(f"{SPAN_LOGITS}:0", feed)
    np.savez(folder / "outputs.npz", losses=np.array(losses), **weights)


def _classification(tf, config, inputs, folder):
    from bert import run_classifier

    bias = tf.train.load_variable(str(folder / "model.ckpt"), "output_bias")
    texts = (inputs[name] for name in ("input_ids", "input_mask", "segment_ids"))
    create = run_classifier.create_model
    return create(config, True, *texts, inputs["label_ids"], len(bias), False)[0]


def _answers(tf, config, inputs, folder):
    """The loss of run_squad.py's model_fn, which is a function inside of it."""
    from bert import run_squad

    texts = (inputs[name] for name in ("input_ids", "input_mask", "segment_ids"))
    logits = run_squad.create_model(config, True, *texts, False)
    tf.stack(logits, -1, name=SPAN_LOGITS)  # [B, T, 2]
    losses = []
    for own, place in zip(logits, ("start_positions", "end_positions"), strict=True):
        one_hot = tf.one_hot(inputs[place], own.shape[1], dtype=tf.float32)
        log_probs = tf.nn.log_softmax(own, axis=-1)
        losses.append(-tf.reduce_mean(tf.reduce_sum(one_hot * log_probs, -1)))
    return sum(losses) / 2


def _pretraining(tf, config, inputs, folder):
    """The two losses of run_pretraining.py's model_fn."""
    from bert import modeling, run_pretraining

    texts = (inputs[name] for name in ("input_ids", "input_mask", "segment_ids"))
    model = modeling.BertModel(config, True, *texts)
    masked, _, _ = run_pretraining.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        *(inputs[f"masked_lm_{part}"] for part in ("positions", "ids", "weights")),
    )
    following, _, _ = run_pretraining.get_next_sentence_output(
        config, model.get_pooled_output(), inputs["next_sentence_labels"]
    )
    return masked + following


if __name__ == "__main__":
    _main(pathlib.Path(sys.argv[1]), sys.argv[2])
