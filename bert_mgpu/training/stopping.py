"""Stop signals: what a training does after SIGTERM or Ctrl-C, in all processes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from bert_mgpu.core import errors
from bert_mgpu.core.errors import DivergedStep, Interrupted, Preempted, RunError
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.training.results import StepResult

_RESUME = "run the same command again to resume from the newest checkpoint"


class StopVotes:
    """The decision to stop, after a signal to this process or to any other.

    Processes learn of each other's signals from the sums of a step, which they read
    after launching the next one: so all of them decide after the same step.
    """

    def __init__(self, group: Collective, stop: list[type[RunError]]):
        self._group, self._stop = group, stop
        self._last: StepResult | None = None

    @property
    def own(self) -> bool:
        return bool(self._stop)

    def after(self, result: StepResult) -> bool:
        """Whether the run stops after this step."""
        if self._group.size == 1:
            return self.own
        before, self._last = self._last, result
        return before is not None and before.stops > 0


@contextlib.contextmanager
def stop_signals(group: Collective) -> Iterator[list[type[RunError]]]:
    """A list that gets the error of a stop signal; the loop checks it between steps.

    A second signal ends a single process at once; a launcher may send several.
    """
    once = group.size == 1
    requests: list[type[RunError]] = []
    meanings = {signal.SIGTERM: Preempted, signal.SIGINT: Interrupted}

    def on_signal(number: int, frame: Any) -> None:
        if requests and once:
            raise requests[0](f"at once: {_RESUME}")
        if not requests:
            requests.append(meanings[signal.Signals(number)])

    before = {number: signal.signal(number, on_signal) for number in meanings}
    try:
        yield requests
    except DivergedStep as error:  # in all processes, which then may roll back
        if _any_asked(group, bool(requests)):
            raise [*requests, Preempted][0](_RESUME) from error
        raise
    except Exception as error:  # after which one may restart in smaller parts
        if requests and once and errors.out_of_memory(error):
            raise requests[0](_RESUME) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _any_asked(group: Collective, own: bool) -> bool:
    found = collective.all_gather_json(group, {"stop": own})
    return any(each["stop"] for each in found)
