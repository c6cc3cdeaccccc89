"""Equality with google-research/bert and transformers: `make parity`."""
