"""`make docs`: the tables of docs/*.md that the code decides.

Each stands between `<!-- make docs: NAME -->` and `<!-- end -->`. tests/test_readme.py
checks that they are current.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Sequence

from bert_mgpu.config import base, finetuning, preparation, pretraining
from bert_mgpu.config.convert import ConvertConfig
from bert_mgpu.config.domain_vocab import DomainVocabConfig
from bert_mgpu.config.features import FeaturesConfig
from bert_mgpu.config.learn_vocab import LearnVocabConfig
from bert_mgpu.config.rewrite_data import RewriteDataConfig
from bert_mgpu.config.serve import ServeConfig
from bert_mgpu.core import errors, run_files
from tests.support.paths import ROOT

_BLOCK = re.compile(
    r"(<!-- make docs: ([\w ]+) -->\n).*?(<!-- end -->)", re.MULTILINE | re.DOTALL
)
TRAINING = {
    "run_classifier_mgpu.py": finetuning.FinetuneConfig,
    "run_pretraining_mgpu.py": pretraining.PretrainConfig,
}
OTHERS = {
    "data_prep/create_pretraining_data.py": preparation.PreparationConfig,
    "data_prep/learn_vocab.py": LearnVocabConfig,
    "data_prep/domain_vocab.py": DomainVocabConfig,
    "data_prep/make_rewrite_data.py": RewriteDataConfig,
    "extract_features.py": FeaturesConfig,
    "bert_mgpu convert": ConvertConfig,
    "bert_mgpu serve": ServeConfig,
}
# What a resumed run compares beside the flags that the tables mark.
_PRODUCT = ("train_batch_size", "n_gpus", "gradient_accumulation_steps")
_RATE = ("learning_rate", "lr_scaling")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = (f"| {' | '.join(cells)} |" for cells in [head, *rows])
    return "\n".join([first, "|---" * len(head) + "|", *others])


def default_of(field: dataclasses.Field) -> str:
    """As the tables show it: the value, else what the help says in brackets."""
    if field.default is not None:
        value = field.default
        return f"`{str(value).lower() if field.type == 'bool' else value}`"
    bracket = re.search(r"\[(.*)\]$", field.metadata["help"])
    return bracket[1] if bracket else "-"


def own_flags(script_table: type[base.FlagTable]) -> list[dataclasses.Field]:
    """The flags that a script alone has, or has with another meaning."""
    shared = {field.name: field for field in base.fields(base.RunConfig)}
    return [f for f in base.fields(script_table) if shared.get(f.name) is not f]


def sections() -> dict[str, list[dataclasses.Field]]:
    """The flags under each heading of docs/flags.md."""
    groups: dict[str, list[dataclasses.Field]] = {}
    for field in base.fields(base.RunConfig):
        groups.setdefault(field.metadata["group"], []).append(field)
    return {
        **groups,
        **{f"`{script}`": own_flags(flags) for script, flags in TRAINING.items()},
        **{f"`{script}`": base.fields(flags) for script, flags in OTHERS.items()},
    }


def _flag_row(field: dataclasses.Field) -> tuple[str, str, str]:
    meaning = re.sub(r" ?\[.*\]$", "", field.metadata["help"])
    choices = ", ".join(f"`{choice}`" for choice in field.metadata["choices"])
    meaning += f" ({choices})" if choices else ""
    return f"`--{field.name}`", default_of(field), meaning


def _flags() -> str:
    parts = []
    for title, fields in sections().items():
        rows = table(("flag", "default", "meaning"), map(_flag_row, fields))
        parts.append(f"## {title}\n\n{rows}")
    return "\n\n".join(parts)


def identity() -> list[str]:
    """The flags that a resume compares."""
    listed = [field for fields in sections().values() for field in fields]
    names = [f.name for f in listed if f.metadata["identity"]]
    return [*dict.fromkeys(names), *_PRODUCT, *_RATE]


def _identity() -> str:
    """One row for each script; what both have stands in the first."""
    shared = [f.name for f in base.fields(base.RunConfig) if f.metadata["identity"]]
    rows = [("both scripts", shared)]
    for script, flags in TRAINING.items():
        own = [f.name for f in own_flags(flags) if f.metadata["identity"]]
        rows.append((f"`{script}`", [name for name in own if name not in shared]))
    cells = [(who, ", ".join(f"`--{n}`" for n in names)) for who, names in rows]
    product = " x ".join(f"`--{name}`" for name in _PRODUCT)
    cells += [
        ("only the product", f"{product} x processes"),
        ("only together", " with ".join(f"`--{name}`" for name in _RATE)),
    ]
    return table(("compared in", "flags"), cells)


def exit_codes() -> dict[int, str]:
    """Exit code -> what it means, from the errors that end a run."""
    meanings = {
        0: "Done; also `--help`, and a run with nothing left to do.",
        1: "A bug in bert_mgpu; a traceback is printed.",
    }
    for kind in errors.RunError.__subclasses__():
        meanings[kind.exit_code] = (inspect.getdoc(kind) or "").partition("\n")[0]
    return dict(sorted(meanings.items()))


def _exit_codes() -> str:
    rows = [(str(code), meaning) for code, meaning in exit_codes().items()]
    return table(("exit code", "meaning"), rows)


def _files() -> str:
    rows = [
        (", ".join(f"`{name}`" for name in names), meaning)
        for names, meaning in run_files.CONTENTS
    ]
    return table(("file", "what it holds"), rows)


BLOCKS = {
    "flags": _flags,
    "files": _files,
    "identity": _identity,
    "exit codes": _exit_codes,
}


def current(text: str) -> str:
    """The document with its tables as the code has them today."""

    def fill(block: re.Match) -> str:
        return f"{block[1]}\n{BLOCKS[block[2]]()}\n\n{block[3]}"

    return _BLOCK.sub(fill, text)


def names_in(text: str) -> list[str]:
    """The tables that a document asks for."""
    return [block[2] for block in _BLOCK.finditer(text)]


def main() -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (filled := current(text)) != text:
            path.write_text(filled, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: tables written anew")


if __name__ == "__main__":
    main()
