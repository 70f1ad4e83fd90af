"""The engine's contract, on its fast entry point and on every one it falls back to."""

import functools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, FeedError, RlCoreError
from targetnet.rl_core.graph import engine as engine_module

ROOT = Path(__file__).parents[3]
PRIVATE = "_make_callable_from_options"
HAS_PRIVATE = next(c for c in tf.Session.__mro__ if PRIVATE in vars(c))
ENTRIES = [
    "fast", "default executor", "no direct call", "no private call", "private call fails",
    "no private module",
]  # fmt: skip


@pytest.fixture(params=ENTRIES)
def any_engine(request, monkeypatch):
    """An engine for each way there is into TensorFlow."""

    def fails(session, options):
        raise TypeError("the private call has changed")

    monkeypatch.setattr(engine_module, "_WORKS", {})  # as in a new process
    if request.param == "no direct call":
        monkeypatch.setattr(engine_module, "_run_callable", None)
    if request.param == "no private call":
        monkeypatch.delattr(HAS_PRIVATE, PRIVATE)
    if request.param == "private call fails":
        monkeypatch.setattr(HAS_PRIVATE, PRIVATE, fails)
    if request.param == "no private module":
        monkeypatch.setattr(engine_module, "_eager_context", None)
    engine = Engine(
        executor="default" if request.param == "default executor" else "single_threaded"
    )
    yield engine
    engine.close()


class Pair(NamedTuple):
    double: Any
    square: Any


class Built(NamedTuple):
    x: tf.Tensor  # [] float32
    row: tf.Tensor  # [2] float32
    rows: tf.Tensor  # [B, 2] float32
    double: tf.Tensor  # 2 * x
    square: tf.Tensor  # x ** 2
    row_double: tf.Tensor
    rows_double: tf.Tensor
    counter: tf.Variable
    count: tf.Operation


def build(engine):
    with engine.building():
        x = tf.placeholder(tf.float32, [], "x")
        row = tf.placeholder(tf.float32, [2], "row")
        rows = tf.placeholder(tf.float32, [None, 2], "rows")
        counter = tf.get_variable("counter", initializer=np.int64(0), trainable=False)
        count = counter.assign_add(1, read_value=False)
        square = tf.square(x)
        built = Built(x, row, rows, 2.0 * x, square, 2.0 * row, 2.0 * rows, counter, count)
    engine.start()
    return built


THREADS_AND_COMPILED = """
import os, sys, time
import tensorflow.compat.v1 as tf
from targetnet.rl_core import Engine
print(len(os.listdir("/proc/self/task")))
engine = Engine(threads=int(sys.argv[1]))
with engine.building():
    i = tf.while_loop(lambda i: i < 9, lambda i: (i + 1,), [tf.constant(0)])
engine.start()
assert engine.callable(i)() == 9
time.sleep(0.3)  # the thread of the first call is not gone at once
print(len(os.listdir("/proc/self/task")))

import numpy as np
import tensorflow.compat.v2 as tf2
engine = Engine(threads=int(sys.argv[1]))
with engine.building():
    x = tf.placeholder(tf.float32, [64])
    y = tf2.function(lambda x: 2 * x, jit_compile=True)(x)
engine.start()
assert engine.callable(y, [x])(np.ones(64, np.float32))[0] == 2
print(os.environ["XLA_FLAGS"])
"""
# XLA's flags of the user -> the width of vectors that is wanted.
WIDTHS = {"": 512, " --xla_cpu_prefer_vector_width=128": 128}


class Process(NamedTuple):
    began: int  # threads
    threads: int  # once there was an engine
    flags: str  # XLA's
    flags_after: str
    dumped: str  # what XLA compiled


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Gives what a process with so many threads, and with these flags, said."""

    @functools.cache
    def process(threads, more):
        folder = tmp_path_factory.mktemp("dump")
        flags = f"--xla_dump_to={folder}{more}"
        command = [sys.executable, "-c", THREADS_AND_COMPILED, str(threads)]
        out = subprocess.check_output(command, env=os.environ | {"XLA_FLAGS": flags}, text=True)
        dumped = "".join(path.read_text() for path in folder.glob("*.ll"))
        before, after, flags_after, *_ = out.split("\n")
        return Process(int(before), int(after), flags, flags_after, dumped)

    return process


COUNTS_THREADS = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="counts threads as Linux has them"
)


@pytest.mark.slow
@COUNTS_THREADS
def test_there_are_hardly_more_threads_than_were_asked_for(process):
    one = process(41, "")
    assert 41 <= one.threads - one.began < 41 + 8  # some are TensorFlow's own, whatever is asked


@COUNTS_THREADS
@pytest.mark.slow
def test_there_are_as_many_threads_as_were_asked_for_not_one_for_each_core(process):
    """With one for each core, which loops brought with them, an update took twice as long."""
    few, many = (process(*how).threads for how in ((1, [*WIDTHS][1]), (41, "")))
    assert many - few == 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "more"),
    [(41, ""), pytest.param(1, [*WIDTHS][1], marks=pytest.mark.slow)],
    ids=WIDTHS,
)
def test_what_is_compiled_uses_all_of_the_processors_vectors_unless_the_user_says_less(
    process, threads, more
):
    one = process(threads, more)
    assert one.flags_after == one.flags  # other libraries read them too
    assert f'"prefer-vector-width"="{WIDTHS[more]}"' in one.dumped


@pytest.mark.parametrize("flags", [None, "--xla_cpu_enable_fast_math=false"])
def test_threads_that_compile_at_once_leave_the_users_flags_as_they_were(monkeypatch, flags):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    if flags:
        monkeypatch.setenv("XLA_FLAGS", flags)
    seen = []

    def compile_slowly(seconds):
        time.sleep(seconds)
        seen.append(os.environ["XLA_FLAGS"])

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(partial(engine_module._elsewhere, compile_slowly), (0.06, 0.02, 0.04)))
    assert os.environ.get("XLA_FLAGS") == flags
    assert seen == [f"{engine_module.XLA_FLAGS} {flags or ''}"] * 3


def num_ops(engine):
    return len(engine.graph.get_operations())


def test_the_result_has_the_form_of_the_fetches(any_engine):
    g = build(any_engine)
    three = np.float32(3)
    alone = any_engine.callable(g.double, [g.x])(three)
    assert alone == 6 and np.shape(alone) == ()
    plain = any_engine.callable((g.double, g.square), [g.x])(three)
    assert type(plain) is tuple and plain == (6, 9)
    of_one = any_engine.callable((g.double,), [g.x])(three)
    assert type(of_one) is tuple and of_one == (6,)
    named = any_engine.callable(Pair(g.double, g.square), [g.x])(three)
    assert type(named) is Pair and named == Pair(double=6, square=9)


def test_no_fetches_and_a_target_run_the_target_and_give_none(any_engine):
    g = build(any_engine)
    count = any_engine.callable(None, targets=[g.count])
    assert [count(), count(), count()] == [None, None, None]
    assert any_engine.run(g.counter) == 3


def test_targets_run_beside_the_fetches_and_may_be_tensors(any_engine):
    with any_engine.building():
        counter = tf.get_variable("counter", initializer=0, trainable=False)
        with tf.control_dependencies([counter.assign_add(1, read_value=False)]):
            counted = tf.constant(7.0)
        y = tf.constant(5.0)
    any_engine.start()
    assert any_engine.callable(y, targets=[counted])() == 5
    assert any_engine.callable((y,), targets=[counted, counted.op])() == (5,)
    assert any_engine.run(counter) == 2


def test_feeds_are_taken_in_the_order_they_were_given(any_engine):
    with any_engine.building():
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        difference = a - b
    any_engine.start()
    assert any_engine.callable(difference, [a, b])(np.float32(5), np.float32(3)) == 2
    assert any_engine.callable(difference, [b, a])(np.float32(5), np.float32(3)) == -2


def test_a_fed_computed_tensor_prunes_what_only_it_needs(any_engine):
    with any_engine.building():
        x = tf.placeholder(tf.float32, [])
        counter = tf.get_variable("counter", initializer=0, trainable=False)
        with tf.control_dependencies([counter.assign_add(1, read_value=False)]):
            dear = 10.0 * x
        y = dear + 1.0
    any_engine.start()
    assert any_engine.callable(y, [x])(np.float32(2)) == 21  # 10 * 2 + 1
    assert any_engine.run(counter) == 1
    assert any_engine.callable(y, [dear])(np.float32(4)) == 5  # 4 + 1; x is not even asked for
    assert any_engine.run(counter) == 1


# What is fed, and what the message must say.
#     feed   value                        words
WRONG = [
    ("x",    0.5,                         ["x must be", "float32", "got float", "convert"]),
    ("x",    np.float64(0.5),             ["x must be float32, got float64", "convert"]),
    ("x",    np.int32(1),                 ["x must be float32, got int32"]),
    ("x",    np.zeros(1, np.float32),     ["x must have shape ()", "got (1,)"]),
    ("row",  np.zeros(2),                 ["row must be float32, got float64"]),
    ("row",  [0.5, 0.5],                  ["row must be", "float32", "convert"]),
    ("row",  np.zeros(3, np.float32),     ["row must have shape (2,)", "got (3,)"]),
    ("row",  np.zeros((1, 2), np.float32), ["row must have shape (2,)", "got (1, 2)"]),
    ("row",  np.float32(1),               ["row must have shape (2,)", "got ()"]),
    ("rows", np.zeros((3, 2)),            ["rows must be float32, got float64"]),
    ("rows", np.zeros((2, 3), np.float32), ["rows must have shape (None, 2)", "got (2, 3)"]),
    ("rows", np.zeros(2, np.float32),     ["rows must have shape (None, 2)", "got (2,)"]),
]  # fmt: skip


@pytest.mark.cases(34)
@pytest.mark.parametrize(("feed", "value", "words"), WRONG)
def test_a_wrong_value_is_named_with_what_was_wanted_and_what_came(any_engine, feed, value, words):
    g = build(any_engine)
    fetch = {"x": g.double, "row": g.row_double, "rows": g.rows_double}[feed]
    call = any_engine.callable(fetch, [getattr(g, feed)])
    right = {"x": np.float32(1), "row": np.float32([1, 1]), "rows": np.float32([[1, 1]])}[feed]
    for _ in range(2):  # before and after a value that is right
        with pytest.raises(FeedError) as error:
            call(value)
        assert all(word in str(error.value) for word in words)
        np.testing.assert_array_equal(call(right), 2 * right)


def test_a_wrong_value_does_not_hide_behind_right_ones(any_engine):
    g = build(any_engine)
    call = any_engine.callable((g.double, g.row_double), [g.x, g.row])
    with pytest.raises(FeedError, match="row must have shape"):
        call(np.float32(1), np.zeros(5, np.float32))


# In a process of its own: an operation that reads a value as what it is not ends the process.
EVERY_READER = """
import numpy as np
import tensorflow.compat.v1 as tf
from targetnet.rl_core import Engine, FeedError

engine = Engine()
with engine.building():
    x = tf.placeholder(tf.float32, [2, 2], "x")
    i = tf.placeholder(tf.int32, [2], "i")
    b = tf.placeholder(tf.bool, [2], "b")
    readers = [
        (x, tf.matmul(x, x)), (x, tf.nn.relu(x)), (x, tf.nn.softmax(x)), (x, tf.reduce_sum(x)),
        (x, tf.cast(x, tf.float64)), (i, tf.gather(tf.constant([5.0, 6.0]), i)),
        (i, tf.one_hot(i, 3)), (b, tf.where(b, [1.0, 1.0], [2.0, 2.0])), (b, tf.logical_not(b)),
    ]
engine.start()
for feed, reader in readers:
    call = engine.callable(reader, [feed])
    right = np.ones(feed.shape, feed.dtype.as_numpy_dtype)
    call(right)
    for dtype in (np.float64, np.int64, np.uint8):
        try:
            call(right.astype(dtype))
        except FeedError:
            continue
        raise SystemExit(f"{reader.op.type} took {dtype.__name__}")
print("all refused")
"""


@pytest.mark.slow  # in the default run of one operation, in this process
def test_a_wrong_dtype_is_a_feed_error_whatever_operation_reads_it():
    done = subprocess.run(
        [sys.executable, "-c", EVERY_READER], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.strip() == "all refused", done.stderr[:2_000]


@pytest.mark.parametrize("values", [(), (np.float32(1), np.float32(1))])
def test_a_wrong_number_of_values_is_told_with_their_names(any_engine, values):
    g = build(any_engine)
    with pytest.raises(FeedError, match=rf"wanted 1 values \(x\), got {len(values)}"):
        any_engine.callable(g.double, [g.x])(*values)
    with pytest.raises(FeedError, match=r"wanted 1 values \(rows\), got 0"):
        any_engine.callable(g.rows_double, [g.rows])()


# Python values whose type would fit, were they arrays.
@pytest.mark.parametrize(
    ("dtype", "shape", "value"),
    [
        (tf.int64, [], 5),
        (tf.bool, [], True),
        (tf.float64, [], 0.5),
        (tf.float32, [None], [np.float32(0.5)]),
        (tf.float32, [1], [np.float32(0.5)]),
    ],
)
def test_a_python_value_that_is_no_array_is_a_feed_error_too(engine, dtype, shape, value):
    with engine.building():
        flag = tf.placeholder(dtype, shape, "flag")
        same = tf.identity(flag)
    engine.start()
    with pytest.raises(FeedError, match="flag must be"):
        engine.callable(same, [flag])(value)


def test_an_error_inside_an_operation_is_not_called_a_feed_error(any_engine):
    with any_engine.building():
        i = tf.placeholder(tf.int32, [])
        picked = tf.gather(tf.constant([10.0, 20.0]), i)
    any_engine.start()
    pick = any_engine.callable(picked, [i])
    with pytest.raises(tf.errors.InvalidArgumentError):
        pick(np.int32(2))
    assert pick(np.int32(1)) == 20


def test_views_are_fed_by_what_they_show(any_engine):
    with any_engine.building():
        x = tf.placeholder(tf.float32, [None, None])
        same = 1.0 * x
    any_engine.start()
    call = any_engine.callable(same, [x])
    square = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(call(square.T), square.T)
    np.testing.assert_array_equal(call(square[:, ::2]), [[1, 3], [4, 6]])
    np.testing.assert_array_equal(call(square[::-1]), [[4, 5, 6], [1, 2, 3]])


# Operations whose result may be the variable's own memory.
VIEWS = {
    "read": lambda w: w.read_value(),
    "identity": lambda w: tf.identity(w),
    "reshape": lambda w: tf.reshape(w, [8, 8]),
    "guarded": lambda w: tf.stop_gradient(w),
    "expanded": lambda w: tf.squeeze(tf.expand_dims(w, 0), 0),
    "first half": lambda w: w[:32],
    "unstacked": lambda w: tf.unstack(tf.reshape(w, [2, 32]))[0],
    "split": lambda w: tf.split(w, 2)[0],
}


def build_parameter(engine, view):
    """Callables that read 64 ones through the view, and that add 1 to all."""
    with engine.building():
        w = tf.get_variable("w", initializer=np.ones(64, np.float32))
        more = w.assign_add(tf.ones([64]), read_value=False)
        seen = VIEWS[view](w)
    engine.start()
    return engine.callable(seen), engine.callable(None, targets=[more])


@pytest.mark.cases(22)
@pytest.mark.parametrize("view", VIEWS)
def test_a_fetched_array_keeps_its_values_when_the_variable_moves_on(any_engine, view):
    read, more = build_parameter(any_engine, view)
    before = read()
    more()
    assert np.all(before == 1) and np.all(read() == 2)


@pytest.mark.cases(33)
@pytest.mark.parametrize("view", VIEWS)
def test_writing_into_a_fetched_array_does_not_reach_the_variable(any_engine, view):
    read, _ = build_parameter(any_engine, view)
    fetched = read()
    if fetched.flags.writeable:  # read-only is as good as a copy
        fetched[...] = 100
    assert np.all(read() == 1)


@pytest.mark.cases(0, 4)
def test_calling_and_making_callables_adds_no_operation(any_engine):
    g = build(any_engine)
    before = num_ops(any_engine)
    for i in range(20):
        any_engine.callable((g.double, g.square), [g.x], [g.count])(np.float32(i))
        any_engine.callable(g.double, [g.x])(np.float32(i))
        any_engine.callable(g.square, [g.double, g.x])(np.float32(i), np.float32(i))
    assert any_engine.run(g.counter) == 20
    assert num_ops(any_engine) == before


def test_after_start_an_operation_cannot_be_added(any_engine):
    g = build(any_engine)
    with any_engine.building(), pytest.raises(RuntimeError, match="finalized"):
        tf.square(g.x)


@pytest.mark.parametrize("executor", ["single_threaded", "default"])
def test_cond_and_while_loop_are_served(executor):
    engine = Engine(executor=executor)
    with engine.building():
        x = tf.placeholder(tf.float32, [])
        n = tf.placeholder(tf.int32, [])
        taken = tf.get_variable("taken", initializer=0, trainable=False)

        def yes():
            with tf.control_dependencies([taken.assign_add(1, read_value=False)]):
                return 2.0 * x

        branch = tf.cond(x > 0.0, yes, lambda: -x)
        power = tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, 3.0 * y), [0, 1.0])[1]
    engine.start()
    call = engine.callable(branch, [x])
    assert [call(np.float32(v)) for v in (5, -5, 1)] == [10, 5, 2]
    assert engine.run(taken) == 2  # the branch not taken was not run
    assert engine.callable(power, [n])(np.int32(4)) == 81  # 3 ** 4
    engine.close()


def test_both_executors_give_the_same_numbers():
    def outputs(**options):
        engine = Engine(**options)
        with engine.building():
            x = tf.placeholder(tf.float32, [8, 8])
            y = tf.nn.softmax(tf.matmul(x, x))
        engine.start()
        data = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
        result = engine.callable(y, [x])(data)
        engine.close()
        return result

    fast = outputs()
    np.testing.assert_array_equal(fast, outputs())  # one thread: the same bits
    np.testing.assert_allclose(fast, outputs(executor="default"), rtol=1e-6)
    np.testing.assert_allclose(fast, outputs(executor="default", threads=2), rtol=1e-6)


@pytest.mark.parametrize("threads", [0, -1, 1.5])
def test_threads_must_be_a_whole_number_of_at_least_one(threads):
    with pytest.raises(ValueError, match=f"threads must be a whole number >= 1, got {threads}"):
        Engine(threads=threads)


def test_an_unknown_executor_is_refused_with_the_two_there_are():
    with pytest.raises(ValueError, match="'single_threaded' or 'default', got 'turbo'"):
        Engine(executor="turbo")


def test_before_start_there_is_no_session_and_the_error_says_so(engine):
    with engine.building():
        y = tf.constant(1.0)
    assert not engine.started
    call = engine.callable(y)
    with pytest.raises(RlCoreError, match=r"call start\(\)"):
        call()
    engine.start()
    assert engine.started and call() == 1.0


def test_start_does_what_it_was_given_with_calls_from_before_it(engine):
    with engine.building():
        x = tf.placeholder(tf.float32, [])
        variable = tf.get_variable("v", initializer=1.0)
        read = engine.callable(variable.read_value())
        set_to = engine.callable(None, [x], [variable.assign(x)])
        seen = []
        engine.at_start(lambda: seen.append(read().item()))
        engine.at_start(lambda: set_to(np.float32(5)))
        engine.at_start(lambda: seen.append(read().item()))
    assert seen == []
    engine.start()
    assert seen == [1.0, 5.0]


def test_two_engines_do_not_disturb_each_other():
    def make(initial):
        engine = Engine()
        with engine.building():
            w = tf.get_variable("w", initializer=np.float32(initial))
            add = w.assign_add(1.0, read_value=False)
        engine.start()
        return engine, engine.callable(None, targets=[add]), w

    one, add_one, w_one = make(0)
    two, add_two, w_two = make(100)
    for _ in range(3):
        add_one()
        add_two()
        add_two()
    assert (one.run(w_one), two.run(w_two)) == (3, 106)
    one.close()
    add_two()
    assert two.run(w_two) == 107
    two.close()


def test_building_leaves_the_callers_graph_as_it_was(engine):
    with tf.Graph().as_default() as outside:
        with engine.building() as inside:
            tf.constant(1.0)
            assert tf.get_default_graph() is inside is engine.graph
        assert tf.get_default_graph() is outside
        assert outside.get_operations() == []


@pytest.mark.thorough
def test_a_call_is_made_once_and_kept_however_often_it_is_asked_for(engine):
    """TensorFlow may mix up the loops of calls that it released: "Handle: 0 not found"."""
    with engine.building():
        x = tf.placeholder(tf.float32, [])
        doubled = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, 2.0 * y), [0, x])[1]
    engine.start()
    made, real = [], engine._raw_callable
    engine._raw_callable = lambda *wanted: made.append(wanted) or real(*wanted)
    for number in range(50):
        assert engine.callable(doubled, [x])(np.float32(number)) == 8 * number
        assert engine.callable((doubled,), [x])(np.float32(number)) == (8 * number,)
    assert len(made) == 1


def test_the_first_call_which_compiles_is_made_in_a_thread_of_its_own(engine):
    with engine.building():
        x = tf.placeholder(tf.float32, [])
        doubled = 2.0 * x
    engine.start()
    threads, real = [], engine._raw_callable

    def noted(*wanted):
        call = real(*wanted)
        return lambda *values: threads.append(threading.current_thread()) or call(*values)

    engine._raw_callable = noted
    call = engine.callable(doubled, [x])
    assert [call(np.float32(number)) for number in (1, 2, 3)] == [2, 4, 6]
    own = threading.current_thread()
    assert [thread is own for thread in threads] == [False, True, True]
    assert not threads[0].is_alive()
