"""The table names a module for each type: this one has "pointing_tokens"."""

from tests.support.pointing.forms import TokenFamily

FAMILY = TokenFamily()
