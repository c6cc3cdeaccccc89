"""What the log says of a set when it has been read."""

from __future__ import annotations

from collections.abc import Iterator

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Features
from bert_mgpu.tasks.sources import Source


def lines(
    source: Source,
    features: Features,
    config: FinetuneConfig,
    *,
    kept: str,
    has_windows: bool,
) -> Iterator[str]:
    """Yields the set's size, and the lengths of its rows.

    kept: the flag that limits the set to a sample; has_windows: whether long texts are
    cut into windows, not truncated.
    """
    without = " (line 1 is the header)" if source.has_header else ""
    if source.share:
        without += f", its part by --dev_share={source.share:g}"
    if (most := getattr(config, kept)) is not None:
        without += f", a sample (--{kept}={most})"
    examples, has_more = len(features.first_rows), features.owners is not None
    rows = f" ({len(features)} rows)" if has_more else ""
    yield f"{examples} examples{rows} of {source.path}{without}"
    notes, longest = features.notes, config.length_in_words
    percentiles = ", ".join(
        f"{share} % {length}" for share, length in notes["length_percentiles"].items()
    ).replace(" % ", " % have at most ", 1)
    cut = f"{notes['truncated'] / examples:.1%} truncated at {longest}"
    if has_more and has_windows and not notes["truncated"]:
        cut = f"cut into windows of {longest}"
    yield f"tokens per row: {percentiles}; {cut}"
