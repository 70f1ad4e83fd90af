"""Registers a CartPole that takes its time, for runs that only have to be alive beside a test."""

import time

import gymnasium


class Slow(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.002)
        return self.env.step(action)


gymnasium.register("Slow/CartPole-v1", lambda **how: Slow(gymnasium.make("CartPole-v1", **how)))
