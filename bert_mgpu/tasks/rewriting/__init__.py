"""Rewriting of texts: tokens are kept or deleted, and new ones are written."""
