"""A graph to build in and the values of what was built."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf


@pytest.fixture
def value_of() -> Iterator[Callable[..., Any]]:
    """Within the test a fresh graph is the default one; call it to run what was built."""

    def run(fetches: Any, feeds: Any = None) -> Any:
        with tf.Session() as session:
            return session.run(fetches, feeds)

    with tf.Graph().as_default():
        yield run
