"""The additions and multiplications of a training step, counted in two ways.

Letters: L layers of width H (4 H inside), b rows of T tokens.
"""

from __future__ import annotations

from typing import Protocol


class Shape(Protocol):
    """A model and the rows of a step."""

    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def length(self) -> int: ...


def encoder_parameters(shape: Shape) -> int:
    """Parameters of the layers alone: four [H, H], two [H, 4 H], biases, two norms."""
    width = shape.hidden
    kernels = 4 * width**2 + 2 * width * 4 * width
    biases = 4 * width + 4 * width + width
    norms = 2 * 2 * width
    return shape.layers * (kernels + biases + norms)


def model_flops(shape: Shape) -> float:
    """What "model FLOPs utilisation" counts (Chowdhery et al. 2022, appendix B).

    6 for each encoder parameter and token: a multiplication and an addition in the
    forward pass, twice that in the backward pass; and 12 L T H for each token: the
    scores and the weighing of the values are 2 products of 2 T H in each layer, 4 L T H
    in the forward pass and twice that in the backward pass. Embeddings are looked up.
    """
    tokens = shape.batch * shape.length
    attention = 12 * shape.layers * shape.length * shape.hidden
    return tokens * (6.0 * encoder_parameters(shape) + attention)


def needed_flops(shape: Shape, classes: int, frozen: int | None = None) -> float:
    """Additions and multiplications of the products that a training step has to do.

    A classifier reads [CLS] alone, so the last layer needs keys and values of all
    tokens, but all else only of one token per row. For each product the backward pass
    needs two: for its weight (or one factor) and for its input (or the other).
    frozen: the embeddings and this number of layers above them are not trained. The
    backward pass ends there; the first layer above needs no gradient of its input.
    """
    tokens, width = shape.batch * shape.length, shape.hidden
    forward = backward = 0.0
    for layer in range(shape.layers):
        reads = shape.batch if layer == shape.layers - 1 else tokens
        projections = 2 * width**2 * (reads + 2 * tokens)  # query; key and value
        attention = 2 * 2 * reads * shape.length * width  # scores and context
        dense = 2 * reads * (width**2 + 2 * width * 4 * width)
        forward += projections + attention + dense
        if frozen is None or layer >= frozen:
            backward += 2 * (projections + attention + dense)
        if layer == frozen:
            backward -= projections
    head = 2 * shape.batch * width * (width + classes)  # the pooler and the classes
    return forward + backward + 3 * head
