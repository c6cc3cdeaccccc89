"""Where things stand."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
DATA = SHARED / "data"
GOLDEN = ROOT / "tests" / "golden"
REFERENCE = ROOT / "tests" / "reference"
