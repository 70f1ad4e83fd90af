"""The framing of event files' records, beside TensorBoard's own slower one."""

import io

import numpy as np
from tensorboard.summary.writer.record_writer import RecordWriter

from targetnet.rl_core.board.records import records


def test_records_are_those_that_tensorboard_writes():
    rng, wanted = np.random.default_rng(0), io.BytesIO()
    data = [rng.bytes(n) for n in (5, 1, 0, 511, 2_000)]
    slow = RecordWriter(wanted)
    for content in data:
        slow.write(content)
    assert records(data) == wanted.getvalue()
    assert records([]) == b""
