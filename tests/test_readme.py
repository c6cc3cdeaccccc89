"""The documents say what the code does: flags, tasks, commands, codes, links."""

import itertools
import re
import shlex

import pytest

from bert_mgpu.checkpoints import pretrained
from bert_mgpu.config import base, finetuning, parsing, preparation, pretraining
from bert_mgpu.config import domain_vocab as domain_vocab_lib
from bert_mgpu.config.convert import ConvertConfig
from bert_mgpu.core import errors
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.classification.builtin import BUILTIN
from tests.support.paths import ROOT

ENGLISH, CHINESE = "README.md", "README.zh.md"
READMES = (ENGLISH, CHINESE)
GUIDES = ("docs/guide.md", "docs/guide.zh.md")
DOCUMENTS = (
    *READMES,
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/architecture.md",
    "docs/cluster.md",
    "docs/comparison.md",
    "docs/domain_adaptation.md",
    *GUIDES,
    "docs/performance.md",
    "docs/pretraining.md",
)


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def table_rows(text):
    """The cells of every line that is a row of a table."""
    lines = (line.strip() for line in text.splitlines())
    rows = (line.strip("|").split("|") for line in lines if line.startswith("|"))
    return [tuple(cell.strip() for cell in row) for row in rows]


def commands(text):
    """The shell commands of a document, continued lines joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(shlex.split(line, comments=True)) for line in lines if line]


def default_of(field):
    """As the tables show it: the value, else what the help says in brackets."""
    if field.default is not None:
        value = field.default
        return f"`{str(value).lower() if field.type == 'bool' else value}`"
    bracket = re.search(r" \[(.*)\]$", field.metadata["help"])
    return bracket[1] if bracket else "-"


def own_flags(table):
    """Those that a script has for itself, or with another meaning."""
    shared = {field.name: field for field in base.fields(base.RunConfig)}
    flags = base.fields(table)
    return [f for f in flags if shared.get(f.name) is not f]


SCRIPTS = {
    "run_classifier_mgpu.py": finetuning.FinetuneConfig,
    "run_pretraining_mgpu.py": pretraining.PretrainConfig,
}
PREPARATION = {
    "data_prep/create_pretraining_data.py": preparation.PreparationConfig,
    "data_prep/domain_vocab.py": domain_vocab_lib.DomainVocabConfig,
}
LISTED = [
    *base.fields(base.RunConfig),
    *itertools.chain(*map(own_flags, SCRIPTS.values())),
]
MODULES = {"bert_mgpu convert": ConvertConfig}
OTHERS = PREPARATION | MODULES
EVERY_FLAG = [
    *LISTED,
    *itertools.chain(*map(base.fields, OTHERS.values())),
]


def flag_row(field):
    meaning = re.sub(r" \[.*\]$", "", field.metadata["help"])
    choices = ", ".join(f"`{choice}`" for choice in field.metadata["choices"])
    meaning += f" ({choices})" if choices else ""
    return f"| `--{field.name}` | {default_of(field)} | {meaning} |"


def flag_tables():
    shared = base.fields(base.RunConfig)
    tables = {}
    for field in shared:
        tables.setdefault(field.metadata["group"], []).append(field)
    for script, table in SCRIPTS.items():
        tables[f"In `{script}`"] = own_flags(table)
    lines = []
    for title, fields in tables.items():
        lines += [f"\n**{title}**\n", "| flag | default | meaning |", "|---|---|---|"]
        lines += map(flag_row, fields)
    return "\n".join(lines).strip()


def test_the_english_tables_of_flags_are_those_of_the_code():
    wanted = flag_tables()
    assert wanted in read(ENGLISH), f"put this into {ENGLISH}:\n{wanted}"


@pytest.mark.parametrize("script", PREPARATION)
def test_the_flags_of_data_preparation_are_listed(script):
    rows = "\n".join(map(flag_row, base.fields(PREPARATION[script])))
    assert rows in read("docs/pretraining.md"), f"put this there:\n{rows}"


def test_the_chinese_tables_have_the_same_flags_defaults_and_choices():
    _, _, section = read(CHINESE).partition("\n## 参数\n")
    section, _, _ = section.partition("\n## ")
    rows = [row for row in table_rows(section) if row[0].startswith("`--")]
    assert [row[0] for row in rows] == [f"`--{field.name}`" for field in LISTED]
    for field, (_, default, meaning) in zip(LISTED, rows, strict=True):
        if field.default is None and not re.search(r"\d", default_of(field)):
            assert "`" not in default and not re.search(r"\d", default), field.name
        else:
            assert default == default_of(field)
        for choice in field.metadata["choices"]:
            assert f"`{choice}`" in meaning, field.name


@pytest.mark.parametrize("name", READMES)
def test_what_a_resume_compares_is_listed(name):
    (line,) = re.findall(r"<!-- identity -->\n(.*?)\n\n", read(name), re.DOTALL)
    wanted = {f.name for f in LISTED if f.metadata["identity"]}
    wanted |= {"train_batch_size", "n_gpus", "gradient_accumulation_steps"}
    wanted |= {"learning_rate", "lr_scaling"}
    assert set(re.findall(r"`--(\w+)`", line)) == wanted


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_tasks_is_that_of_the_code(name):
    def columns(numbers):
        given = [number for number in numbers if number is not None]
        return ", ".join("-1" if n == -1 else str(n) for n in given)

    wanted = []
    for task in BUILTIN.values():
        files = [task.train, task.dev, *([task.test] if task.test else [])]
        labels = len(task.labels)
        place = "-" if task.name == "sentiment" else columns([task.columns.label])
        texts = columns([task.columns.text_a, task.columns.text_b])
        texts = "-" if task.name == "sentiment" else texts
        cells = (f"`{task.name}`", ", ".join(f"`{f}`" for f in files))
        wanted.append((*cells, str(labels), place, texts))
    rows = [row[:5] for row in table_rows(read(name)) if row[0].strip("`") in BUILTIN]
    assert rows == wanted


@pytest.mark.parametrize("name", READMES)
def test_the_keys_of_task_json_are_listed(name):
    keys = {row[0].strip("`") for row in table_rows(read(name))}
    assert set(task_json._KEYS) <= keys


@pytest.mark.parametrize("name", READMES)
def test_exit_codes_and_files_are_listed(name):
    first_cells = [row[0] for row in table_rows(read(name))]
    codes = {kind.exit_code for kind in errors.RunError.__subclasses__()} | {0, 1}
    assert {int(cell) for cell in first_cells if cell.isdigit()} == codes
    files = " ".join(first_cells)
    for file in (
        *(pretrained.LABELS_FILE, pretrained.CONFIG_FILE, pretrained.VOCAB_FILE),
        *(pretrained.RUN_FILE, "predict.txt", "test_results.tsv", "predictions.jsonl"),
        *("eval_results.txt", "metrics.jsonl", "tensorflow.log", "cache/"),
    ):
        assert f"`{file}`" in files, file


@pytest.mark.parametrize(("english", "chinese"), [READMES, GUIDES])
def test_both_languages_have_the_same_commands(english, chinese):
    assert commands(read(chinese)) == commands(read(english))


def test_both_guides_show_the_same_pictures_and_files():
    english, chinese = map(read, GUIDES)
    for shown in (r"!\[.*?\]\((.*?)\)", r"^```json\n(.*?)^```"):
        found = re.findall(shown, english, re.MULTILINE | re.DOTALL)
        assert len(found) >= 2
        assert found == re.findall(shown, chinese, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", GUIDES)
def test_the_guides_show_every_task_json_of_the_examples(name):
    for path in (ROOT / "examples" / "task_json").iterdir():
        assert path.read_text(encoding="utf-8") in read(name), path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_name_flags_scripts_and_targets_that_exist(name):
    known = {field.name for field in EVERY_FLAG}
    targets = re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE)
    for command in commands(read(name)):
        program, *arguments = shlex.split(command)
        if program == "make":
            assert {a for a in arguments if "=" not in a} <= {*targets}, command
        scripts = [a for a in arguments if a.endswith(".py")]
        assert all((ROOT / script).is_file() for script in scripts), command
        tables = SCRIPTS | OTHERS
        for script in tables.keys() & {*scripts}:
            place = arguments.index(script)
            run, notes = parsing.parse(arguments[place:], "", tables[script])
            assert not notes and run.given <= known, command


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_paths_lead_to_files(name):
    text = read(name)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    for link in links:
        if "://" not in link:
            assert ((ROOT / name).parent / link).exists(), link
    folders = "bert_mgpu|tests|benchmarks|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*(?:\.\w+|/))`", text):
        assert (ROOT / path).exists(), path


# In Chinese a line's end would show as a blank.
@pytest.mark.parametrize("name", [d for d in DOCUMENTS if ".zh" not in d])
def test_lines_are_at_most_88_columns_wide(name):
    fenced = False
    for number, line in enumerate(read(name).splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("|"):  # tables cannot be wrapped
            assert len(line) <= 88, f"{name}:{number}"


def test_flags_are_named_as_they_are_written():
    """Nothing but flags stands behind two dashes in the prose of the READMEs."""
    known = {field.name for field in EVERY_FLAG}
    known |= {"use_tpu", "help", "NAME"}
    for name in READMES:
        named = set(re.findall(r"`--(\w+)", read(name)))
        assert named <= known, named - known
