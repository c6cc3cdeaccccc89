"""Speed, parity with the reference code, and one-off studies: see README.md."""
