"""Names of the activations of an encoder: see `model.layers.ACTIVATIONS`."""

ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "tanh", "linear")
