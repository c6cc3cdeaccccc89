"""Experiments behind the tables and pictures in the documentation."""
