"""A small store, and histories of checkpoints in it whose numbers say which one they are."""

import numpy as np
import pytest

from targetnet.rl_core.checkpoint.store import CheckpointStore


class History:
    """Checkpoints 1, 2, ...: number k has weights of value k, and 10 more rows than k - 1."""

    def __init__(self, directory, keep=2):
        self.store = CheckpointStore(directory, keep)
        self.chunks = {}
        self.count = 0

    @staticmethod
    def variables(k):
        return {"online/w": np.full((3, 2), k, np.float32), "counters/updates": np.array(100 * k)}

    @staticmethod
    def rows(k):
        numbers = np.arange(10 * (k - 1), 10 * k)
        return {"reward": numbers.astype(np.float32), "terminated": numbers % 3 == 0}

    def write(self, **settings):
        self.count = k = self.count + 1
        rows = [(10 * (k - 1), 10 * k, self.rows(k))]
        self.chunks = self.store.write(
            10 * k, self.variables(k), {"k": k}, self.chunks, rows, **settings
        )

    def assert_is(self, checkpoint, k):
        """Every number of a checkpoint is that of number `k`."""
        assert checkpoint.tick == 10 * k and checkpoint.host == {"k": k}
        same(checkpoint.variables, self.variables(k))
        spans = [self.store.rows(*item) for item in checkpoint.chunks.items()]
        assert [(begin, end) for begin, end, _ in spans] == [
            (10 * i, 10 * i + 10) for i in range(k)
        ]
        for i, (_, _, columns) in enumerate(spans):
            same(columns, self.rows(i + 1))


def same(given, wanted):
    assert given.keys() == wanted.keys()
    for name, array in wanted.items():
        assert given[name].dtype == array.dtype
        np.testing.assert_array_equal(given[name], array)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "run" / "checkpoints"


@pytest.fixture
def history(directory):
    directory.parent.mkdir()
    return History(directory)
