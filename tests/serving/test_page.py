"""The page in a real browser: at three widths, by keyboard, in light and dark."""

import socket
import threading
import time

import pytest

from bert_mgpu.serving.app import make_app
from bert_mgpu.serving.bodies import Limits
from bert_mgpu.serving.server import make_server
from tests.support import browser

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        browser.program() is None,
        reason="the page is looked at in Chromium, which is not here",
    ),
]

HOSTILE = "<img src=x onerror=alert(1)> <script>document.title = 'x'</script>"
LIMITS = Limits(body=1 << 20, rows=8, characters=500, waiting=12, seconds=5)


class Named:
    """A model that names what it was asked."""

    name, batch = "reviews", 4
    spans, edits, others, titles = (), (), (), ("text", "second")

    def __init__(self, inputs, report):
        self.inputs, self.report, self.asked = inputs, report, []

    def example(self, *texts):
        return texts

    def answer(self, examples):
        raise AssertionError("the page asks for explanations")

    def explain(self, example):
        self.asked.append(example)
        return {
            "text": example[0],
            "bars": [[example[0], 0.75], ["a" * 80, 0.25]],
            "spans": self.spans,
            "edits": self.edits,
            "others": self.others,
            "tokens": 3,
            "of": 7,
            "cut": example[0],
            "unknown": [example[0], "好"],
        }


@pytest.fixture
def served(tmp_path):
    """served(inputs) -> (model, address of its server)."""
    running = []

    def start(inputs=("text_a",)):
        report = tmp_path / "report.html"
        report.write_text("<!doctype html><style>p {color: red}</style><p>scores</p>")
        model = Named(inputs, report)
        listener = socket.create_server(("127.0.0.1", 0))
        server = make_server(make_app(model, LIMITS, ["127.0.0.1"]), LIMITS.seconds)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return model, f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(60)


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_a_text_is_answered(served, tmp_path, width, dark):
    """By keyboard alone; nothing is wider than the window, nothing is refused."""
    model, address = served()
    with browser.Page(tmp_path / "profile", width, dark=dark) as page:
        page.open(address)
        page.wait("document.title === 'reviews · bert_mgpu'")
        page.wait("!document.querySelector('#latest').hidden")
        page.type(HOSTILE)  # the text has the focus from the start
        page.press("Tab", 9)
        assert page.evaluate("document.activeElement.id") == "send"
        page.press("Enter", 13)
        page.wait("document.querySelector('.label') !== null")
        text = page.evaluate("document.querySelector('#answer').textContent")
        assert HOSTILE in text and "75.0 %" in text and "3 of 7 tokens" in text
        assert "好" in text
        bars = "[...document.querySelectorAll('progress')].map((bar) => bar.value)"
        assert page.evaluate(bars) == [0.75, 0.25]
        wide = "document.documentElement.scrollWidth <= window.innerWidth"
        assert page.evaluate(wide)
        sides = (
            "document.querySelector('#latest').getBoundingClientRect().top <"
            " document.querySelector('#send').getBoundingClientRect().bottom"
        )
        assert page.evaluate(sides) == (width == 1280)  # two columns
        assert page.evaluate("document.querySelector('#answer img') === null")
        assert page.evaluate("document.title") == "reviews · bert_mgpu"
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(255, 255, 255)") != dark
        assert page.errors == []
    assert model.asked == [(HOSTILE,)]


def test_entities_are_marked_in_the_text(served, tmp_path):
    """Whatever the text holds: a thumb is one character here, two to a browser."""
    model, address = served()
    model.spans = [[2, 5, "<b>"], [6, 10, "LOC"]]
    with browser.Page(tmp_path / "profile", 768) as page:
        page.open(address)
        page.wait("document.title === 'reviews · bert_mgpu'")
        page.type("👍 sun <i>x")
        page.press("Enter", 13, 2)
        page.wait("document.querySelector('mark') !== null")
        marks = "[...document.querySelectorAll('mark')].map((m) => m.textContent)"
        assert page.evaluate(marks) == ["sun<b>", "<i>xLOC"]
        text = "document.querySelector('.marked').textContent"
        assert page.evaluate(text) == "👍 sun<b> <i>xLOC"
        assert page.errors == []


def test_an_answer_is_marked_in_its_context(served, tmp_path):
    model, address = served(("text_a", "text_b"))
    model.titles, model.spans = ("question", "context"), [[4, 7, ""]]
    with browser.Page(tmp_path / "profile", 768) as page:
        page.open(address)
        page.wait("!document.querySelector('#second').hidden")
        labels = "[...document.querySelectorAll('label')].map((m) => m.textContent)"
        assert page.evaluate(labels) == ["Question", "Context"]
        page.type("who?")
        page.press("Tab", 9)
        page.type("the sun x")
        page.press("Enter", 13, 2)
        page.wait("document.querySelector('mark') !== null")
        assert page.evaluate("document.querySelector('mark').textContent") == "sun"
        text = "document.querySelector('.marked').textContent"
        assert page.evaluate(text) == "the sun x"
        assert page.evaluate("document.querySelector('.label').textContent") == "who?"
        assert page.errors == []
    assert model.asked == [("who?", "the sun x")]


@pytest.mark.parametrize("width", [360, 768])
def test_edits_are_marked_in_the_text(served, tmp_path, width):
    """Whatever is deleted and written; the other rewritings stand below."""
    model, address = served()
    model.edits = [[2, 5, "sun", "<b>moon"], [6, 6, "", "!"], [6, 8, "<i", ""]]
    model.others = ["👍 sky", "<u>"]
    with browser.Page(tmp_path / "profile", width) as page:
        page.open(address)
        page.wait("document.title === 'reviews · bert_mgpu'")
        page.type("👍 sun <i>x")
        page.press("Enter", 13, 2)
        page.wait("document.querySelector('ins') !== null")
        for tag, wanted in (("del", ["sun", "<i"]), ("ins", ["<b>moon", "!"])):
            found = f"[...document.querySelectorAll('{tag}')].map((m) => m.textContent)"
            assert page.evaluate(found) == wanted
        text = "document.querySelector('.marked').textContent"
        assert page.evaluate(text) == "👍 sun<b>moon !<i>x"
        others = "[...document.querySelectorAll('.other')].map((m) => m.textContent)"
        assert page.evaluate(others) == ["👍 sky", "<u>"]
        assert page.evaluate(
            "document.documentElement.scrollWidth <= window.innerWidth"
        )
        assert page.errors == []


def test_a_pair(served, tmp_path):
    model, address = served(("text_a", "text_b"))
    with browser.Page(tmp_path / "profile", 768) as page:
        page.open(address)
        page.wait("!document.querySelector('#second').hidden")
        page.type("first")
        page.press("Tab", 9)
        page.type("second")
        page.press("Enter", 13, 2)  # Ctrl
        page.wait("document.querySelector('.label') !== null")
    assert model.asked == [("first", "second")]


def test_what_is_refused_is_said(served, tmp_path):
    _, address = served()
    with browser.Page(tmp_path / "profile", 768) as page:
        page.open(address)
        page.wait("document.title === 'reviews · bert_mgpu'")
        page.press("Enter", 13, 2)
        page.wait("document.querySelector('.error') !== null")
        said = page.evaluate("document.querySelector('.error').textContent")
        assert said in ("Type a text first.", "请先输入文本。")
        page.evaluate("document.querySelector('.error').remove()")
        page.type("x" * 501)
        page.press("Enter", 13, 2)
        page.wait("document.querySelector('.error') !== null")
        said = page.evaluate("document.querySelector('.error').textContent")
        assert "more than 500 characters" in said
