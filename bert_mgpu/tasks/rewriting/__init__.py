"""Texts rewritten: tokens are kept, deleted and written."""
