"""Everything that is to be known of a graphics card, within a given time.

    python -m benchmarks.gpu --minutes=N --out=FILE

Needs Python, TensorFlow and this clone: weights and texts are drawn. Nothing is
measured in the first process, which does not even import TensorFlow: each row has a
process of its own, so that an abort or a hang costs that row alone and each begins with
an empty card.

| file | what it is |
|---|---|
| `__main__` | the command line; starts the rows that fit |
| `rows` | the table of rows, in order of worth |
| `book` | what is done, left and worth starting; gpu.json |
| `report` | the table for people; gpu.md |
| `process` | processes for rows and parts of rows |
| `absent` | stand-ins for packages that no row calls |
| `cards` | peaks of cards by name, what nvidia-smi tells |
| `engine` | the only file that knows bert_mgpu's towers |
| `speed`, `memory`, `trace`, `exact`, `failing`, `several`, `peers` | the rows' work |
| `xplane` | kernels and gaps of a trace |
"""
