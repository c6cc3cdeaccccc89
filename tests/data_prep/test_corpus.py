"""Files of text as blocks and documents, and every mistake in them."""

import functools
import gzip
import lzma
import os
import random
import types

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import corpus, prepare
from bert_mgpu.data_prep.corpus import Cut

ALL = Cut(window=3)
SPACES = [chr(c) for c in range(0x110000) if chr(c).isspace()]


def google_documents(files):
    """As google-research/bert's create_training_instances cuts documents; lines end
    at \\n, a file's end ends a document, empty ones are dropped.
    """
    actual = [[]]
    for file in files:
        for line in file.read_bytes().decode().split("\n"):
            if line.strip():
                actual[-1].append(line.strip())
            else:
                actual.append([])
        actual.append([])
    return [document for document in actual if document]


def read(tmp_path, files, cut=ALL):
    """(blocks, the documents of each without its context)."""
    folder = tmp_path / "blocks"
    folder.mkdir(exist_ok=True)
    made = list(corpus.blocks(list(map(str, files)), folder, cut))
    documents = [list(corpus.documents(block, cut.each_line)) for block in made]
    return made, documents


def sentences(documents):
    return [document.sentences for document in documents]


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n \n\t\n", []),
        (b"a\nb\n\nc\n", [["a", "b"], ["c"]]),
        (b"a\r\n\r\n\r\nb", [["a"], ["b"]]),
        (b"\n\n a \n", [["a"]]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [["a", "\ufeffb"]]),
        ("　标题　\n　\n正文\n".encode(), [["标题"], ["正文"]]),
        ("a\u2028b\x85c\rd\n".encode(), [["a\u2028b\x85c\rd"]]),
    ],
)
def test_blank_lines_part_documents(tmp_path, content, expected):
    file = write(tmp_path / "text", content)
    _, documents = read(tmp_path, [file])
    assert [s for d in documents for s in sentences(d)] == expected


@pytest.mark.parametrize("space", SPACES, ids=lambda c: f"{ord(c):x}")
def test_a_line_is_blank_if_python_strips_all_of_it(tmp_path, space):
    text = f"a\n{space}\nb{space}\n"
    expected = [["a"], ["b"]]
    _, documents = read(tmp_path, [write(tmp_path / "text", text.encode())])
    assert [s for d in documents for s in sentences(d)] == expected


def test_lines_and_places(tmp_path):
    files = [write(tmp_path / "a", b"\na\n\n\nb\nc"), write(tmp_path / "b", b"d\n")]
    (block,), (documents,) = read(tmp_path, files)
    assert [(d.path, d.lines) for d in documents] == [
        (str(files[0]), [2]),
        (str(files[0]), [5, 6]),
        (str(files[1]), [1]),
    ]
    assert (block.documents, block.lines, block.empty) == (3, 7, 2)
    assert block.size == 9 + 2  # the last line of a file gets its end


def test_each_line_may_be_a_document(tmp_path):
    file = write(tmp_path / "text", b"a\n\nb\nc\n")
    (block,), (documents,) = read(tmp_path, [file], Cut(each_line=True, window=0))
    assert sentences(documents) == [["a"], ["b"], ["c"]]
    assert [d.lines for d in documents] == [[1], [3], [4]]
    assert (block.documents, block.empty) == (3, 0)


@pytest.fixture
def many(tmp_path):
    """Files with random documents, and blank lines of all kinds."""
    rng = random.Random(2)
    files = []
    for name in "abc":
        lines = []
        for number in range(40):
            lines += [f"{name}{number}.{i} 文" for i in range(rng.randint(1, 6))]
            lines += [rng.choice(["", " ", "　", "\t"])] * rng.choice((1, 1, 2))
        files.append(write(tmp_path / name, "\n".join(lines).encode()))
    return files


@pytest.mark.parametrize("least", [1, 100, 500, 10_000])
def test_blocks_hold_all_documents_once_and_whole(tmp_path, many, least):
    cut = Cut(window=7, least=least)
    blocks, documents = read(tmp_path, many, cut)
    own = [
        d
        for b, actual in zip(blocks, documents, strict=True)
        for d in actual[b.context :]
    ]
    assert sentences(own) == google_documents(many)
    for block, actual in zip(blocks, documents, strict=True):
        assert len(actual) >= 7 and not block.is_short
        assert block.documents == len(actual) - block.context
    for block in blocks[:-1]:
        assert block.size >= least and block.context == 0
    assert [block.number for block in blocks] == list(range(len(blocks)))
    assert len(blocks) == 1 or least < 10_000
    assert sum(block.lines for block in blocks) == sum(
        len(f.read_text().split("\n")) - f.read_text().endswith("\n") for f in many
    )


def test_a_small_rest_comes_with_the_documents_before_it(tmp_path):
    text = "\n\n".join(f"d{n}" for n in range(8)).encode()
    blocks, documents = read(
        tmp_path, [write(tmp_path / "text", text)], Cut(least=1, window=3)
    )
    assert [block.context for block in blocks] == [0, 0, 1]
    assert [sentences(d) for d in documents] == [
        [["d0"], ["d1"], ["d2"]],
        [["d3"], ["d4"], ["d5"]],
        [["d5"], ["d6"], ["d7"]],
    ]
    assert documents[2][1].lines == [13]
    # As many as a block may hold: d6 and d7 are 7 bytes, d5 is 4.
    for most, context in ((11, 1), (10, 0)):
        cut = Cut(least=1, window=3, most=most)
        blocks, _ = read(tmp_path, [tmp_path / "text"], cut)
        assert blocks[-1].context == context
    # No window: the rest stands alone.
    blocks, _ = read(tmp_path, [tmp_path / "text"], Cut(least=8, window=0))
    assert [block.context for block in blocks] == [0] * len(blocks)


def test_random_sentences_come_from_ten_thousand_documents(tmp_path, monkeypatch):
    """So many are in every block of "nsp", where they fit into its bytes."""
    text = b"\n\n".join(b"%d " % n + b"x" * 400 for n in range(25_000))
    path = str(write(tmp_path / "text", text))
    cuts = []

    def no_blocks(files, folder, cut):
        cuts.append(cut)
        yield from ()

    monkeypatch.setattr(corpus, "blocks", no_blocks)
    nsp = types.SimpleNamespace(objective="nsp", each_line=False, folder=tmp_path)
    prepare._make_parts(nsp, [path], 1)
    monkeypatch.undo()
    actual = list(corpus.blocks([path], tmp_path, *cuts))
    assert len(actual) > 1
    assert all(block.documents + block.context >= 10_000 for block in actual)


def test_a_block_ends_where_it_is_too_large(tmp_path):
    text = b"12345678\n" * 100
    blocks, documents = read(
        tmp_path, [write(tmp_path / "text", text)], Cut(window=3, least=1, most=90)
    )
    assert [(b.size, b.is_short) for b in blocks] == [(90, True)] * 9 + [(90, False)]
    assert sum(len(d.sentences) for actual in documents for d in actual) == 100
    assert [actual[0].lines[0] for actual in documents] == list(range(1, 101, 10))


@pytest.mark.parametrize(("window", "sizes"), [(0, [90, 90, 20]), (3, [200])])
def test_where_documents_are_alone_one_may_be_cut_sooner(
    tmp_path, monkeypatch, window, sizes
):
    monkeypatch.setattr(corpus, "_MOST_ALONE", 90)
    text = write(tmp_path / "text", b"123456789\n" * 20)
    blocks, _ = read(tmp_path, [text], Cut(window=window))
    assert [block.size for block in blocks] == sizes


def test_blocks_end_between_files_too(tmp_path):
    """A document a file, without a blank line anywhere."""
    files = [write(tmp_path / f"{n}", f"{n}\n{n}".encode()) for n in range(9)]
    blocks, documents = read(tmp_path, files, Cut(window=3, least=1))
    assert [block.documents for block in blocks] == [3, 3, 3]
    assert [d.path for d in documents[1]] == [str(file) for file in files[3:6]]


def test_a_full_disk_is_not_the_fault_of_the_text(tmp_path, monkeypatch):
    file = write(tmp_path / "text", b"a\n")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(corpus._Spool, "add", full)
    with pytest.raises(OSError, match="No space left"):
        read(tmp_path, [file])


def test_blocks_are_named_by_all_that_is_in_them(tmp_path):
    one = write(tmp_path / "one", b"a\nb\n")
    a, b = write(tmp_path / "a", b"a\n"), write(tmp_path / "b", b"b\n")
    other = write(tmp_path / "other", b"a\nc\n")
    digests = [
        read(tmp_path, files)[0][0].digest for files in ([one], [a, b], [other], [one])
    ]
    assert digests[0] == digests[3] and len(set(digests)) == 3


def test_no_more_than_a_line_is_held(tmp_path, monkeypatch):
    """A block's text goes to its file while it is read."""
    file = write(tmp_path / "text", b"line\n\n" * 50_000)
    sizes = []
    add = corpus._Spool.add

    def spy(spool, line, each_line):
        add(spool, line, each_line)
        if spool.lines % 10_000 == 0:
            sizes.append(spool.path.stat().st_size)

    monkeypatch.setattr(corpus._Spool, "add", spy)
    read(tmp_path, [file])
    assert len(sizes) == 10 and (np.diff(sizes) > 0).all()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_packed_files(tmp_path, pack, request):
    text = "".join(f"{n} 行\n\n" for n in range(5000)).encode()
    suffix = request.node.callspec.id
    plain = write(tmp_path / "text", text)
    packed = write(tmp_path / f"text.{suffix}", pack(text))
    (block,), (documents,) = read(tmp_path, [packed])
    assert sentences(documents) == google_documents([plain])
    assert block.position == packed.stat().st_size


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "none"])
def test_damaged_packed_files_are_named(tmp_path, pack, damage, request):
    rng = random.Random(1)
    text = "".join(f"{rng.random()}\n" for _ in range(3000)).encode()
    packed = bytearray(pack(text))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    elif damage == "flipped":
        packed[len(packed) // 2] ^= 255
    else:
        packed = bytearray(text)
    suffix = request.node.callspec.id.split("-")[-1]
    file = write(tmp_path / f"text.{suffix}", bytes(packed))
    with pytest.raises(UserError, match=rf"text\.{suffix}: damaged or cut after line"):
        read(tmp_path, [file])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n\n中文\n".encode("gb18030"), ":3: not UTF-8 .* iconv -f GB18030 -t UTF-8"),
        ("a\n中\n".encode("utf-16"), ":1: not UTF-8 .* iconv -f UTF-16"),
        ("a\n中文\n".encode("gb18030"), ":2: .* iconv -f GB18030 -t UTF-8$"),
        (gzip.compress(b"a\n"), ":1: packed by gzip: give the file a name"),
        (b"PK\x03\x04 a\n", ":1: a zip archive"),
        (b"one\r\rtwo\r", ":1: its lines end in CR alone"),
        (b"a\n\nb\0c\n", ":3: NUL byte at column 2"),
        (b"a\n" + b"x" * 1_000_001, ":2: more than 1000000 characters: .* split it"),
        (b"a\n" + b"x" * 9_000_000, ":2: more than 1000000 characters"),
    ],
    ids=[
        *("gb18030", "utf-16", "no flag", "gzip", "zip", "old mac"),
        *("nul", "long", "endless"),
    ],
)
def test_what_is_no_text_is_named_with_its_line(tmp_path, content, message):
    file = write(tmp_path / "text", content)
    with pytest.raises(UserError, match=f"{file}{message}") as caught:
        read(tmp_path, [file])
    assert "\n" not in str(caught.value)


def test_a_line_of_a_million_wide_characters_is_text(tmp_path):
    file = write(tmp_path / "text", ("文" * 1_000_000 + "\r\n").encode())
    _, (documents,) = read(tmp_path, [file])
    assert [len(s) for d in documents for s in d.sentences] == [1_000_000]


def test_names_globs_and_a_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root" / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "[x].txt", "root/a.txt", "root/c.txt"):
        write(tmp_path / name, b"x\n")
    actual = functools.partial(corpus.find_files, pipe=False)
    assert actual("b.txt,a.txt") == ["b.txt", "a.txt"]
    assert actual("?.txt, b.txt") == ["a.txt", "b.txt", "b.txt"]
    assert actual("[x].txt") == ["[x].txt"]
    assert actual("root/*") == ["root/a.txt", "root/c.txt"]
    write(tmp_path / "root/sub/d.txt", b"x\n")
    below = ["root/a.txt", "root/c.txt", "root/sub/d.txt"]
    assert actual("root/**/*.txt") == below
    assert actual("a.txt,c.txt", "root") == ["a.txt", "root/c.txt"]
    assert actual(f"{tmp_path}/b.txt", "root") == [f"{tmp_path}/b.txt"]
    for names, root, message in (
        ("d.txt", None, "d.txt: no such file: .* holds"),
        ("d.txt", "root", "root/d.txt: no such file: root holds c.txt, a.txt"),
        ("*.tsv", None, r"--input_file: \*.tsv matches no file"),
        ("root", None, "root: is a directory"),
        (" , ", None, "pass the name of a text file"),
    ):
        with pytest.raises(UserError, match=message):
            actual(names, root)


def test_a_pipe_is_taken_where_the_text_is_read_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    name = str(tmp_path / "pipe")
    assert corpus.find_files(name, pipe=True) == [name]
    with pytest.raises(
        UserError, match="a pipe or a device, which cannot be read twice"
    ):
        corpus.find_files(name, pipe=False)
