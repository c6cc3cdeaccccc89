"""What a user reads: facts in two columns, whole words, colours on a terminal alone."""

import io
import json
import types

import pytest

from bert_mgpu.core import log, terminal


class Terminal(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def screen(monkeypatch):
    """screen(columns) -> what is written from then on, to a terminal or a file."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def start(columns=80, is_terminal=False):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal(is_terminal)
        monkeypatch.setattr(log.sys, "stderr", stream)
        log.say("")
        stream.truncate(stream.seek(0))
        return stream

    return start


def test_a_label_commands_no_terminal(screen):
    stream = screen()
    log.say("always x\x1b[31m")
    log.say("two\nlines\tof \u202etext")
    log.fact("baseline", "\x07")
    shown = "always x\\u001b[31m\ntwo\nlines\tof \\u202etext\n      baseline  \\u0007\n"
    assert stream.getvalue() == shown


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("gbk", "好 😀", "好 \\ud83d\\ude00"),
        ("shift_jis", "¥d", "\\u00a5d"),  # that it would write as a backslash
        ("euc_kr", "가\u3164", "가\\u3164"),  # that it writes, and cannot read
        ("utf-8", "好 😀 \udc80", "好 😀 \\udc80"),
    ],
)
def test_characters_that_standard_output_lacks_are_escaped(
    monkeypatch, encoding, text, written
):
    """As JSON has them: each line of a stream is JSON, in any encoding."""
    raw = io.BytesIO()
    monkeypatch.setattr(log.sys, "stdout", io.TextIOWrapper(raw, encoding))
    assert log.write_stdout(f'"{text}"\n')
    shown = raw.getvalue().decode(encoding)
    assert shown == f'"{written}"\n' and json.loads(shown) == text


def test_standard_output_may_be_any_file(monkeypatch):
    stream = types.SimpleNamespace(written=[], flush=lambda: None)
    stream.write = stream.written.append
    monkeypatch.setattr(log.sys, "stdout", stream)
    assert log.write_stdout("好") and stream.written == ["好"]


def test_facts_stand_in_two_columns(screen):
    stream = screen(41)
    log.fact("model", "6 layers x 384, 12 heads, gelu_erf (a/config.json)")
    log.fact("train", "10 examples")
    log.fact("train", "3 of them empty")
    log.fact("", "and more")
    log.fact("dev", "x")
    assert stream.getvalue().splitlines() == [
        "         model  6 layers x 384, 12 heads,",
        "                gelu_erf (a/config.json)",
        "         train  10 examples",
        "                3 of them empty",
        "                and more",
        "           dev  x",
    ]


def test_every_warning_has_its_name(screen):
    stream = screen()
    for name in ("train", "train", ""):
        log.fact(name, "WARNING: few rows")
    log.fact("train", "x")
    assert stream.getvalue().splitlines() == [
        *["       WARNING  few rows"] * 3,
        "         train  x",
    ]


def test_what_is_said_between_facts_parts_them(screen):
    stream = screen()
    log.fact("train", "a")
    log.say("step 1")
    log.fact("train", "b")
    assert stream.getvalue() == "         train  a\nstep 1\n         train  b\n"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_word_is_broken(screen, columns):
    stream = screen(columns)
    path = "/a/folder/" + "x" * 90 + "/train.tsv"
    text = f"  step 1/3  loss 0.5000 {path}: 标签 体育 娱乐 --max_seq_length=128 " * 4
    log.say(text.rstrip())
    lines = stream.getvalue().splitlines()
    assert [word for line in lines for word in line.split()] == text.split()
    assert lines[0].startswith("  step 1/3  loss 0.5000")  # blanks as they are
    assert all(line.startswith("    ") for line in lines[1:])
    for line in lines:
        assert terminal.width(line) <= columns or path in line.split()[-1]
    short = [line for line in lines if path not in line]
    assert columns < 100 or max(map(terminal.width, lines)) > columns - 30, short


def test_tables_stay_as_they_are(screen):
    stream = screen(20)
    table = "label        precision  recall\nbusiness       0.90    0.80"
    log.say(table)
    assert stream.getvalue() == f"{table}\n"


def test_colours_are_for_terminals_that_show_them(screen, monkeypatch):
    def warned(is_terminal):
        stream = screen(80, is_terminal)
        log.fact("", "WARNING: x")
        return stream.getvalue()

    assert warned(True) == "\033[33m       WARNING  x\033[0m\n"
    assert warned(False) == "       WARNING  x\n"
    monkeypatch.setenv("TERM", "dumb")
    assert warned(True) == "       WARNING  x\n"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert warned(True) == "       WARNING  x\n"
    monkeypatch.setenv("NO_COLOR", "")  # as https://no-color.org says
    assert warned(True).startswith("\033[33m")


@pytest.mark.parametrize(("asked", "columns"), [("60", 60), ("", 80), ("wide", 80)])
def test_columns_where_there_is_no_terminal(monkeypatch, asked, columns):
    monkeypatch.setenv("COLUMNS", asked)
    assert terminal.columns_of(io.StringIO()) == columns


def test_horovodrun_writes_before_each_line(screen, monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "0")
    stream = screen(60)
    log.say("a word " * 30)
    lines = stream.getvalue().splitlines()
    assert " ".join(" ".join(lines).split()) == " ".join(["a word"] * 30)
    assert max(len(f"[0]<stderr>:{line}") for line in lines) in range(50, 61)


def test_a_bar_knows_its_end(screen):
    stream = screen(80, is_terminal=True)
    assert list(log.progress_bar(iter("abc"), "dev", "batches", total=3)) == [*"abc"]
    assert "| 0/3 [" in stream.getvalue() and " batches/s" in stream.getvalue()
    stream = screen(80)
    assert list(log.progress_bar(iter("abc"), "dev", "batches", total=3)) == [*"abc"]
    assert not stream.getvalue()


def test_nothing_is_said_to_other_programs(screen):
    stream = screen()
    with log.quiet():
        log.say("x")
        log.fact("y", "z")
    assert stream.getvalue() == ""
