"""The activations that an encoder may have: see `model.layers.ACTIVATIONS`."""

ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "tanh", "linear")
