"""The table names a module for each type: this one has "pointing_twice"."""

from tests.support.pointing.forms import TwiceFamily

FAMILY = TwiceFamily()
