"""The counts of a data preparation, and the report on them."""

from __future__ import annotations

import collections

from bert_mgpu.core.units import size_text
from bert_mgpu.data_prep import instances
from bert_mgpu.data_prep.duplicates import Distinct
from bert_mgpu.data_prep.parts import Part, Share
from bert_mgpu.data_prep.tokenized import Preparation, tools
from bert_mgpu.text.masking import too_few


class PreparationTotals:
    """The counts of all blocks together."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.longest = 0
        self.malformed: str | None = None
        self.distinct_lines, self.distinct_documents = Distinct(), Distinct()

    def add(self, share: Share, part: Part) -> None:
        self.counts += part.counts
        block = share.block
        if share.number == 0:
            self.counts += collections.Counter(
                bytes=block.size, lines=block.lines, empty=block.empty
            )
        self.longest = max(self.longest, part.longest)
        self.malformed = self.malformed or part.malformed
        self.distinct_lines.add(part.line_hashes)
        self.distinct_documents.add(part.document_hashes)

    def report(self, preparation: Preparation, seconds: float) -> list[str]:
        """The report as lines; requires at least one row."""
        counts, rows = self.counts, self.counts["rows"]
        mean = counts["places"] / rows
        unknown = counts["unknown"] / max(1, counts["tokens"])
        lines = [
            f"text: {size_text(counts['bytes'])}, {counts['lines']} lines, longest"
            f" {self.longest} characters",
            f"sentences: {counts['sentences']}, {_duplicates(self.distinct_lines)}",
        ]
        if not preparation.each_line:
            lines.append(
                f"documents: {counts['documents']}, {counts['empty']} empty ones left"
                f" out, {_duplicates(self.distinct_documents)}"
            )
        lines += [
            f"tokens: {counts['tokens']}, {unknown:.2%} of them [UNK]",
            f"rows: {rows} of {mean:.1f} tokens on average,"
            f" {1 - mean / preparation.max_seq_length:.1%} padding at"
            f" {preparation.max_seq_length}, {rows / seconds:.0f} rows/s",
        ]
        if preparation.masking:
            masked = counts["masked"] / counts["places"]
            lines.append(f"masked: {masked:.2%} of the rows' tokens")
        if preparation.objective in instances.LABELLED:
            lines.append(f"next_sentence_labels: {counts['label_1'] / rows:.1%} are 1")
        if counts["malformed"]:
            lines.append(
                f"left out: {counts['malformed']} lines with fewer than 4 columns, the"
                f" first is {self.malformed}"
            )
        if counts["cut"]:
            lost = counts["lost"] / preparation.repeats / max(1, counts["tokens"])
            lines.append(
                f"cut at --max_seq_length={preparation.max_seq_length}:"
                f" {counts['cut'] // preparation.repeats} rows lose {lost:.1%} of all"
                " tokens"
            )
            if preparation.objective == "mlm":
                lines.append("  --objective=documents would keep them")
        if counts["skipped"]:
            why = (
                "too short to be masked, or full of [UNK]"
                if preparation.objective == "infill"
                else "in which no word fits --max_predictions_per_seq or"
                " --masked_lm_prob"
            )
            lines.append(f"left out: {counts['skipped']} rows {why}")
        masking = tools(preparation).masking
        if masking and (note := too_few(masking, preparation.max_seq_length)):
            lines.append(note)
        return lines + self._notes(preparation.objective)

    def _notes(self, objective: str) -> list[str]:
        """Notes for text that does not suit the objective."""
        if objective != "nsp":
            return []
        if self.counts["documents"] == 1:
            return ["note: one document: put blank lines between documents"]
        if self.counts["sentences"] == self.counts["documents"]:
            return [
                "note: every document has one sentence, so there are no next sentences:"
                " better pass --objective=mlm"
            ]
        return []


def _duplicates(distinct: Distinct) -> str:
    share = f"{distinct.duplicate_share:.2%} duplicates"
    return (
        share if distinct.is_exact else f"{share} (of a sample of {distinct.counted})"
    )
