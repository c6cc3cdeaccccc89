"""BERT training on all GPUs of a box with one flag."""

__version__ = "0.1.0"
