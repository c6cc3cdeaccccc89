"""Where things stand."""

import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
DATA = SHARED / "data"
# Makers write elsewhere where they are only checked.
GOLDEN = pathlib.Path(os.environ.get("TEST_GOLDEN", ROOT / "tests" / "golden"))
REFERENCE = ROOT / "tests" / "reference"
EXAMPLES = ROOT / "examples"
