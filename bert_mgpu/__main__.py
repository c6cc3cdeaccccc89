"""`python -m bert_mgpu COMMAND`: see cli/main.py."""

import sys

from bert_mgpu.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
