"""Faults of long texts in segments."""

from __future__ import annotations

from tests.support.mutants.mutant import Mutant

_ROWS, _POOLED = "text/test_segments.py", "model/test_segments.py"
_TASK = "tasks/classification/test_long_texts.py"
_WHOLE, _SERVED = "end_to_end/test_long_texts.py", "export/test_saved_model.py"

# fmt: off
MUTANTS: list[Mutant] = [
    Mutant("a segment may be empty", "text/segments.py",
           "range(0, beyond + self.stride, self.stride)",
           "range(0, beyond + self.stride + 1, self.stride)", _ROWS),
    Mutant("a row has room for no overlap", "text/segments.py",
           "(self.most - 1) * self.stride", "(self.most - 1) * self.room", _ROWS),
    Mutant("padding is pooled", "model/segments.py",
           'parts["input_mask"][:, 0] > 0', 'parts["input_mask"][:, 0] > -1', _POOLED),
    Mutant("a row without a token has no segment", "model/segments.py",
           "is_real | is_first", "is_real", _POOLED),
    Mutant("the last tokens of a row are left out", "model/segments.py",
           "(tokens + size - 1) // size", "tokens // size", _POOLED),
    Mutant("a maximum is at least 0", "model/segments.py",
           "vectors, vectors.dtype.min)", "vectors, 0.0)", _POOLED),
    Mutant("attention sees padding", "model/segments.py",
           "tf.where(real, scores, _NO_SCORE)", "scores", _POOLED),
    Mutant("a mean over all segments", "model/segments.py",
           "shares / tf.reduce_sum(shares, 1, keepdims=True)",
           "shares / segments.shape[1]", _POOLED),
    Mutant("attention begins with a choice", "model/segments.py",
           '_QUERY: ((width,), "zeros")', '_QUERY: ((width,), "ones")', _POOLED),
    Mutant("segments share the masks of other rows", "tasks/classification/task.py",
           "_times(dropout_key, is_real.shape[1])", "dropout_key",
           f"{_TASK} masks_of_their_own"),
    Mutant("a text of several segments counts as one", "text/segments.py",
           "return self.budget + 2", "return self.length", f"{_TASK} what_is_cut"),
    Mutant("another pooling may use the weights", "tasks/classification/task.py",
           'self.facts["segment_pooling"] = segment_pooling', "pass",
           f"{_WHOLE} another_pooling"),
    Mutant("old rows serve other segments", "tasks/classification/family.py",
           '"doc_stride": config.doc_stride}', '"doc_stride": None}',
           f"{_WHOLE} cached_segments"),
    Mutant("rows of segments are packed", "evaluation/forward.py",
           "settings.packs and settings.segment is None", "settings.packs",
           f"{_WHOLE} change_no_prediction"),
    Mutant("a batch is no whole number of segments", "data/batching.py",
           "-(-lengths // segment) * segment, lengths)", "lengths, lengths)",
           "data/test_batching.py segments"),
    Mutant("short rows are padded to a segment", "data/batching.py",
           "np.where(lengths > segment,", "np.where(lengths > 0,",
           "data/test_batching.py segments"),
    Mutant("batches of segments are packed", "data/batching.py",
           '"bucket" if policy == "pack" and batching.segment else policy', "policy",
           "data/test_batching.py segments"),
    Mutant("a server's segments do not overlap", "export/saved_model.py",
           "source = number * segments.stride", "source = number * segments.room",
           _SERVED),
    Mutant("a server cuts long texts like one segment", "export/saved_model.py",
           "head_of(self._task.segments.budget, tokens)",
           "head_of(self._max_length - 2, tokens)", _SERVED),
]
# fmt: on
