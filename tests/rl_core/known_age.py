"""The clock of a phase's calls, without a target."""

import tensorflow.compat.v1 as tf


class KnownAge:
    """As `TargetClock` of an agent, in Python; what the graph does is the test's."""

    def __init__(self):
        self.known_age = tf.placeholder(tf.int64, [])
        self.now = None

    def pass_one(self, period):
        if self.now is None:
            return None
        self.now = (self.now + 1) % period if self.now < period else 0
        return self.now or None

    def pass_by(self, updates, period):
        for _ in range(updates):
            self.pass_one(period)
