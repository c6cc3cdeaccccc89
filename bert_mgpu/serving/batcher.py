"""Puts waiting rows of many requests into shared batches, which a thread answers."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# A client may leave at any moment, even between a check and the call after it.
_UNLESS_CANCELLED = contextlib.suppress(concurrent.futures.InvalidStateError)
Answer = Callable[[Sequence[Any]], Sequence[Any]]  # rows -> an answer for each


class QueueFull(Exception):
    """Too many rows are waiting."""


class _Job:
    """The rows of a request. `future` gets the answers, in the order of the rows."""

    def __init__(self, rows: Sequence[Any]):
        self.rows = rows
        self.future: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
        self.taken = 0  # rows that are or were in a batch
        self._answers: list[Any] = []

    def add(self, answers: Sequence[Any]) -> None:
        self._answers += answers
        if len(self._answers) == len(self.rows):
            with _UNLESS_CANCELLED:
                self.future.set_result(self._answers)

    def fail(self, error: BaseException) -> None:
        with _UNLESS_CANCELLED:
            self.future.set_exception(error)


class _Share(NamedTuple):
    """The rows of a job that are in one batch."""

    job: _Job
    rows: Sequence[Any]


class Batcher:
    """Answers waiting rows in batches, the oldest first."""

    def __init__(self, answer: Answer, batch: int, most_waiting: int):
        """answer: called from one thread; batch, most_waiting: numbers of rows."""
        self._answer, self._batch, self._most = answer, batch, most_waiting
        self._jobs: collections.deque[_Job] = collections.deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of rows that are in no batch yet."""
        return self._waiting

    def submit(self, rows: Sequence[Any]) -> concurrent.futures.Future[list[Any]]:
        """A future for the answers; if it is cancelled, rows still waiting are dropped.

        Raises QueueFull.
        """
        job = _Job(rows)
        with self._changed:
            if self._closed or self._waiting + len(rows) > self._most:
                raise QueueFull
            self._jobs.append(job)
            self._waiting += len(rows)
            self._changed.notify()
        job.future.add_done_callback(lambda future: self._leave_out(job))
        return job.future

    def _leave_out(self, job: _Job) -> None:
        """Drops the waiting rows of a job that was cancelled or has failed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= len(job.rows) - job.taken

    def close(self) -> None:
        """Answers the waiting rows, then ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _take(self) -> list[_Share]:
        """The next batch; empty if the batcher is closed and no rows are waiting."""
        shares: list[_Share] = []
        free = self._batch
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            while self._jobs and free:
                job = self._jobs[0]
                left = len(job.rows) - job.taken
                count = min(left, free)
                shares.append(_Share(job, job.rows[job.taken : job.taken + count]))
                job.taken += count
                self._waiting -= count
                free -= count
                if count == left:
                    self._jobs.popleft()
        return shares

    def _run(self) -> None:
        while shares := self._take():
            self._answer_shares(shares)

    def _answer_shares(self, shares: Sequence[_Share]) -> None:
        """Answers a batch; if that fails, each job alone, to fail only faulty ones."""
        rows = [row for share in shares for row in share.rows]
        try:
            answers = self._answer(rows)
        except BaseException as error:
            if len(shares) == 1:
                shares[0].job.fail(error)
                return
            for share in shares:
                self._answer_shares([share])
            return
        start = 0
        for share in shares:
            share.job.add(answers[start : start + len(share.rows)])
            start += len(share.rows)
