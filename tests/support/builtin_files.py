"""Files of the built-in tasks, byte by byte."""

import pathlib

ID8 = "\t".join(f"c{i}" for i in range(8))  # mnli's columns before the texts


def write_file(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_bytes(text.encode())
    return path
