"""Signs that a model learnt nothing, and what to try."""

import pytest

from bert_mgpu.evaluation.learning import (
    JudgedScore,
    Training,
    comparison,
    findings,
    findings_from_loss,
    findings_of_pretraining,
)

GOOD = Training(
    "adamw_google",
    5e-5,
    1e-4,
    500,
    losses=[0.7, 0.6, 0.4, 0.3, 0.2],
    from_weights=True,
    trains_encoder=True,
)
FLAT = [0.70, 0.69, 0.70, 0.68]


def scores(value, *, metric="eval_accuracy", interval=None, baseline=0.8):
    score = JudgedScore(
        metric,
        value,
        metric == "eval_loss",
        interval,
        constant={'always "good"': 0.51},
        baseline={"naive Bayes": baseline},
    )
    return [score]


def test_of_a_good_model_nothing_is_said():
    assert findings(scores(0.9), GOOD) == []
    assert findings(scores(0.9), None) == []
    sure = scores(0.9, interval=(0.88, 0.92))
    assert findings(sure, GOOD._replace(losses=FLAT)) == []  # went on


@pytest.mark.parametrize(
    ("metric", "interval", "words"),
    [
        ("f1", (0.85, 0.95), 'better than always "good" (0.5100) and naive Bayes (0.8'),
        (
            "f1",
            (0.7, 0.9),
            'than always "good" (0.5100); not clearly better than naive',
        ),
        (
            "f1",
            (0.4, 0.9),
            'not clearly better than always "good" (0.5100) and naive B',
        ),
        ("f1", (0.4, 0.6), '"good" (0.5100); worse than naive Bayes (0.8000)'),
        ("eval_loss", (0.4, 0.6), '"good" (0.5100); better than naive Bayes (0.8000)'),
        ("eval_loss", (0.6, 0.7), 'worse than always "good" (0.5100); better than nai'),
        ("f1", None, 'for comparison: always "good" (0.5100) and naive Bayes (0.8000)'),
    ],
)
def test_a_score_is_compared_with_what_needs_no_model(metric, interval, words):
    (score,) = scores(0.9, metric=metric, interval=interval)
    assert words in comparison(score)
    assert comparison(score._replace(constant={}, baseline={})) == ""


def test_what_it_does_not_beat_is_named():
    first, advice = findings(scores(0.74), GOOD)
    assert first == "eval_accuracy 0.7400 is not better than naive Bayes (0.8000)"
    assert findings(scores(0.77), GOOD) == []  # without an interval: may be as good
    assert findings(scores(29.9, baseline=30.0), GOOD) == []  # in per cent
    assert findings(scores(20.0, baseline=30.0), GOOD) != []
    assert "(0.5100)" in findings(scores(0.51, baseline=0.4), GOOD)[0]
    first, advice = findings(scores(0.5), GOOD)
    assert 'than always "good" (0.5100) or naive Bayes (0.8000)' in first
    assert advice.startswith("to try: ")


def test_a_baseline_alone_does_not_excuse_a_loss_that_stays():
    """That of naive Bayes may be worse than chance: 1.2 with two labels."""
    (score,) = scores(0.693, metric="eval_loss", baseline=1.2)
    unknown, flat = score._replace(constant={}), GOOD._replace(losses=FLAT)
    assert findings([unknown], GOOD) == []
    line, _ = findings([unknown], flat)
    assert line.startswith("the training loss did not fall: 0.7000")
    assert findings([unknown._replace(interval=(0.6, 0.7))], flat) == []


def test_the_rate_that_diverged_is_not_advised():
    """Two rollbacks have taken 5e-5, a usual rate, down to a quarter."""
    own = GOOD._replace(rate=1.25e-5, rollbacks=2)
    *_, advice = findings(scores(0.5), own)
    assert "a lower --learning_rate than 5e-05, at which it diverged" in advice
    assert "--learning_rate=" not in advice and "adamw" not in advice


@pytest.mark.parametrize("off", [-1e-16, 0.0, 1e-16])
def test_the_score_of_one_answer_is_its_own_whatever_the_rounding(off):
    """All rows as one class have an interval without width, at that answer's score."""
    value = 0.51 + off
    (score,) = scores(value, metric="f1", interval=(value, value), baseline=0.51)
    line, *_ = findings([score], GOOD)
    assert line == 'f1 0.5100 is not better than always "good" (0.5100)'
    assert comparison(score) == (
        'not clearly better than always "good" (0.5100) and naive Bayes (0.5100)'
    )


def test_few_rows_may_be_luck():
    """0.545 of 400 rows, where one answer for all has 0.51."""
    line, *_ = findings(scores(0.545, interval=(0.496, 0.593), baseline=0.52), GOOD)
    assert line == (
        "eval_accuracy 0.5450 (95 %: 0.4960 to 0.5930) may be no better than always"
        ' "good" (0.5100)'
    )
    assert findings(scores(0.545, interval=(0.5101, 0.593), baseline=0.52), GOOD) == []
    # The interval may hold the baseline: that learns too.
    assert findings(scores(0.81, interval=(0.79, 0.83)), GOOD) == []
    assert findings(scores(0.79, interval=(0.77, 0.81)), GOOD) == []
    line, *_ = findings(scores(0.77, interval=(0.75, 0.79)), GOOD)
    assert line.endswith("0.7700 is not better than naive Bayes (0.8000)")
    lower = scores(0.4, metric="eval_loss", interval=(0.35, 0.45), baseline=0.3)
    assert "not better than naive Bayes" in findings(lower, GOOD)[0]
    lower = scores(0.4, metric="eval_loss", interval=(0.29, 0.5), baseline=0.3)
    assert findings(lower, GOOD) == []


@pytest.mark.parametrize("value", [0.0, 0.004])
def test_a_baseline_that_is_never_right_is_no_floor(value):
    """As of entities: naive Bayes has none of these families' answers."""
    own = JudgedScore("f1", value, False, (0.0, 0.01), {}, {"a dictionary": 0.0})
    flat = findings([own], GOOD._replace(losses=FLAT))
    assert any("did not fall" in line for line in flat)
    falls = findings([own], GOOD)
    said = "f1 is 0: nothing that the model finds is right"
    assert (falls[:1] == [said]) == (value == 0)


def test_one_answer_is_told_first():
    said = "99 of 100 rows are predicted as good, but only 50 are"
    assert findings(scores(0.9), GOOD, one_answer=said)[0] == said


def test_any_score_may_show_that_it_learnt():
    """Of 1,000 rows 950 are "good": who finds the rest is wrong more often."""
    low = scores(0.94, baseline=0.951, interval=(0.93, 0.95))
    high = scores(0.78, metric="macro_f1", baseline=0.49, interval=(0.7, 0.8))
    assert findings([*low, *high], GOOD) == []
    for found in (scores(0.78, interval=(0.5, 0.8)), scores(0.5), scores(0.7)):
        lines = findings([*low, *found], GOOD)
        assert lines[0].startswith("eval_accuracy 0.9400 is not better than naive")
    # One without an interval, above its floor by luck, shows nothing.
    lucky = scores(0.52, metric="auc", baseline=0.4)
    assert findings([*lucky, *low], GOOD)[0] == lines[0]
    assert "did not fall" in findings(lucky, GOOD._replace(losses=FLAT))[0]
    assert findings(lucky, GOOD) == []
    # Naive Bayes learns nothing only if no score says otherwise.
    bad = scores(0.5, baseline=0.515)
    assert "learns nothing either" in findings([*bad, *bad], GOOD)[-1]
    assert "learns nothing" not in findings([*bad, *scores(0.5)], GOOD)[-1]


def test_a_loss_that_does_not_fall():
    lines = findings(scores(0.5), GOOD._replace(losses=FLAT))
    assert "did not fall: 0.7000 at the start, 0.6800 at the end" in lines[1]
    few = GOOD._replace(losses=FLAT[:3])
    assert not any("did not fall" in line for line in findings(scores(0.5), few))
    # Without anything to beat it is all that there is.
    alone = [JudgedScore("eval_loss", 1.0, True, None, {}, {})]
    assert len(findings(alone, GOOD._replace(losses=FLAT))) == 2
    assert findings(alone, GOOD) == []


def test_a_loss_far_below_chance_need_not_fall():
    """That of weights that have learnt before; a doubt about a score still counts."""
    low = GOOD._replace(losses=[0.05] * 8)
    assert findings(scores(0.95), low, chance=0.693) == []
    for score, chance in ((0.95, None), (0.95, 0.05), (0.5, 0.693)):
        lines = findings(scores(score), low, chance=chance)
        assert any("did not fall: 0.0500" in line for line in lines)


def test_a_training_that_nothing_has_evaluated():
    assert (
        findings_from_loss(GOOD)
        == []
        == findings_from_loss(GOOD._replace(losses=FLAT[:3]))
    )
    line, advice = findings_from_loss(GOOD._replace(losses=FLAT, steps=12))
    assert "did not fall: 0.7000 at the start, 0.6800 at the end" in line
    assert advice.startswith("to try: --do_eval=true, which shows whether it learnt; ")
    assert "12 steps are few" in advice


def test_a_pretraining_that_learns_nothing():
    """Its loss stays where equal probabilities have it, or rises."""
    flat = GOOD._replace(losses=FLAT)
    line, advice = findings_of_pretraining(flat, 0.7)
    assert line.endswith("end; equal probabilities for all words would have 0.7000")
    assert advice.startswith("to try: ")
    assert findings_of_pretraining(GOOD, 0.7) == []
    assert findings_of_pretraining(flat, 9.9) == []  # it has learnt before
    assert findings_of_pretraining(GOOD._replace(losses=[1.0, 1.1, 1.2, 1.3]), 9.9)


def test_what_goes_on_from_a_trained_model_is_not_told_off():
    """Its loss is low from the start, and stays so; one that rises is told."""
    low = GOOD._replace(losses=[0.05, 0.05, 0.052, 0.051])
    assert findings_from_loss(low, 0.69) == []
    assert "did not fall" in findings_from_loss(low)[0]
    rises = low._replace(losses=[0.05, 0.1, 0.1, 0.2])
    assert "did not fall" in findings_from_loss(rises, 0.69)[0]
    assert "did not fall" in findings_from_loss(low._replace(losses=FLAT), 0.69)[0]


def test_what_to_try_in_a_pretraining():
    """It may begin at random, and counts steps."""
    flat = GOOD._replace(losses=FLAT, steps=50, pretrains=True)
    _, advice = findings_of_pretraining(flat, 0.7)
    assert "a higher --num_train_steps, or a smaller batch: 50 steps are" in advice
    new = flat._replace(from_weights=False, rate=1e-3)
    _, advice = findings_of_pretraining(new, 0.7)
    assert "--init_checkpoint" not in advice and "epochs" not in advice
    assert "a lower --learning_rate than 0.001: --learning_rate=1e-4" in advice
    _, advice = findings_of_pretraining(new._replace(rate=3e-4), 0.7)
    assert "a lower" not in advice


@pytest.mark.parametrize("lower", [False, True])
def test_rows_of_one_label_say_nothing_of_a_model(lower):
    """One answer for all is right: a perfect model is not better."""
    right = float(not lower)
    alone = JudgedScore("x", right, lower, None, {"one": right}, {})
    (line,) = findings([alone], GOOD)
    assert line.startswith("all rows of dev have the same label or value: their")
    assert findings([alone._replace(value=0.4)], None) == [line]
    told = findings([alone], GOOD._replace(losses=FLAT))
    assert told[0] == line and "did not fall" in told[1]


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"from_weights": False}, "pass --init_checkpoint"),
        ({"trains_encoder": False}, "freeze fewer parts"),
        (
            {"longest_step": 7e-4},
            "--optimizer=adamw, whose first steps are smaller, and --learning_rate=5e-",
        ),
        (
            {"rate": 2e-4, "longest_step": 2e-4},
            "a lower --learning_rate than 0.0002: --learning_rate=5e-5, in another",
        ),
        ({"rate": 1e-6, "longest_step": 1e-6}, "a higher --learning_rate than 1e-06: "),
        ({"steps": 12}, "more epochs, or a smaller batch: 12 steps are few"),
        ({}, "--optimizer=adamw --learning_rate=5e-5"),
        (
            {"optimizer": "adamw", "longest_step": None, "rate": 1e-4},
            "; --learning_rate=5e-5, in another",
        ),
    ],
)
def test_what_to_try(changed, advice):
    lines = findings(scores(0.5), GOOD._replace(**changed))
    assert advice in lines[-1]
    asks = "do --vocab_file and --do_lower_case match" in lines[-1]
    assert asks == changed.get("from_weights", True)
    advised = lines[-1].count("--learning_rate=") + lines[-1].count("--optimizer=adamw")
    assert advised <= 2 and (not changed.get("trains_encoder", True)) <= (not advised)


def test_a_scaled_rate_is_advised_as_its_flag_takes_it():
    """--lr_scaling=linear on four towers: 5e-5 is 2e-4."""
    own = GOOD._replace(optimizer="adamw", longest_step=None, rate=2e-4, rate_factor=4)
    advice = "a lower --learning_rate than 5e-05: --learning_rate=1.25e-05, in another"
    assert advice in findings(scores(0.5), own)[-1]
    diverged = findings(scores(0.5), own._replace(rate=1e-4, rollbacks=1))[-1]
    assert "a lower --learning_rate than 5e-05, at which it diverged" in diverged


@pytest.mark.parametrize("optimizer", ["lamb", "adafactor", "lion"])
def test_other_optimizers_have_other_rates(optimizer):
    own = GOOD._replace(optimizer=optimizer, longest_step=None, rate=2e-3)
    assert "rate" not in findings(scores(0.5), own)[-1]


def test_what_was_done_is_not_advised():
    lines = findings(scores(0.5), GOOD._replace(optimizer="adamw", longest_step=None))
    assert lines[-1] == "to try: do --vocab_file and --do_lower_case match the weights?"
    head = GOOD._replace(trains_encoder=False, rate=1e-3)
    assert "--learning_rate" not in findings(scores(0.5), head)[-1]


def test_what_was_not_trained_is_told_to_be():
    untrained = GOOD._replace(steps=0, losses=[])
    lines = findings(scores(0.5), untrained)
    assert lines[1:] == ["to try: a training: --max_train_steps=0 takes no step"]
    assert findings_from_loss(untrained) == []


def test_labels_that_nothing_can_learn():
    """Shuffled ones, or columns that were swapped: no rate will help."""
    lines = findings(scores(0.5, baseline=0.515), GOOD._replace(steps=12))
    assert "naive Bayes learns nothing either" in lines[-1]
    assert "epochs" not in lines[-1]


def test_a_loss_is_better_when_it_is_lower():
    low = JudgedScore("eval_loss", 0.3, True, None, {}, {"x": 0.5})
    assert findings([low], GOOD) == []
    lines = findings([low._replace(value=0.6)], GOOD)
    assert "eval_loss 0.6000 is not better" in lines[0]
