"""Measures all that the project wants to know about a GPU, within a given time.

    python -m benchmarks.gpu --minutes=N --out=FILE

Needs Python, TensorFlow and this clone: weights and texts are random. Nothing is
measured in the first process, which does not even import TensorFlow: each row has a
process of its own, so that an abort or a hang costs that row alone and each begins with
an empty card.

| file | what it is |
|---|---|
| `__main__` | the command line; starts the rows that fit in the time |
| `rows` | the table of rows, most important first |
| `book` | what is done, what is left and what to start next; gpu.json |
| `report` | the table for people; gpu.md |
| `process` | processes for rows and parts of rows |
| `absent` | stand-ins for packages that no row calls |
| `cards` | peaks of cards by name, what nvidia-smi reports |
| `engine` | the only file that uses bert_mgpu's towers |
| `speed`, `memory`, `trace`, `exact`, `failing`, `several`, `peers` | the rows' work |
| `xplane` | kernels and gaps of a trace |
"""
