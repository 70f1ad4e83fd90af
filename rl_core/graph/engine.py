"""One graph, one session, and the fast way to call into it.

`Session.run` costs about 70 us per feed. A callable made from options, run in the caller's
thread by the single-threaded executor, costs 5 to 8 us whatever the number of feeds. That
entry point is private to TensorFlow, so it is used here and nowhere else, checked when the
session starts, and replaced by the public `make_callable` where it is missing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from targetnet.rl_core.errors import BoundsError, RlCoreError
from targetnet.rl_core.graph.feeds import explain_feeds, feed_check
from targetnet.rl_core.graph.tf1 import SavedVariables, Saver
from targetnet.rl_core.graph.xla_cache import XlaCache, tell_tensorflow
from targetnet.rl_core.lazy import ONEDNN_VARIABLE, XLA_FLAGS
from targetnet.rl_core.machine import give_back_memory

try:
    from tensorflow.python.eager import context as _eager_context
except ImportError:  # a private module: without it `tf.cond` is lowered, see `Engine.building`
    _eager_context = None
try:
    from tensorflow.python.client.pywrap_tf_session import TF_SessionRunCallable as _run_callable
except ImportError:  # a private module: without it the public call serves
    _run_callable = None
try:
    from tensorflow.python.util import _pywrap_util_port as _port
except ImportError:  # a private module: without it the variable is believed
    _port = None

_SINGLE_THREADED = "SINGLE_THREADED_EXECUTOR"
# TensorFlow decides at its import: it may have been before ours, which asks for none.
_ONEDNN = os.environ.get(ONEDNN_VARIABLE) == "1" if _port is None else bool(_port.IsMklEnabled())
_FLAGS_SET = threading.Lock()
_WORKS: dict[Any, bool] = {}  # private call -> whether it does what it did


def _require_onednn(onednn: bool | None) -> None:
    if onednn in (None, _ONEDNN):
        return
    first = "" if onednn else "import targetnet before tensorflow, or "
    raise RlCoreError(
        f"onednn = {str(onednn).lower()}, but TensorFlow was imported with oneDNN's operations "
        f"{'on' if _ONEDNN else 'off'}, which round differently: {first}set "
        f"{ONEDNN_VARIABLE}={onednn:d} before its import"
    )


class Call:
    """A call into the graph, as `Engine.callable` declares it.

    Args:
      first: calls it for the first time, with the tuple of values, once there is a session; returns
        the result, and the function of such tuples for all later times.
      feeds: what is given.
      pack: gives the fetched values their form.
      before: is called first of all.
    """

    def __init__(
        self,
        first: Callable[[tuple[Any, ...]], tuple[Any, Callable[..., Any]]],
        feeds: Sequence[tf.Tensor],
        pack: Callable[[list[Any]], Any],
        before: Callable[[], None] | None = None,
    ) -> None:
        self._first, self._feeds, self._pack, self._before = first, feeds, pack, before
        self._check = feed_check(feeds)
        self._run: Callable[..., Any] | None = None

    def after(self, before: Callable[[], None]) -> Call:
        """The same call, which calls `before` first each time."""
        return Call(self._first, self._feeds, self._pack, before)

    def __call__(self, *values: Any) -> Any:
        if self._before is not None:
            self._before()
        # TensorFlow does not check: a wrong shape would broadcast silently, and some operations
        # end the process on a wrong dtype.
        self._check(values)
        try:
            if self._run is None:
                result, self._run = self._first(values)
            else:
                result = self._run(values)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            explain_feeds(self._feeds, values)
            raise
        return self._pack(result)


class Engine:
    """Owns one `tf.Graph` and the one `tf.Session` that runs it.

        engine = Engine()
        with engine.building():
            x = tf.placeholder(tf.float32, [None])
            y = 2.0 * x
        engine.start()
        double = engine.callable(y, [x])
        double(np.float32([1, 2]))  # array([2., 4.])

    After `start` the graph is finalized: no operation can be added, and `callable` chooses among
    those that are there, before `start` or after it. A call is made when it is first used: that
    takes 20 ms, and no program uses all.

    Args:
      threads: threads inside one operation. With 1 the same calls give the same bits. They are
        the process's: the first engine decides, or eager TensorFlow if it was used before.
      executor: "single_threaded" (fast, CPU) or "default" (what a GPU needs).
      onednn: whether TensorFlow's operations must be oneDNN's; None takes what there is.

    Raises:
      RlCoreError: TensorFlow was imported with the other operations.
    """

    def __init__(
        self,
        *,
        threads: int = 1,
        executor: str = "single_threaded",
        onednn: bool | None = None,
    ) -> None:
        if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
            raise BoundsError(f"threads must be a whole number >= 1, got {threads!r}")
        if executor not in ("single_threaded", "default"):
            raise BoundsError(f"executor must be 'single_threaded' or 'default', got {executor!r}")
        _require_onednn(onednn)
        # A session's own setting comes too late: loops are built with an eager context, whose
        # threads, by default one for each core, are those of every session from then on.
        with contextlib.suppress(RuntimeError):
            tf2.config.threading.set_intra_op_parallelism_threads(threads)
        tell_tensorflow()
        self.graph = tf.Graph()
        self.threads = threads
        self._single_threaded = executor == "single_threaded" and _eager_context is not None
        self._session: tf.Session | None = None
        self._xla_cache = XlaCache(self.graph, threads)
        self._raw: dict[Any, Callable[..., Any]] = {}
        self._at_start: list[Callable[[], None]] = []
        self._fast = False

    @contextlib.contextmanager
    def building(self) -> Iterator[tf.Graph]:
        """Makes this engine's graph the default one; variables are resource variables.

        `tf.cond` and `tf.while_loop` become single `If` and `While` operations here: the
        single-threaded executor does not serve the Switch and Merge form.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.graph.as_default())
            stack.enter_context(tf.variable_scope(tf.get_variable_scope(), use_resource=True))
            if self._single_threaded:
                stack.enter_context(_eager_context.function_executor_type(_SINGLE_THREADED))
            yield self.graph

    @property
    def session(self) -> tf.Session:
        """The one session of the graph.

        Raises:
          RlCoreError: `start()` was not called yet.
        """
        if self._session is None:
            raise RlCoreError("the engine has no session yet: call start() after building")
        return self._session

    @property
    def started(self) -> bool:
        """True once the graph is finalized and the session is open."""
        return self._session is not None

    def start(self) -> None:
        """Finalizes the graph, opens the session and runs every variable's initializer.

        Then it calls what `at_start` was given.
        """
        with self.graph.as_default():
            initializer = tf.global_variables_initializer()
        config = tf.ConfigProto(
            intra_op_parallelism_threads=self.threads,
            # -1: run in the caller's thread, with the GIL released.
            inter_op_parallelism_threads=-1 if self._single_threaded else self.threads,
        )
        if self._single_threaded:
            config.experimental.executor_type = _SINGLE_THREADED
        # TensorFlow optimises each call when it is made. Once is enough, and a pass that rewrites
        # only the form of the graph takes a third of the time; no result has another bit for it.
        rewrites = config.graph_options.rewrite_options
        rewrites.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
        rewrites.disable_tfg_optimizer = True
        self._session = tf.Session(graph=self.graph, config=config)
        self.finalize()
        self._session.run(initializer)
        if _run_callable not in _WORKS:
            _WORKS[_run_callable] = _private_call_works(config)
        self._fast = _WORKS[_run_callable]
        for act in self._at_start:
            act()

    def at_start(self, act: Callable[[], None]) -> None:
        """Has `act` called once the session is open and every variable has its first value."""
        self._at_start.append(act)

    def finalize(self) -> None:
        """From here on adding an operation to the graph is an error."""
        self.graph.finalize()

    def callable(
        self, fetches: Any, feeds: Sequence[tf.Tensor] = (), targets: Sequence[Any] = ()
    ) -> Call:
        """Returns a function of the feeds' values, in order, that gives the fetches' values.

        Args:
          fetches: a tensor, None, or a (named) tuple of tensors. The result has the same form.
          feeds: tensors whose values are given at each call. Any tensor can be fed, also one
            that is computed: what only it needed is then not run.
          targets: operations (or tensors) to run without returning anything.

        The values are not cast: give `np.float32(x)`, not `x`.

        Raises (when called):
          FeedError: a value has the wrong dtype or shape, or their number is wrong.
        """
        feeds = tuple(feeds)
        flat, pack = _flatten(fetches)
        targets = tuple(getattr(t, "op", t) for t in targets)
        # Never release a callable: a while loop in it can keep a stale handle, which a later
        # callable at the same address then gets ("Handle: 0 not found").
        key = tuple(tuple(thing.name for thing in things) for things in (flat, feeds, targets))

        def first(values: tuple[Any, ...]) -> tuple[Any, Callable[..., Any]]:
            if key not in self._raw:
                self._raw[key] = self._raw_callable(flat, feeds, targets)
            with self._xla_cache.in_use():
                result = _elsewhere(self._raw[key], values)
            give_back_memory()
            return result, self._raw[key]

        return Call(first, feeds, pack)

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> Any:
        """`Session.run`, for set-up, tests and notebooks; the loop uses `callable`."""
        return self.session.run(fetches, feed_dict)

    def saver(self, variables: SavedVariables = None) -> Saver:
        """Returns a `Saver` of some variables or of all; it may be made after `start` too."""
        return Saver(self, variables)

    def close(self) -> None:
        """Closes the session, if there is one."""
        if self._session is not None:
            self._session.close()

    def _raw_callable(
        self, fetches: list[tf.Tensor], feeds: Sequence[tf.Tensor], targets: Sequence[tf.Operation]
    ) -> Callable[..., Any]:
        if not self._fast:
            # `make_callable` returns nothing for an operation among the fetches.
            public = self.session.make_callable([*fetches, *targets], feed_list=list(feeds))
            count = len(fetches)

            def checked(values: tuple[Any, ...]) -> Any:
                explain_feeds(feeds, values)  # the public API would cast
                return public(*values)[:count]

            return checked
        options = config_pb2.CallableOptions()
        options.feed.extend(t.name for t in feeds)
        options.fetch.extend(t.name for t in fetches)
        options.target.extend(op.name for op in targets)
        if self._single_threaded:
            options.run_options.inter_op_thread_pool = -1
        return _direct_call(self.session, options)


def _private_call_works(config: tf.ConfigProto) -> bool:
    # In a graph of its own: to make a call of a large one takes 20 ms.
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        options = config_pb2.CallableOptions(fetch=[tf.constant(0).name])
        try:
            return int(_direct_call(session, options)(())[0]) == 0
        except Exception:  # whatever a changed private API may raise, the public one serves
            return False


def _direct_call(
    session: tf.Session, options: config_pb2.CallableOptions
) -> Callable[[tuple[Any, ...]], Any]:
    """A function of the tuple of values, with as little Python around it as there can be."""
    made = _elsewhere(session._make_callable_from_options, options)
    handle = session._session
    return lambda values: _run_callable(handle, made._handle, values, None)


def _elsewhere(run: Callable[[Any], Any], argument: Any) -> Any:
    """In a thread of its own: what optimises a graph or compiles it."""
    # That leaves holes in the memory of the thread that does it, and every later allocation from
    # there has to search them: a tenth of a training loop's time.
    with _xla_flags(), ThreadPoolExecutor(1) as threads:
        return threads.submit(run, argument).result()


@contextlib.contextmanager
def _xla_flags() -> Iterator[None]:
    """XLA reads its flags when it first compiles; nobody else's XLA is to find ours."""
    with _FLAGS_SET:
        of_user = os.environ.get("XLA_FLAGS")
        os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {of_user or ''}"  # the last one of a name counts
        try:
            yield
        finally:
            if of_user is None:
                del os.environ["XLA_FLAGS"]
            else:
                os.environ["XLA_FLAGS"] = of_user


def _flatten(fetches: Any) -> tuple[list[tf.Tensor], Callable[[list[Any]], Any]]:
    """The tensors of `fetches` and the function that gives their values the same form."""
    if fetches is None:
        return [], lambda values: None
    if not isinstance(fetches, tuple | list):
        return [fetches], _own_first
    form = getattr(fetches, "_make", type(fetches))
    return list(fetches), lambda values: form([_own(value) for value in values])


def _own_first(values: list[Any]) -> Any:
    value = values[0]
    return value.copy() if isinstance(value, np.ndarray) else value


def _own(value: Any) -> Any:
    # What is fetched may be a variable's own memory: writing into it would set the variable.
    return value.copy() if isinstance(value, np.ndarray) else value
