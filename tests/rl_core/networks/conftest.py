"""A graph to build in and the values of what was built."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf


@pytest.fixture
def value_of() -> Iterator[Callable[..., Any]]:
    """Within the test a fresh graph is the default one; the session is that of the whole test.

    The first call initialises the variables; `value_of.put` sets one.
    """
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        initialised: list[bool] = []

        def run(fetches: Any, feeds: Any = None) -> Any:
            if not initialised:
                session.run(tf.global_variables_initializer())
                initialised.append(True)
            return session.run(fetches, feeds)

        def put(variable: Any, value: Any) -> None:
            run(tf.no_op())
            variable.load(np.asarray(value, variable.dtype.as_numpy_dtype), session)

        run.put = put
        yield run
