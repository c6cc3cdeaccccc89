"""What is printed of one prediction."""

from bert_mgpu.core.task import Display
from bert_mgpu.runs import predict_stream


def test_the_next_best_texts_follow_the_best():
    drawn = predict_stream._drawn(Display("a new car", others=["a car", "car"]))
    assert drawn == "a new car\na car\ncar\n"
    assert predict_stream._drawn(Display("a new car")) == "a new car\n"


def test_values_have_bars():
    drawn = predict_stream._drawn(Display("good", bars=[("good", 0.5), ("bad", 0.05)]))
    assert drawn.splitlines() == [
        "good",
        f"good   50.0% {'█' * 15}",
        "bad     5.0% █▌",
    ]
