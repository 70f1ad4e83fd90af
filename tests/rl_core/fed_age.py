"""The clock of a phase's calls, without a target."""

import tensorflow.compat.v1 as tf


class KnownAge:
    """As `TargetClock` of an agent, in Python; what the graph does is the test's."""

    def __init__(self):
        self.fed_age = tf.placeholder(tf.int64, [])
        self.age_in_python = None

    def count_one(self, period):
        if self.age_in_python is None:
            return None
        self.age_in_python = (self.age_in_python + 1) % period if self.age_in_python < period else 0
        return self.age_in_python or None

    def count_many(self, updates, period):
        for _ in range(updates):
            self.count_one(period)
