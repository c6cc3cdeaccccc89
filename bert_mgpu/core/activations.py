"""Names of the encoder's activation functions: see `model.layers.ACTIVATIONS`."""

ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "tanh", "linear")
