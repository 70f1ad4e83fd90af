"""Plain DQN on CartPole in NumPy, to see that what the study shows is not our code's doing.

    python docs/study/huber_twin.py

Nothing of targetnet is used. Prints the mean Q value of a batch as training goes on, for both
losses and some periods from copy to copy of the target; otherwise as in cartpole.toml.
"""

import sys

import gymnasium as gym
import numpy as np

HIDDEN, BATCH, LEARNING_RATE, DISCOUNT, MAX_NORM = 64, 32, 5e-4, 0.99, 10.0
LEARN_START, EXPLORED, LAST_EPSILON = 1_055, 6_000, 0.05


def first_weights(rng):
    sizes = [(4, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2)]
    return [
        w
        for i, o in sizes
        for w in (rng.uniform(-1, 1, (i, o)) * np.sqrt(6 / (i + o)), np.zeros(o))
    ]


def forward(weights, x):
    """Returns the activations of each layer: x, two hidden ones, Q values."""
    w1, b1, w2, b2, w3, b3 = weights
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    return x, h1, h2, h2 @ w3 + b3


def gradients(weights, x, action, target, huber):
    x, h1, h2, q = forward(weights, x)
    error = q[np.arange(BATCH), action] - target
    slope = np.clip(error, -1, 1) if huber else error
    dq = np.zeros_like(q)
    dq[np.arange(BATCH), action] = slope / BATCH
    d2 = (dq @ weights[4].T) * (h2 > 0)
    d1 = (d2 @ weights[2].T) * (h1 > 0)
    found = [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ dq, dq.sum(0)]
    norm = np.sqrt(sum((g * g).sum() for g in found))
    return [g * min(1.0, MAX_NORM / (norm + 1e-12)) for g in found]


def train(period, huber, env_steps, seed):
    """Yields (env step, mean Q value of a batch, mean length of the last ten episodes)."""
    rng = np.random.default_rng(seed)
    env = gym.make("CartPole-v1")
    online = first_weights(rng)
    target = [w.copy() for w in online]
    m, v = ([np.zeros_like(w) for w in online] for _ in range(2))
    rows, lengths, length, updates = [], [], 0, 0
    now, _ = env.reset(seed=seed)
    for step in range(1, env_steps + 1):
        epsilon = max(LAST_EPSILON, 1 - (1 - LAST_EPSILON) * step / EXPLORED)
        greedy = int(forward(online, now)[-1].argmax())
        action = int(rng.integers(2)) if rng.random() < epsilon else greedy
        then, reward, terminated, truncated, _ = env.step(action)
        rows.append((now, action, reward, then, terminated))
        now, length = then, length + 1
        if terminated or truncated:
            lengths, length = [*lengths[-9:], length], 0
            now, _ = env.reset()
        if step < LEARN_START:
            continue
        batch = [rows[i] for i in rng.integers(len(rows), size=BATCH)]
        s, a, r, s2, end = (np.array(column) for column in zip(*batch, strict=True))
        wanted = r + DISCOUNT * (1 - end) * forward(target, s2)[-1].max(1)
        updates += 1
        for i, g in enumerate(gradients(online, s, a, wanted, huber)):
            m[i] += 0.1 * (g - m[i])
            v[i] += 0.001 * (g * g - v[i])
            scale = np.sqrt(1 - 0.999**updates) / (1 - 0.9**updates)
            online[i] -= LEARNING_RATE * scale * m[i] / (np.sqrt(v[i]) + 1e-8)
        if updates % period == 0:
            target = [w.copy() for w in online]
        if step % 2_500 == 0:
            yield step, forward(online, s)[-1].max(1).mean(), np.mean(lengths)


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for huber in (True, False):
        for period in (10, 30, 100, 300):
            for seed in (0, 1, 2):
                points = list(train(period, huber, steps, seed))
                q = ", ".join(f"{of:,.0f}" for _, of, _ in points)
                name = "huber" if huber else "squared"
                print(
                    f"{name}, period {period}, seed {seed}: Q {q}; length {points[-1][2]:.0f}",
                    flush=True,
                )
