"""What processes know of each other's ends: two of them in one, over real sockets."""

import collections
import json
import os
import signal
import socket
import threading
import time

import pytest

from bert_mgpu.core import files
from bert_mgpu.core.errors import PeerLost, UserError
from bert_mgpu.distributed import launcher, peers, rendezvous, watchdog
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.peers import ExitFile, ExitReport
from bert_mgpu.distributed.watchdog import Watchdog


class Job:
    """Its store, its folder, and how its processes ended."""

    def __init__(self, folder):
        self.folder, self.store, self.codes, self.killed = folder, {}, [], []
        self.watches = []

    def watch(self, rank, patience=60.0):
        self.watches.append(
            Watchdog(ProcessRank(rank, 2, rank, local_size=2), self.folder, patience)
        )
        return self.watches[-1]

    def start(self, patience=60.0, begin=True):
        """The watches of two processes, connected."""
        both = [self.watch(rank, patience) for rank in (0, 1)]
        for one in both:
            one.open()
        until(lambda: both[0]._peers)
        if begin:
            both[0].begin()
            until(lambda: both[1]._file.begun)
        return both

    @property
    def exit_json(self):
        return json.loads((self.folder / "exit.json").read_text())


def until(condition):
    while not condition():
        time.sleep(0.01)


class Clock:
    """Time that passes when a test says so; it knows the threads that beat."""

    def __init__(self, job):
        self.now, self._job, self._beats = 0.0, job, collections.Counter()

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        time.sleep(seconds)
        if seconds == watchdog._BEAT:
            self._beats[threading.get_ident()] += 1

    def settle(self):
        """Waits until all processes have sent and checked states anew, or one ended."""
        until(lambda: len(self._beats) == 2)
        after = {one: count + 3 for one, count in self._beats.items()}
        until(
            lambda: (
                self._job.codes
                or all(self._beats[one] >= count for one, count in after.items())
            )
        )

    def pass_by(self, seconds):
        self.settle()
        self.now += seconds


@pytest.fixture
def clock(job, monkeypatch):
    clock = Clock(job)
    monkeypatch.setattr(watchdog, "time", clock)
    return clock


@pytest.fixture
def job(tmp_path, monkeypatch):
    job = Job(tmp_path)

    def leave(code):
        job.codes.append(code)
        threading.Event().wait()  # its thread does nothing more

    def put(scope, key, value):
        job.store[key] = value

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(launcher, "put", put)
    monkeypatch.setattr(launcher, "get", lambda _, key, timeout=10: job.store.get(key))
    monkeypatch.setattr(launcher, "store_address", lambda: ("127.0.0.1", 9))
    monkeypatch.setattr(launcher, "kill", job.killed.append)
    monkeypatch.setattr(watchdog, "_BEAT", 0.02)
    monkeypatch.setattr(watchdog, "_GRACE", 0.05)
    monkeypatch.setattr(peers, "_HEAD_START", 0.05)
    yield job
    for one in job.watches:  # none of their threads may end the tests
        one._closing = True
        one._first_end = ExitReport(0, 0, 0, reason="the test is over")
        one._ending.acquire(blocking=False)
        one._has_ended.set()


def test_an_error_of_one_ends_the_other_and_is_written_down(job):
    first, second = job.start()
    second.working(7)
    until(lambda: first._states.get(1, (0,))[0] == 7)
    error = UserError("no such file:\n  x.tsv")
    assert second.end(error) is error
    until(lambda: job.codes == [5])
    reason = "no such file: x.tsv"
    assert job.exit_json == {"code": 2, "rank": 1, "step": 7, "reason": reason}


def test_the_first_end_is_what_is_told(job, monkeypatch):
    monkeypatch.setattr(watchdog, "_GRACE", 5)  # so that it ends by its own error
    first, second = job.start()
    second.end(UserError("mine"))
    until(lambda: first._has_ended.is_set())
    ended = first.end(UserError("also mine"))  # the same mistake, met by both
    assert ended.exit_code == 2 and job.exit_json["rank"] == 1


def test_a_broken_connection_is_a_lost_process(job):
    _, second = job.start()
    second._peers[0].close()
    until(lambda: 5 in job.codes)
    assert job.exit_json["code"] == 5 and "connection broke" in job.exit_json["reason"]
    assert job.killed == []


def test_a_silent_process_is_lost_and_killed(job, monkeypatch):
    monkeypatch.setattr(peers, "SILENCE", 1)
    first = job.watch(0)
    first.open()
    silent = rendezvous.connect(
        ProcessRank(1, 2, 1, local_size=2)
    )  # and says nothing any more
    until(lambda: job.codes == [5])
    assert job.exit_json["rank"] == 1 and "no sign of life" in job.exit_json["reason"]
    assert job.killed == [[*launcher.process_location()]]
    silent.close()


@pytest.mark.parametrize(("ahead", "behind"), [(0, 1), (1, 0)])
def test_who_is_behind_is_named(job, clock, ahead, behind):
    both = job.start()
    both[ahead].working(4)
    both[behind].working(3)
    clock.pass_by(61)
    until(lambda: len(job.codes) == 2)
    assert (job.exit_json["rank"], job.exit_json["step"]) == (behind, 4)
    assert "furthest behind: see --peer_timeout" in job.exit_json["reason"]


def test_where_all_hang_none_is_named_and_an_elastic_job_ends(job, clock, monkeypatch):
    """Whoever hangs inside of a step is as far as those that wait for it."""
    both = job.start()
    rejoined = []
    monkeypatch.setattr(launcher, "is_elastic", lambda: True)
    monkeypatch.setattr(launcher, "rejoin", rejoined.append)
    for one in both:
        one.keep_towers(2)
        one.working(3)
    clock.pass_by(61)
    until(lambda: len(job.codes) == 2)
    assert job.codes == [5, 5] and not rejoined
    assert job.exit_json["rank"] is None and "none is behind" in job.exit_json["reason"]
    assert str(ExitReport(**job.exit_json)).startswith(
        "all processes hang at step 3: no process"
    )


def test_batches_count_from_the_last_step_on(job, clock):
    """One that has evaluated more before it trains is no further than others."""
    both = job.start()
    for _ in range(3):
        both[1].working()
    for one in both:
        one.working(8)
    both[0].working()
    clock.pass_by(61)
    until(lambda: len(job.codes) == 2)
    assert job.exit_json["rank"] == 1


def test_nobody_hangs_while_one_pauses_or_works(job, clock):
    both = job.start()
    for one in both:
        one.working(3)
    both[1].pausing()
    clock.pass_by(200)
    clock.settle()
    for _ in range(4):
        both[1].working()
        clock.pass_by(59)
        clock.settle()
    assert not job.codes and not (job.folder / "exit.json").exists()


def test_the_folder_of_another_run_is_left_alone(job):
    with files.locked(job.folder, "x", "y"):  # as that run has it
        (job.folder / "exit.json").write_text("of the other run")
        first, _ = job.start(begin=False)
        first.end(UserError("another run is working in it"))
        until(lambda: job.codes == [5])
    assert (job.folder / "exit.json").read_text() == "of the other run"


def test_what_an_earlier_run_said_is_gone(job):
    (job.folder / "exit.json").write_text("of an earlier run")
    first, _ = job.start(begin=False)
    first.end(UserError("a mistake"))  # before it has the folder
    assert job.exit_json["reason"] == "a mistake"
    first.begin()
    assert not (job.folder / "exit.json").exists()


def test_whoever_does_not_know_the_token_is_nobody(job):
    first = job.watch(0)
    first.open()
    host, _, port = job.store["first"].split(" ")[1].rpartition(":")
    for line in (b"[]\n", b'{"token": "", "rank": 1, "size": 2}\n', b"{}\n", b"\xff\n"):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(line)
            stranger.settimeout(5)
            assert stranger.recv(100) == b""  # it hangs up
    silent = socket.create_connection((host, int(port)))
    second = job.watch(1)
    second.open()
    until(lambda: first._peers)
    silent.close()
    assert not job.codes


def test_one_that_never_starts_is_named(job, monkeypatch):
    monkeypatch.setattr(launcher, "patience", lambda: 0.3)
    job.watch(0).open()
    until(lambda: job.codes == [5])
    assert (
        job.exit_json["rank"] == 1
        and "did not start within 0.3 s" in job.exit_json["reason"]
    )
    job.store.clear()
    with pytest.raises(PeerLost, match="first process did not start"):
        rendezvous.connect(ProcessRank(1, 2, 1, local_size=2))


def test_a_store_that_cannot_be_reached_is_named(job, monkeypatch):
    def lookup():
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(launcher, "own_address", lookup)
    with pytest.raises(PeerLost, match=r"store at 127.0.0.1:9 cannot be .* not known"):
        job.watch(0).open()


def test_one_that_comes_too_late_hears_of_the_end(job):
    first = job.watch(0)
    first.open()
    first.end(UserError("a mistake"))
    with pytest.raises(PeerLost, match="process 0 ended at step 0 .* 2: a mistake"):
        rendezvous.connect(ProcessRank(1, 2, 1, local_size=2))


def test_a_fault_of_ours_does_not_wait_for_others(job):
    first, second = job.start()
    waits, wait = [], first._has_ended.wait
    first._has_ended.wait = lambda seconds: waits.append(seconds) or wait(0)
    assert first.lost_peer(KeyError("x")) is None
    assert waits == [0]
    second.end(UserError("a mistake"))
    until(lambda: first._has_ended.is_set())
    assert "a mistake" in str(first.lost_peer(KeyError("x")))


def test_only_an_elastic_job_goes_on(job, monkeypatch):
    first, second = job.start()
    monkeypatch.setattr(launcher, "is_elastic", lambda: False)
    monkeypatch.setattr(launcher, "rejoin", lambda towers: job.killed.append(towers))
    first.keep_towers(6)
    second._peers[0].close()
    until(lambda: len(job.codes) == 2)
    assert job.killed == [] and job.exit_json["rank"] in (0, 1)


@pytest.mark.parametrize(
    ("answer", "is_written"), [(launcher.HostAbandoned(), False), (OSError(), True)]
)
def test_an_elastic_process_without_a_place(job, monkeypatch, answer, is_written):
    """horovodrun that has none goes on with the others: this was not the end."""
    first, second = job.start()
    second._file = ExitFile(None, False)
    asked = threading.Event()

    def rejoin(towers):
        assert towers == 6
        asked.set()
        raise answer

    monkeypatch.setattr(launcher, "is_elastic", lambda: True)
    monkeypatch.setattr(launcher, "rejoin", rejoin)
    first.keep_towers(6)
    second._peers[0].close()
    until(lambda: asked.is_set() and len(job.codes) == 2)
    assert (job.folder / "exit.json").exists() == is_written


def test_exit_json_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    file = ExitFile(tmp_path, is_first=True)
    file.begin()
    for code in (2, 75):
        file.write(ExitReport(code, 0, 3, reason="r"))
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["exit.json"]
