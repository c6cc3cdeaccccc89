"""Experiments behind a table or a picture of the documents."""
