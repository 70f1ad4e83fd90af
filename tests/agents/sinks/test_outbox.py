"""The outbox before a store: compared at the start, delivered by a thread, never in the way."""

import threading

import pytest

from targetnet.agents.sinks import outbox as module
from targetnet.agents.sinks.outbox import Outbox, OutboxCloser
from targetnet.rl_core.board.events import EventWriter


class Memory:
    """A store that keeps what it is sent, and fails as often as it is told."""

    def __init__(self, there=(), failures=0):
        self.there, self.failures = list(there), failures
        self.place, self.finished, self.opened = "in memory", None, 0

    def open(self):
        self.opened += 1
        return self

    def known(self):
        return [(tag, env_step) for tag, env_step, _ in self.there]

    def send(self, rows):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no\nserver")
        self.there += [(t, row.env_step, v) for row in rows for t, v in row.values.items()]

    def close(self, finished):
        self.finished = finished


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "_PERIOD", 0.001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.001)


def made(store, earlier=None):
    lines = []
    return Outbox("memory", store.open, earlier or {}, lines.append, OutboxCloser()), lines


def closed(store, *rows, earlier=None):
    """The lines of an outbox that took these rows and was closed."""
    box, lines = made(store, earlier)
    for values, env_step in rows:
        box.scalars(values, env_step)
    box.close()
    return lines


def test_points_arrive_in_their_order_and_the_place_is_told():
    store = Memory()
    lines = closed(store, ({"a": 1, "b": 2}, 10), ({"a": 3}, 20))
    assert store.there == [("a", 10, 1.0), ("b", 10, 2.0), ("a", 20, 3.0)]
    assert lines == ["memory: in memory"] and store.finished is False


def test_a_point_that_is_there_is_not_sent_again_and_its_neighbour_in_the_row_is():
    store = Memory([("a", 10, 1.0)])
    closed(store, ({"a": 1, "b": 2}, 10), ({"a": 3}, 20))
    assert store.there == [("a", 10, 1.0), ("b", 10, 2.0), ("a", 20, 3.0)]


def test_of_two_points_of_a_curve_at_one_env_step_the_second_is_sent_if_one_is_there():
    """Two episodes may end at the same env step."""
    store = Memory([("a", 10, 1.0)])
    closed(store, ({"a": 1}, 10), ({"a": 1}, 10))
    assert store.there == 2 * [("a", 10, 1.0)]
    closed(store, ({"a": 1}, 10), ({"a": 1}, 10))  # both are there now
    assert store.there == 2 * [("a", 10, 1.0)]


@pytest.mark.parametrize("most", [500, 2, 1])
def test_points_of_earlier_sessions_that_it_lacks_are_sent_and_told(tmp_path, monkeypatch, most):
    monkeypatch.setattr(module, "_MOST_ROWS", most)
    with EventWriter(tmp_path) as events:
        for env_step in (10, 20, 30):
            events.scalars({"learn/loss": env_step, "learn/q_max": 1.0}, env_step)
        events.flush()
        whole = events.position
        events.scalar("learn/loss", 40, 40)  # of this session: it comes by `scalars` too
    (path,) = tmp_path.glob("events.*")
    store = Memory([("learn/loss", 10, 10.0), ("learn/q_max", 10, 1.0), ("learn/loss", 30, 30.0)])
    lines = closed(store, ({"learn/loss": 40}, 40), earlier={path: whole})
    assert lines[0] == "memory: 3 earlier points were missing there and are sent"
    assert sorted(store.there) == sorted(
        [("learn/loss", s, float(s)) for s in (10, 20, 30, 40)]
        + [("learn/q_max", s, 1.0) for s in (10, 20, 30)]
    )


def test_points_of_earlier_sessions_come_in_the_order_of_their_files(tmp_path):
    for session, env_step in (("1", 10), ("2", 20)):
        with EventWriter(tmp_path / session) as events:
            events.scalar("learn/loss", 1.0, env_step)
    sizes = {path: path.stat().st_size for path in tmp_path.glob("*/events.*")}
    store = Memory()
    closed(store, earlier=dict(sorted(sizes.items(), reverse=True)))
    assert store.there == [("learn/loss", 10, 1.0), ("learn/loss", 20, 1.0)]


def test_a_store_that_fails_is_told_once_and_gets_everything_once_when_it_works(quick):
    store = Memory([("a", 10, 1.0)], failures=3)
    box, lines = made(store)
    box.scalars({"a": 1.0}, 10)
    box.scalars({"a": 2.0}, 20)
    while store.failures:
        pass_some_time()
    box.scalars({"a": 3.0}, 30)
    box.close()
    assert [line for line in lines if "server" in line] == [
        "memory: ConnectionError: no server; the run goes on and will try again"
    ]
    assert store.there == [("a", 10, 1.0), ("a", 20, 2.0), ("a", 30, 3.0)]


def pass_some_time():
    threading.Event().wait(0.001)


class Counted(threading.Event):
    """Comes after so many waits, of which none takes time, and keeps how long each was to be."""

    def __init__(self, waits):
        super().__init__()
        self.pauses, self._waits, self.may_begin = [], waits, threading.Event()

    def wait(self, timeout=None):
        self.may_begin.wait()
        self.pauses.append(timeout)
        return len(self.pauses) == self._waits


def test_a_store_that_fails_is_asked_less_often_until_it_works():
    closing, store = OutboxCloser(), Memory(failures=6)
    closing.begun = Counted(9)
    box = Outbox("memory", store.open, {}, [].append, closing)
    box.scalars({"a": 1.0}, 10)
    closing.begun.may_begin.set()
    box._thread.join()
    assert closing.begun.pauses == [0.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 1.0, 1.0]


def test_a_store_that_cannot_be_opened_is_tried_again(quick):
    class Late(Memory):
        def open(self):
            super().open()
            if self.opened < 3:
                raise OSError("not up yet")
            return self

    store = Late()
    box, lines = made(store)
    box.scalars({"a": 1.0}, 10)
    while store.opened < 3:
        pass_some_time()
    box.close()
    assert store.there == [("a", 10, 1.0)]
    assert sum("not up yet" in line for line in lines) == 1


def test_what_could_not_be_delivered_is_told_at_the_end():
    store = Memory(failures=1_000)
    lines = closed(store, ({"a": 1}, 10), ({"a": 2}, 20))
    assert lines[-1] == "memory: the last 2 reports could not be delivered"


def test_a_store_that_hangs_does_not_keep_the_run_for_ever(monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.01)
    free = threading.Event()

    class Hanging(Memory):
        def send(self, rows):
            free.wait()

    box, lines = made(Hanging())
    box.scalars({"a": 1.0}, 10)
    box.close()
    free.set()
    assert lines[-1] == "memory: no answer within 0.01 s, the last 1 reports are not delivered"


def test_outboxes_of_one_run_are_waited_for_together(monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 1_000.0)
    shared, free = OutboxCloser(), threading.Event()

    class Waiting(Memory):
        def close(self, finished):
            free.wait()
            super().close(finished)

    stores = Waiting(), Waiting()
    first, second = (Outbox("memory", s.open, {}, [].append, shared) for s in stores)
    freeing = threading.Thread(target=lambda: (shared.begun.wait(), free.set()))
    freeing.start()
    first.close()
    second._thread.join()  # it did not wait for a close of its own
    freeing.join()
    assert [store.finished for store in stores] == [False, False]


def test_memory_is_bounded_while_a_store_fails(monkeypatch):
    monkeypatch.setattr(module, "_MOST_WAITING", 3)
    blocked = threading.Event()

    class Slow(Memory):
        def open(self):
            blocked.wait()
            return self

    store = Slow()
    box, _ = made(store)
    for env_step in range(10):
        box.scalars({"a": env_step}, env_step)
    blocked.set()
    box.close()
    assert [env_step for _, env_step, _ in store.there] == [7, 8, 9]


def test_the_result_finishes_the_run_there():
    store = Memory()
    box, _ = made(store)
    box.result({"mean": 3.0}, 100)
    box.close()
    assert store.there == [("result/mean", 100, 3.0)] and store.finished is True


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9999])
def test_no_two_points_have_the_same_millisecond(monkeypatch, fraction):
    """MLflow takes two equal points of one millisecond for one."""
    # A clock that stands still, also between two milliseconds, where sums of floats may fall back.
    monkeypatch.setattr(module.time, "time", lambda: 1_795_447_588.733 + fraction / 1_000)
    store, times = Memory(), []
    store.send = lambda rows: times.extend(round(1_000 * row.time) for row in rows)
    closed(store, *[({"a": 1}, 10)] * 100)
    assert len(set(times)) == 100
