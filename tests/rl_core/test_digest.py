"""The hash over named values."""

import numpy as np

from targetnet.rl_core.digest import Digest


def digest(*parts):
    made = Digest()
    for name, value in parts:
        (made.array if isinstance(value, np.ndarray) else made.value)(name, value)
    return made.hexdigest()


ONES = np.ones((2, 3), np.float32)


def test_equal_values_have_equal_digests():
    assert digest(("a", ONES), ("n", 3)) == digest(("a", ONES.copy()), ("n", 3))
    assert len(digest()) == 64 and int(digest(), 16)


def test_name_dtype_shape_bits_and_order_all_count():
    zero = np.zeros(1, np.float32)
    all_different = [
        digest(("a", ONES)),
        digest(("b", ONES)),
        digest(("a", ONES.astype(np.int32))),
        digest(("a", ONES.reshape(3, 2))),
        digest(("a", ONES), ("b", ONES)),
        digest(("b", ONES), ("a", ONES)),
        digest(("a", ONES * np.float32(1 + 2**-23))),
        digest(("a", zero)),
        digest(("a", -zero)),  # another bit, though equal
        digest(("a", 1)),
        digest(("a", 1.0)),
        digest(("a", "1")),
    ]
    assert len(set(all_different)) == len(all_different)


def test_nan_equals_itself_and_layout_does_not_count():
    nan = np.full(2, np.nan, np.float32)
    assert digest(("a", nan)) == digest(("a", nan.copy()))
    grid = np.arange(6).reshape(2, 3)
    assert digest(("a", grid.T)) == digest(("a", np.ascontiguousarray(grid.T)))


def test_pieces_are_not_their_concatenation():
    assert digest(("a", ONES[:1]), ("a", ONES[1:])) != digest(("a", ONES))


def test_an_empty_array_and_a_scalar_can_be_added():
    assert digest(("a", np.zeros((0, 3)))) != digest(("a", np.array(0.0)))
