"""What is written in drafts, beside plain loops over the same model."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.model import bert, heads
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords, Scoring
from bert_mgpu.tasks.rewriting import filling
from bert_mgpu.tasks.rewriting.drafts import Draft
from bert_mgpu.tasks.rewriting.filling import DraftText, Filled, Filler, Vocabulary
from bert_mgpu.tasks.rewriting.rows import layout, slots_with_room, special_of
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.rewriting import CONFIG, LENGTH, forward_of, rewriting, weights
from tests.support.tiny import SPECIAL, VOCAB

RNG = np.random.default_rng(6)
MASK = VOCAB.index("[MASK]")
FIRST = len(SPECIAL)  # the first token that is a text
NEVER = np.arange(len(VOCAB)) < FIRST
CONTINUES = np.array([token.startswith("##") for token in VOCAB])


def log_probabilities(params, row, positions):
    """log p of all words at masks of a row: float64 [masks, V], by the heads alone."""
    ids = tf.constant([row.input_ids])
    batch = {"input_ids": ids, "input_mask": tf.ones_like(ids)}
    batch["segment_ids"] = tf.constant([row.segment_ids])
    hidden = bert.encode(params, CONFIG, batch)[-1][0]
    masked = tf.gather(hidden, positions)
    logits = heads.masked_lm_logits(params, CONFIG, masked).numpy().astype(np.float64)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


@pytest.fixture
def model(tokenizer):
    """(filler(rounds, **choice), row of a text and draft, parameters)."""
    task = rewriting(tokenizer)
    params = weights(task)
    special = special_of(tokenizer)

    def filler(rounds, **choice):
        own = rewriting(tokenizer, **choice)
        forward = forward_of(own, params, packed=bool(rounds % 2))
        vocabulary = Vocabulary(VOCAB)
        return Filler(forward, vocabulary, special, max_length=LENGTH, rounds=rounds)

    def row(text, draft, written):
        return layout(
            text.context,
            text.source,
            special,
            max_length=LENGTH,
            keeps=draft.keeps,
            counts=draft.counts,
            written=written,
        )

    return filler, row, params


def drawn(count, most=3):
    """Texts and drafts of them."""
    texts, drafts = [], []
    for _ in range(count):
        size = int(RNG.integers(0, 5))
        ids = RNG.integers(FIRST, len(VOCAB), size + 2).tolist()
        texts.append(DraftText(ids[:size], [None, [], ids[size:]][RNG.integers(3)]))
        keeps = (RNG.random(size) < 0.6).tolist()
        counts = RNG.integers(0, most + 1, size + 1).tolist()
        drafts.append(Draft(keeps, counts, 0.0))
    return texts, drafts


def test_a_slot_at_the_end_of_the_row_gets_what_fits(model):
    """Not nothing, as long as there is room for a token and the one behind it."""
    filler, _, _ = model
    source = [FIRST] * (LENGTH + 5)
    for place, room in ((LENGTH - 7, 4), (LENGTH - 5, 2), (LENGTH - 4, 1)):
        counts = [0] * (len(source) + 1)
        counts[place] = 4
        draft = Draft([True] * len(source), counts, 0.0)
        text = DraftText(source, None, has_slots=True)
        found = filler(1).fitting(text, draft)
        assert found.counts[place] == sum(found.counts) == room, place
        assert found.is_whole == (room == 4)


def drawn_slots():
    """(text, draft that writes only in slots) for many lengths around the row's."""
    draw = np.random.default_rng(3)
    for _ in range(300):
        size = int(draw.integers(0, LENGTH + 4))
        count = min(size + 1, int(draw.integers(1, 6)))
        slots = np.sort(draw.permutation(size + 1)[:count]).tolist()
        context = [None, [], [FIRST]][draw.integers(3)]
        yield DraftText([FIRST] * size, context, has_slots=True), slots


def test_each_slot_gets_one_token_before_any_gets_more(model):
    """By a plain loop: a token for each slot that fits, then more from the left."""
    filler, row, _ = model
    shared = 0
    for text, slots in drawn_slots():
        size, wanted = len(text.source), [0] * (len(text.source) + 1)

        def fits(counts, last, text=text, size=size):
            """Whether the row holds all up to the last slot, and what follows it."""
            draft = Draft([True] * size, counts, 0.0)
            made = row(text, draft, [MASK] * sum(counts))
            return len(made.written) == sum(counts) and len(made.tokens) > last

        def more(place, counts):
            return [count + (n == place) for n, count in enumerate(counts)]

        last = None
        for slot in slots:
            if not fits(more(slot, wanted), slot):
                break
            wanted, last = more(slot, wanted), slot
        room = 2 if text.context is None else 3
        found = slots_with_room(slots, size=size, room=LENGTH - room)
        assert found == [slot for slot in slots if wanted[slot]]
        asked = [4 * (count > 0) for count in wanted]
        for slot in found:
            while wanted[slot] < 4 and fits(more(slot, wanted), last):
                wanted = more(slot, wanted)
        shared += len({wanted[slot] for slot in found}) > 1
        own = filler(1).fitting(text, Draft([True] * size, asked, 0.0))
        assert own.counts == wanted and own.is_whole == (asked == wanted)
    assert shared > 30


def before(text, draft, written, place):
    """The token that comes out before a place of what is written."""
    out, used = [], 0
    for number, count in enumerate(draft.counts):
        for _ in range(count):
            if used == place:
                return out[-1] if out else None
            out.append(written[used])
            used += 1
        if number < len(text.source) and draft.keeps[number]:
            out.append(text.source[number])
    raise AssertionError


def plainly(row, params, text, draft, rounds):
    """Mask-predict as its paper says, with our rule for pieces of words."""
    size = sum(draft.counts)
    written, scores = [MASK] * size, [0.0] * size
    masked, rounds = [*range(size)], min(rounds, size)
    for number in range(1, rounds + 1):
        own = row(text, draft, written)
        logs = log_probabilities(params, own, [own.written[p] for p in masked])
        for log, place in zip(logs, masked, strict=True):
            last = before(text, draft, written, place)
            word = last is not None and VOCAB[last][-1].isascii()
            follows = word and VOCAB[last][-1].isalnum()
            log[NEVER if follows else NEVER | CONTINUES] = -np.inf
            written[place], scores[place] = int(log.argmax()), float(log.max())
        count = size * (rounds - number) // rounds
        masked = sorted(np.argsort(scores, kind="stable")[:count].tolist())
        for place in range(1, size):
            alone = before(text, draft, written, place) != written[place - 1]
            if CONTINUES[written[place]] and place - 1 in masked and not alone:
                masked = sorted({*masked, place})
        for place in masked:
            written[place] = MASK
        if not masked:
            break
    return written


@pytest.mark.parametrize("rounds", [1, 2, 4, 7])
def test_rounds_are_those_of_a_plain_loop(model, rounds):
    filler, row, params = model
    texts, drafts = drawn(25)
    found = filler(rounds).fill(texts, drafts)
    assert sum(len(own.written) for own in found) > 60
    for text, draft, own in zip(texts, drafts, found, strict=True):
        assert own.written == plainly(row, params, text, draft, rounds)
        assert own.rounds <= rounds and (own.rounds > 0) == bool(own.written)
        assert not {*own.written} & {*range(FIRST)}


def test_log_p_is_of_each_word_given_all_else(model):
    filler, row, params = model
    texts, drafts = drawn(12)
    fill = filler(2)
    found = fill.fill(texts, drafts)
    means = fill.log_probabilities(texts, found)
    for text, own, mean in zip(texts, found, means, strict=True):
        wanted = []
        for place, word in enumerate(own.written):
            shown = [MASK if n == place else w for n, w in enumerate(own.written)]
            made = row(text, own.draft, shown)
            logs = log_probabilities(params, made, [made.written[place]])
            wanted.append(logs[0, word])
        assert mean == pytest.approx(np.mean(wanted) if wanted else 0.0, abs=1e-4)


@pytest.mark.parametrize("rounds", [2, 3])  # not packed, packed
def test_words_of_the_input_alone(model, rounds):
    filler, _, _ = model
    texts, drafts = drawn(40)
    pairs = [
        (text, draft)
        for text, draft in zip(texts, drafts, strict=True)
        if any(not CONTINUES[t] for t in [*text.source, *(text.context or ())])
    ]
    texts, drafts = zip(*pairs, strict=True)
    own = filler(rounds, insert_from="input").fill(texts, drafts)
    free = filler(rounds).fill(texts, drafts)
    outside = 0
    for text, one, other in zip(texts, own, free, strict=True):
        known = {*text.source, *(text.context or ())}
        assert {*one.written} <= known
        outside += len({*other.written} - known)
    assert outside > 20


def test_a_row_without_words_of_its_own_takes_any(model):
    """Nothing is written that stands for no text."""
    filler, _, _ = model
    text, draft = DraftText([], None), Draft([], [2], 0.0)
    (own,) = filler(1, insert_from="input").fill([text], [draft])
    assert not {*own.written} & {*range(FIRST)}


def test_what_has_no_room_is_kept(model):
    """21 tokens, of 24 with [CLS] and [SEP]: one token can be written, not three."""
    filler, _, _ = model
    text = DraftText([FIRST] * 21, None)
    draft = Draft([True] * 20 + [False], [1, *[0] * 19, 3, 0], 0.0)
    own = filler(1).fitting(text, draft)
    assert own.counts == [1, *[0] * 21] and own.keeps == [True] * 21
    assert not own.is_whole


@pytest.mark.parametrize(
    ("size", "deleted", "counts", "is_made"),
    [
        (20, [19], {19: 2}, True),  # 22 tokens fit
        (21, [20], {20: 4}, False),  # one of the four does
        (21, [19, 20], {19: 2}, False),  # all that is written, not all in its place
        (20, [19], {19: 1, 20: 3}, False),  # what stands before it does
        (20, [], {20: 3}, False),  # two of the three do
        (30, [20, 21], {}, True),  # beyond the row nothing was decided
    ],
)
def test_a_replacement_is_made_whole_or_not_at_all(
    model, size, deleted, counts, is_made
):
    """At the end of a row; what stands in the middle is made."""
    filler, _, _ = model
    keeps = [n not in (3, *deleted) for n in range(size)]
    own = [counts.get(n, 0) for n in range(size + 1)]
    draft = Draft(keeps, own, 0.0)
    found = filler(1).fitting(DraftText([FIRST] * size, None), draft)
    rest = Draft([n != 3 for n in range(size)], [0] * (size + 1), 0)
    assert found == (draft if is_made else rest._replace(is_whole=False))


def test_passes_are_of_a_few_rows_at_a_time(model, monkeypatch):
    """As many as there are is the memory of a pass; all find the same."""
    filler, _, _ = model
    texts, drafts = drawn(12)
    whole = filler(2).fill(texts, drafts)
    means = filler(2).log_probabilities(texts, whole)
    monkeypatch.setattr(filling, "_ROWS", 3)
    own, seen = filler(2), []
    forward = own._forward
    own._forward = lambda rows: seen.append(len(rows)) or forward(rows)
    parts = own.fill(texts, drafts)
    assert [each.written for each in parts] == [each.written for each in whole]
    assert len(seen) > 4
    again = own.log_probabilities(texts, parts)
    assert again == pytest.approx(means, abs=1e-5) and max(seen) == 3


def test_what_vocabularies_hold():
    tokens = ["[PAD]", "[unused1]", "<S>", "[", "]", "<", "sun", "##s", "好", ",", "50"]
    words = Vocabulary(tokens)
    assert words.never.tolist() == [*[True] * 3, *[False] * 8]
    assert words.continues.tolist() == [False] * 7 + [True] + [False] * 3
    unseen = Vocabulary(["\u2028", "##\u200b", "##", "#", "##\u0301", "\u200da"])
    assert unseen.never.tolist() == [True, True, False, False, False, False]
    assert words.ends_word.tolist() == [False] * 6 + [True, True, False, False, True]


def test_a_piece_may_follow_whatever_the_tokenizer_does_not_part(tmp_path):
    """Such as the pieces of kana, of wide letters, and of scripts with vowel signs."""
    text = "これはカメラです 価格は1000円 ＮＢＡ เด็กดี 5€ हिन्दी 好き，"
    chars = sorted({*text} - {" "})
    tokens = [*SPECIAL, *chars, *(f"##{char}" for char in chars)]
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    ids = Tokenizer(path, False).ids(text)
    words = Vocabulary(tokens)
    follow = [a for a, b in itertools.pairwise(ids) if tokens[b].startswith("##")]
    assert len(follow) > 20 and words.ends_word[follow].all()
    tokens = dict(zip(tokens, words.ends_word.tolist(), strict=True))
    alone = {token[-1] for token, ends in tokens.items() if not ends}
    assert alone == {*"]価円好格，"}


def test_log_p_is_that_of_a_pseudo_perplexity(model, tokenizer):
    """Of a text that is written from nothing, where both types of token are one."""
    filler, _, params = model
    table = params["bert/embeddings/token_type_embeddings"]
    table[1] = table[0]  # theirs are rows of the first type
    text = "sun joy the rain 好 win of"
    words, ids = MaskedWords([text], tokenizer, LENGTH), tokenizer.ids(text)
    scoring = Scoring(CONFIG, LENGTH, pieces=1)
    losses = forward_of(scoring, params)(words)["losses"]
    own = Filled(Draft([], [len(ids)], 0.0), ids, rounds=1)
    (mean,) = filler(1).log_probabilities([DraftText([], None)], [own])
    assert mean == pytest.approx(-losses.mean(), abs=1e-5)
    (line,) = words.scores(losses)
    assert line["ppl"] == pytest.approx(np.exp(-mean), rel=1e-4)
