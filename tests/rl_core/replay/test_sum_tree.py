"""Sums over blocks: exact, the same on every way to them, and found in proportion."""

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from rl_core import Engine, Stream, fused_updates
from rl_core.replay.sum_tree import SumTree

# Levels of 1, 1 with a block that is not full, 2 and 3 levels.
SIZES = [4, 250, 300, 5000]
BATCH = 64


class Tree:
    def __init__(self, size, compiled=False):
        self.size, self.engine = size, Engine()
        with self.engine.building():
            tree = SumTree(size)
            counter, index = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [BATCH])
            leaf = tf.placeholder(tf.float32, [BATCH])
            leaves = tf.placeholder(tf.float32, tree.leaf.shape)
            stream = Stream(0, "tree")

            def found():
                whole = stream.integers(counter, [tree.draws, BATCH, 1], *map(np.int64, (0, 2**32)))
                return tree.find(tf.cast(whole, tf.float64) / 2**32)

            find, changed = found(), tree.set(index, leaf)
            uniform = tf.placeholder(tf.float64, [tree.draws, BATCH, 1])
            at = tree.find(uniform)
            if compiled:
                one = tf.constant(1)
                find = fused_updates(lambda: (found(), tf.no_op()), one, find)
                still = tf.zeros([])
                changed = fused_updates(lambda: ([still], tree.set(index, leaf)), one, [still])[
                    0
                ].op
            sums = [level.read_value() for level in tree._levels]
            filled, again = tree.set_all(leaves), tree.set_all(tree.leaf.read_value())
        self.engine.start()
        self.shape = tree.leaf.shape
        self._find = self.engine.callable(find, [counter])
        self._fill = self.engine.callable(None, [leaves], [filled])
        self.set = self.engine.callable(None, [index, leaf], [changed])
        self.at = self.engine.callable(at, [uniform])
        self.draws = tree.draws
        self.again = self.engine.callable(None, targets=[again])
        self.levels = self.engine.callable(sums)

    def find(self, counter):
        return self._find(np.int64(counter))

    def fill(self, leaves):
        padded = np.zeros(self.shape, np.float32)
        padded.reshape(-1)[: self.size] = leaves
        self._fill(padded)

    def leaves(self):
        return self.levels()[0].reshape(-1)[: self.size]


@pytest.fixture(scope="module", params=SIZES)
def tree(request):
    tree = Tree(request.param)
    yield tree
    tree.engine.close()


def assert_exact(levels):
    """Every number is the sum of its block, to the last bit; the rest of each level is 0."""
    for below, above in itertools.pairwise(levels):
        sums = [sum(map(int, block)) for block in below]
        assert above.reshape(-1)[: len(sums)].tolist() == sums
        assert not above.reshape(-1)[len(sums) :].any()


def random_leaves(rng, count):
    """Whole numbers over the whole range that a leaf may have, a third of them 0."""
    leaves = np.round(2.0 ** rng.uniform(0, 38, count)).astype(np.float32)
    return leaves * (rng.random(count) < 0.67)


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


@pytest.mark.parametrize("u", [0.0, 1 - 2.0**-32])
def test_nor_at_either_end_of_what_is_drawn(tree, u):
    """0 is the border of leading zeros; the largest number is just below that of the last ones."""
    for zeros in (0, 1):
        leaves = np.full(tree.size, 5.0)
        leaves[2 * tree.size // 3 :] *= 2.0**36
        leaves[:zeros] = leaves[tree.size - zeros :] = 0
        tree.fill(leaves)
        index, leaf = tree.at(np.full([tree.draws, BATCH, 1], u))
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


@pytest.mark.parametrize("size", [250, 5000])
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
