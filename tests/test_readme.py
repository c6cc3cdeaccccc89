"""The documents say what the code does: tables, commands, links, both languages."""

import ast
import re
import shlex

import pytest

from bert_mgpu.cli import main
from bert_mgpu.config import base, finetuning, parsing, task_data
from bert_mgpu.core import run_files
from bert_mgpu.tasks import task_keys
from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.rewriting import files as rewriting_files
from bert_mgpu.tasks.span_qa import files as qa_files
from bert_mgpu.tasks.tagging import files as tagging_files
from tests.support import docs
from tests.support.paths import ROOT

FOLDERS = ("", "docs", "examples", "benchmarks")
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for folder in FOLDERS
    for path in (ROOT / folder).glob("*.md")
)
READMES = ("README.md", "README.zh.md")
TWINS = [
    (name, f"{name.removesuffix('.md')}.zh.md")
    for name in DOCUMENTS
    if f"{name.removesuffix('.md')}.zh.md" in DOCUMENTS
]
# Written for those who work on the project, who share one language.
ENGLISH_ONLY = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
ENGLISH_ONLY += ("benchmarks/README.md", "docs/architecture.md")
# These name flags of other programs too.
OTHER_PROGRAMS = ("docs/cluster.md", "docs/performance.md", "docs/architecture.md")
CLASSIFICATION = ("docs/classification.md", "docs/classification.zh.md")
NO_TWIN = "There is no Chinese version of this page yet."
MOST_LINES = 220  # of a README
# Files that a run does not leave in output_dir, though the code names them.
ELSEWHERE = {"config.json", "tokenizer_config.json", "tokenizer.json", "task.json"}
ELSEWHERE |= {"special_tokens_map.json", "model.safetensors.index.json"}
ELSEWHERE_FOLDERS = ("cli/doctor", "export", "serving")
ELSEWHERE_FOLDERS += ("tasks/classification/builtin.py", "tasks/span_qa/files.py")
ELSEWHERE_FOLDERS += ("data_prep/",)
ELSEWHERE |= {"direct_url.json"}  # pip's


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def section(text, heading):
    """What stands below a heading."""
    level = heading.partition(" ")[0]
    below = text.partition(f"\n{heading}\n")[2]
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(text):
    return re.findall(r"^(#+) (.*)$", without_code(text), re.MULTILINE)


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table_rows(text):
    """The cells of every line that is a row of a table."""
    lines = (line.strip() for line in text.splitlines())
    rows = (line.strip("|").split("|") for line in lines if line.startswith("|"))
    return [tuple(cell.strip() for cell in row) for row in rows]


def commands(text):
    """The shell commands of a document, continued lines joined."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    words = (shlex.split(line, comments=True) for line in lines if line)
    return [shlex.join(each).replace("'|'", "|") for each in words]


@pytest.mark.parametrize(
    "name", [name for name in DOCUMENTS if docs.names_in(read(name))]
)
def test_tables_are_those_of_the_code(name):
    text = read(name)
    assert docs.current(text) == text, f"{name}: run make docs"


def test_every_table_that_the_code_decides_is_in_a_document():
    named = [block for name in DOCUMENTS for block in docs.names_in(read(name))]
    assert sorted(named) == sorted(docs.BLOCKS)


def test_every_file_that_a_run_leaves_is_listed():
    listed = " ".join(name for names, _ in run_files.CONTENTS for name in names)
    listed += run_files.BEST_EVALUATION  # in best/
    package = ROOT / "bert_mgpu"
    for path in package.rglob("*.py"):
        place = str(path.relative_to(package))
        if place.startswith(ELSEWHERE_FOLDERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = str(node.value) if isinstance(node, ast.Constant) else ""
            if re.fullmatch(r"\w[\w-]*\.(txt|json|jsonl|html|tsv|log)", value):
                assert value in listed or value in ELSEWHERE, f"{place}: {value}"


def test_the_chinese_tables_have_the_same_flags_defaults_and_choices():
    """Their words are kept by hand, so this names the row that is missing or old."""
    parts = re.split(r"^## ", read("docs/flags.zh.md"), flags=re.MULTILINE)[1:]
    wanted = docs.sections()
    assert len(parts) == len(wanted)
    for part, (title, fields) in zip(parts, wanted.items(), strict=True):
        place = f"docs/flags.zh.md: {part.splitlines()[0]}"
        assert not title.startswith("`") or place.endswith(title)
        rows = {row[0]: row for row in table_rows(part) if row[0].startswith("`--")}
        names = [f"`--{field.name}`" for field in fields]
        missing = {*names} - {*rows}
        assert not missing, f"{place}: no row for {', '.join(missing)}"
        assert [*rows] == names, f"{place}: the rows are not those of docs/flags.md"
        for field in fields:
            _, default, meaning = rows[f"`--{field.name}`"]
            if field.default is None and not re.search(r"\d", docs.default_of(field)):
                assert not re.search(r"[`\d]", default), f"{place}: {field.name}"
            else:
                assert default == docs.default_of(field), f"{place}: {field.name}"
            for choice in field.metadata["choices"]:
                assert f"`{choice}`" in meaning, f"{place}: {field.name}"


def test_tables_of_flags_are_whole():
    """A blank line would end a table, and the rows below would be text."""
    for name in ("docs/flags.md", "docs/flags.zh.md"):
        assert not re.search(r"\|\n\n+\| `--", read(name)), name


def test_the_chinese_page_of_files_and_codes_has_the_same_rows():
    text = read("docs/output_dir.zh.md")
    rows = [row[0] for row in table_rows(text)]
    listed = {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    wanted = {name for names, _ in run_files.CONTENTS for name in names}
    assert wanted <= listed, wanted - listed
    assert [int(cell) for cell in rows if cell.isdigit()] == [*docs.exit_codes()]
    compared = section(text, "## 停止与续训")
    cells = "".join(row[1] for row in table_rows(compared) if len(row) == 2)
    assert {*re.findall(r"`--(\w+)`", cells)} == {*docs.identity()}


def test_the_comparison_counts_its_rows():
    """Each group has two tables with the same rows and the same answers for us."""
    groups = read("docs/comparison.md").partition("\n## ")[0]
    answers = [
        row[1] for row in table_rows(groups) if row[1] in ("yes", "partly", "no")
    ]
    assert answers and all(answers.count(one) % 2 == 0 for one in {*answers})
    yes, partly, no = (answers.count(one) // 2 for one in ("yes", "partly", "no"))
    said = f"Of {len(answers) // 2} rows {yes} are yes, {partly} partly and {no} no."
    assert said in " ".join(groups.split())


@pytest.mark.parametrize("name", READMES)
def test_the_readmes_are_short_and_have_all_exit_codes(name):
    text = read(name)
    assert len(text.splitlines()) <= MOST_LINES
    (codes,) = [row for row in table_rows(text) if row[0] == "0"]
    assert [int(code) for code in codes] == [*docs.exit_codes()]


@pytest.mark.parametrize("name", CLASSIFICATION)
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


@pytest.mark.parametrize("end", ["", ".zh"])
def test_the_keys_of_task_json_are_listed(end):
    """Those of every type on one page, those of a type alone on its own."""
    pages = {
        page: {row[0].strip("`") for row in table_rows(read(f"docs/{page}{end}.md"))}
        for page in ("classification", "tagging", "questions", "rewriting")
    }
    own = {"tagging": {*tagging_files.KEYS}, "questions": {*qa_files.KEYS}}
    own["rewriting"] = {*rewriting_files.KEYS}
    others = {*task_keys.KEYS} - {key for keys in own.values() for key in keys}
    assert others <= pages["classification"]
    for page, keys in own.items():
        assert keys <= pages[page], page


def test_each_page_has_a_chinese_twin_or_says_that_it_has_none():
    twins = {name for pair in TWINS for name in pair}
    for name in {*DOCUMENTS} - twins - {*ENGLISH_ONLY}:
        assert NO_TWIN in read(name).splitlines()[:4], name
    assert set(READMES) <= twins


@pytest.mark.parametrize(("english", "chinese"), TWINS)
def test_both_languages_say_the_same_as_far_as_a_test_can_tell(english, chinese):
    texts = [read(english), read(chinese)]
    for text, other in zip(texts, (chinese, english), strict=True):
        assert f"]({other.split('/')[-1]})" in text.splitlines()[2]
    assert commands(texts[0]) == commands(texts[1])
    for shown in (r"!\[.*?\]\((.*?)\)", r"^```json\n(.*?)^```"):
        actual = [re.findall(shown, text, re.MULTILINE | re.DOTALL) for text in texts]
        assert actual[0] == actual[1]
    levels = [[level for level, _ in headings(text)] for text in texts]
    assert levels[0] == levels[1]


@pytest.mark.parametrize("name", ["docs/guide.md", "docs/guide.zh.md"])
def test_the_guides_show_every_task_json_of_the_examples(name):
    for path in (ROOT / "examples" / "task_json").iterdir():
        assert path.read_text(encoding="utf-8") in read(name), path


def flags_of(arguments):
    """The table of flags and the arguments behind a command's name; None: no table."""
    tables = {**docs.TRAINING, **docs.OTHERS}
    installed = {name.split("/")[-1].removesuffix(".py"): name for name in tables}
    for place, word in enumerate(arguments):
        table = tables.get(installed.get(word, word))
        if table:
            return table, arguments[place:]
    if arguments[:1] == ["bert_mgpu"]:
        assert arguments[1] in {**main.COMMANDS, **main.SCRIPTS}
        if arguments[1:3] == ["doctor", "data"]:
            return task_data.TaskDataConfig, arguments[2:]
        if arguments[1] in ("convert", "serve"):
            rest = [part for part in arguments[2:] if part.startswith("-")]
            return docs.OTHERS[f"bert_mgpu {arguments[1]}"], ["", *rest]
        if arguments[1] in ("train", "predict"):
            return finetuning.FinetuneConfig, arguments[1:]
    return None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_name_flags_scripts_and_targets_that_exist(name):
    targets = re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE)
    for command in commands(read(name)):
        arguments = shlex.split(command)
        if arguments[0] == "make":
            wanted = {a for a in arguments[1:] if "=" not in a}
            assert wanted <= {*targets}, command
        scripts = [a for a in arguments if a.endswith(".py")]
        assert all((ROOT / script).is_file() for script in scripts), command
        for part in command.split(" | "):
            if actual := flags_of(shlex.split(part)):
                table, given = actual
                _, notes = parsing.parse(given, "", table)
                assert not notes, command


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_paths_lead_to_files(name):
    text = read(name)
    folder = (ROOT / name).parent
    for link, target in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" in link:
            continue
        path = folder / link if link else ROOT / name
        assert path.exists(), link
        if target:
            anchors = {anchor(title) for _, title in headings(path.read_text("utf-8"))}
            assert target in anchors, f"{link}#{target}"
    folders = "bert_mgpu|tests|benchmarks|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*(?:\.\w+|/))`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", DOCUMENTS)
def test_blocks_of_code_are_whole(name):
    """As they are not when a program that wraps text has taken them for paragraphs."""
    fences = re.findall(r"^```(.*)$", read(name), re.MULTILINE)
    assert {*fences[::2]} <= {"", "sh", "python", "json", "yaml"}
    assert {*fences[1::2]} <= {""} and len(fences) % 2 == 0
    for kind, code in re.findall(r"^```(\w+)\n(.*?)^```", read(name), re.M | re.S):
        assert kind != "sh" or not re.search(r"\\ +\S", code), code
        if kind == "python":
            ast.parse(code)


# In Chinese a line's end would show as a blank.
@pytest.mark.parametrize("name", [d for d in DOCUMENTS if ".zh" not in d])
def test_lines_are_at_most_88_columns_wide(name):
    fenced = False
    for number, line in enumerate(read(name).splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("|"):  # tables cannot be wrapped
            assert len(line) <= 88, f"{name}:{number}"


@pytest.mark.parametrize(
    "name", [n for n in DOCUMENTS if n not in (*ENGLISH_ONLY, *OTHER_PROGRAMS)]
)
def test_flags_are_named_as_they_are_written(name):
    """Nothing but flags of a documented script stands behind two dashes."""
    known = {f.name for fields in docs.sections().values() for f in fields}
    known |= {field.name for field in base.fields(task_data.TaskDataConfig)}
    known |= {"use_tpu", "use_one_hot_embeddings", "help", "NAME", "selftest"}
    named = set(re.findall(r"`--(\w+)", read(name)))
    assert named <= known, named - known
