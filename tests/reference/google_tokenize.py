"""Google's own tokenizer (PyPI bert-tensorflow) as a service over pipes.

A line of JSON {"vocab_file": path, "lower_case": bool, "texts": [...]} is
answered by a line with the ids of each text; with "words": true, by the words
of each text before WordPiece.
In a process of its own because the package defines absl flags on import.
"""

import json
import sys

from absl import flags
from bert import tokenization

flags.FLAGS(sys.argv[:1])  # the tokenizer reads one of them
for line in sys.stdin:
    request = json.loads(line)
    tokenizer = tokenization.FullTokenizer(request["vocab_file"], request["lower_case"])
    if request.get("words"):
        answers = map(tokenizer.basic_tokenizer.tokenize, request["texts"])
    else:
        answers = (
            tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
            for text in request["texts"]
        )
    print(json.dumps(list(answers)), flush=True)
