"""Sums over blocks: exact, the same on every way to them, and found in proportion."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import Engine, Stream, fused_updates
from targetnet.rl_core.replay.sum_tree import SumTree

# Levels of sums: 1; 1 with a block that is not full; 2 with one row below the top each, and many;
# 3 with few sums at the top, and 3.
SIZES = [4, 250, 1030, 5000, 17_000, 200_000]
BATCH = 64


class Tree:
    def __init__(self, size, compiled=False):
        self.size, self.engine = size, Engine()
        with self.engine.building():
            tree = SumTree(size)
            counter, index = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [BATCH])
            leaf, draw = tf.placeholder(tf.float32, [BATCH]), tf.placeholder(tf.int64, [BATCH])
            counted = tf.placeholder(tf.float64, [BATCH])
            leaves = tf.placeholder(tf.float32, tree.leaf.shape)
            stream, self.draws = Stream(0, "tree"), tree.draws(BATCH)

            def found():
                below = np.int64(self.draws)
                return tree.find(stream.integers(counter, [BATCH], np.int64(0), below))

            def set_at():
                return tree.set(tree.at(index), leaf, counted)

            find, changed, at = found(), set_at(), tree.find(draw)
            if compiled:
                one = tf.constant(1)
                find = fused_updates(lambda kept: (found(), kept, tf.no_op(), None), one, find)
                still = tf.zeros([])
                loop = fused_updates(lambda kept: ([still], kept, set_at(), None), one, [still])
                changed = loop[0].op
            sums = [tree.leaf.read_value(), tree._sums.read_value()]
            filled, again = tree.set_all(leaves), tree.set_all(tree.leaf.read_value())
        self.engine.start()
        self.shape, self.begins = tree.leaf.shape, tree._begins
        self._find = self.engine.callable(find, [counter])
        self._fill = self.engine.callable(None, [leaves], [filled])
        self._set = self.engine.callable(None, [index, leaf, counted], [changed])
        self.at = self.engine.callable(at, [draw])
        self.again = self.engine.callable(None, targets=[again])
        self.values = self.engine.callable(sums)

    def find(self, counter):
        return self._find(np.int64(counter))

    def fill(self, leaves):
        padded = np.zeros(self.shape, np.float32)
        padded.reshape(-1)[: self.size] = leaves
        self._fill(padded)

    def set(self, index, leaves):
        counted = np.zeros(len(index))
        counted[np.unique(index, return_index=True)[1]] = 1
        self._set(index, leaves, counted)

    def leaves(self):
        return self.values()[0].reshape(-1)[: self.size]

    def levels(self):
        """Leaves, their blocks' sums, and so on up to the top, as they are stored."""
        leaf, sums = self.values()
        borders = [len(sums), *self.begins]
        return [leaf, *(sums[begin:end] for end, begin in itertools.pairwise(borders))]


@pytest.fixture(scope="module", params=SIZES)
def tree(request):
    tree = Tree(request.param)
    yield tree
    tree.engine.close()


def sums_of(blocks):
    """[n, 16] -> [n / 16, 16]; whole numbers below 2 ** 53, added as such."""
    sums = [sum(map(int, block)) for block in blocks]
    return np.reshape(np.float64(sums + [0] * (-len(sums) % 16)), [-1, 16])


def assert_exact(levels):
    """Every number is what the leaves say, to the last bit; the rest of each level is 0."""
    blocks, *rows = levels
    for level in rows:
        blocks = sums_of(blocks)
        np.testing.assert_array_equal(level[: len(blocks)], blocks.cumsum(axis=1))
        assert not level[len(blocks) :].any()


def random_leaves(rng, count):
    """Whole numbers over the whole range that a leaf may have, a third of them 0."""
    leaves = np.round(2.0 ** rng.uniform(0, 38, count)).astype(np.float32)
    return leaves * (rng.random(count) < 0.67)


@pytest.mark.cases(1)
def test_sums_are_exact_after_any_changes_and_the_same_when_made_anew(tree):
    rng = np.random.default_rng(tree.size)
    leaves = random_leaves(rng, tree.size)
    tree.fill(leaves)
    assert_exact(tree.levels())
    for _ in range(200):
        index = rng.integers(0, tree.size, BATCH)
        leaves[index] = random_leaves(rng, BATCH)
        tree.set(index, leaves[index])
    changed = tree.levels()
    np.testing.assert_array_equal(tree.leaves(), leaves)
    assert_exact(changed)
    tree.again()
    for one, other in zip(tree.levels(), changed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_leaf_that_stays_zero_stays_the_same_bits(compiled):
    tree = Tree(250, compiled)
    for _ in range(2):
        tree.set(np.arange(BATCH), np.zeros(BATCH, np.float32))
        assert not np.signbit(tree.leaves()).any()


@pytest.mark.cases(5)
def test_a_leaf_of_zero_is_never_found(tree):
    rng = np.random.default_rng(0)
    for counter in range(300):
        leaves = random_leaves(rng, tree.size) * (rng.random(tree.size) < rng.choice([0.02, 0.9]))
        leaves[rng.integers(tree.size)] = 1
        tree.fill(leaves)
        index, leaf = tree.find(counter)
        assert (leaf > 0).all() and (leaf == leaves[index]).all()


@pytest.mark.parametrize("only", ["first", "last"])
def test_the_only_leaf_is_always_found(tree, only):
    place = 0 if only == "first" else tree.size - 1
    for value in (1.0, 2.0**24, 2.0**40):
        leaves = np.zeros(tree.size)
        leaves[place] = value
        tree.fill(leaves)
        assert set(tree.find(1)[0].tolist()) == {place}


@pytest.mark.parametrize("last", [False, True])
def test_nor_at_either_end_of_what_is_drawn(tree, last):
    """0 is the border of leading zeros; the largest number is just below that of the last ones."""
    for zeros in (0, 1):
        leaves = np.full(tree.size, 5.0)
        leaves[2 * tree.size // 3 :] *= 2.0**36
        leaves[:zeros] = leaves[tree.size - zeros :] = 0
        tree.fill(leaves)
        index, leaf = tree.at(np.full(BATCH, last * (tree.draws - 1)))
        assert (leaf > 0).all() and (index < tree.size).all()


def test_leaves_are_found_in_proportion(tree):
    """Chi-square; some leaves are 0, the largest are a thousand times the smallest."""
    rng = np.random.default_rng(3)
    few = np.zeros(tree.size)
    places = rng.choice(tree.size, min(tree.size, 60), replace=False)
    few[places] = np.round(2.0 ** rng.uniform(10, 20, len(places)))
    tree.fill(few)
    draws = 2000
    counts = np.zeros(tree.size)
    for counter in range(draws):
        np.add.at(counts, tree.find(counter)[0], 1)
    expected = few / few.sum() * draws * BATCH
    at = expected > 0
    assert not counts[~at].any()
    statistic = ((counts - expected)[at] ** 2 / expected[at]).sum()
    assert statistic < 99.6  # 99.9 % with 59 degrees of freedom, or fewer


def test_each_part_of_the_total_gives_one_index():
    """Four equal leaves, 64 draws: 16 each, whatever the random numbers."""
    tree = Tree(4)
    tree.fill([7, 7, 7, 7])
    for counter in range(20):
        assert np.bincount(tree.find(counter)[0]).tolist() == [16] * 4
    tree.engine.close()


def test_however_far_apart_they_are(tree):
    """64 equal leaves, 64 draws: each once. Levels may turn the order round, not mix the parts."""
    rng = np.random.default_rng(5)
    count = min(BATCH, 1 << tree.size.bit_length() - 1)
    for counter, value in enumerate((1.0, 3.0, 2.0**20, 2.0**24 - 1)):
        leaves = np.zeros(tree.size)
        leaves[rng.choice(tree.size, count, replace=False)] = value
        tree.fill(leaves)
        found = np.bincount(tree.find(counter)[0], minlength=tree.size)
        np.testing.assert_array_equal(found, (leaves > 0) * (BATCH // count))


@pytest.mark.cases(0)
@pytest.mark.parametrize("size", [250, pytest.param(5000, marks=pytest.mark.slow)])
def test_compiled_and_plain_trees_are_one(size):
    plain, compiled = Tree(size), Tree(size, compiled=True)
    rng = np.random.default_rng(1)
    leaves = random_leaves(rng, size)
    plain.fill(leaves)
    compiled.fill(leaves)
    for counter in range(50):
        index = rng.integers(0, size, BATCH)
        leaves[index] = random_leaves(rng, BATCH)
        for tree in (plain, compiled):
            tree.set(index, leaves[index])
        for one, other in zip(plain.find(counter), compiled.find(counter), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(plain.levels(), compiled.levels(), strict=True):
        np.testing.assert_array_equal(one, other)
    plain.engine.close()
    compiled.engine.close()


@pytest.mark.parametrize("size", [*SIZES, 1_000_000])
def test_a_tree_knows_its_size(size):
    with Engine().building():
        SumTree(size)
        variables = tf.global_variables()
    held = sum(v.shape.num_elements() * v.dtype.size for v in variables)
    assert SumTree.nbytes(size) == held
    assert size * 4 <= held < size * 5 + 2000
