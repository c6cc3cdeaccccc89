"""What plots say in words; how they look is seen in reports alone."""

import numpy as np
import pytest

from bert_mgpu.core.report import ScoreCurves
from bert_mgpu.evaluation import plots
from bert_mgpu.tasks.span_qa import metrics

ODDS = np.array([-1.5, 0.5, 2.0])


@pytest.fixture
def legend(monkeypatch, tmp_path):
    """legend(curves) -> the texts of a plot's legend."""
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: figures.append(figure))

    def texts(curves):
        plots.scores(tmp_path / "plot.png", curves)
        (axes,) = figures.pop().axes
        return [text.get_text() for text in axes.get_legend().get_texts()]

    return texts


@pytest.mark.parametrize(
    ("with_answer", "none", "wanted"),
    [
        ([0, 0, 1], [1, 1, 0], "best exact: 66.7 by never answering"),
        ([1, 0, 0], [0, 1, 1], "best exact: 100.0 at -1.500"),
        ([1, 1, 1], [0, 0, 0], "best exact: 100.0 at 2.000"),
    ],
)
def test_the_best_threshold_is_that_of_the_scores(legend, with_answer, none, wanted):
    """Where the scores name 0 for no threshold at all, the legend says it in words."""
    with_answer, none = np.array(with_answer, float), np.array(none, float)
    odds, sums = metrics.at_thresholds(with_answer, none, ODDS)
    curves = ScoreCurves(
        "thresholds_dev",
        "--null_score_diff_threshold",
        np.array([ODDS[0] - 1, *odds]),
        scores={"exact": 100 * np.array([none.sum(), *sums]) / 3},
        chosen=9.0,
        lowest="never answering",
    )
    score, threshold = metrics.best_threshold(with_answer, none, ODDS)
    assert legend(curves) == ["exact", wanted, "chosen: 9"]
    assert f"{100 * score:.1f}" in wanted
    place = "never answering" if threshold == 0 else f"at {threshold:.3f}"
    assert wanted.endswith(place)


def test_panels_have_legends_and_speed_begins_at_0(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: figures.append(figure))
    lines = [plots.Line("training", [1, 2], [90.0, 95.0], colour="0.6")]
    panels = {"loss": lines, "examples/s": lines}
    plots.curves(tmp_path / "plot.png", panels, from_zero=["examples/s"])
    loss, speed = figures.pop().axes
    assert all(axes.get_legend() is not None for axes in (loss, speed))
    assert speed.get_ylim()[0] == 0 and loss.get_ylim()[0] > 80


def test_lengths_are_drawn_as_they_were(monkeypatch, tmp_path):
    """Before truncation, with a line at what is read."""
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: figures.append(figure))
    plots.lengths(tmp_path / "plot.png", {"dev": range(2, 1012, 10)}, 128)
    (axes,) = figures.pop().axes
    own, read = axes.get_lines()
    assert own.get_xdata().max() == 1002 and [*own.get_ydata()] == [*range(101)]
    assert read.get_xdata()[0] == 128 and axes.get_xlim()[1] > 1002
