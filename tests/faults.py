"""Mistakes that tests have to find: each is planted in a copy of the code, and its tests must fail.

    python -m tests.faults           all of them, and which test found each
    python -m tests.faults NAME ...  some

A fault replaces one text in one file. `tests/test_faults.py` plants all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("rl_core", "envs", "agents", "configs", "targetnet", "tests", "pyproject.toml")
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "240"]
WHICH = "not slow and not benchmark"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


class Fault(NamedTuple):
    """One mistake.

    Attributes:
      name: says what is wrong.
      file: where.
      old, new: the right text, which occurs once in the file, and the wrong one.
      tests: of which one must fail; node ids, separated by spaces.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = (
    Fault(
        "n-step rewards are discounted once too often",
        "rl_core/replay/items.py",
        "r_t + discount_t * step.r_t",
        "r_t + discount_t * discount * step.r_t",
        "tests/rl_core/replay/test_n_step.py::test_three_steps_by_hand",
    ),
    Fault(
        "rewards are clipped before they are scaled",
        "agents/dqn/memory.py",
        '-tf.minimum(-tf.minimum(reward * live["reward_scale"], limit), limit)',
        '-tf.minimum(-tf.minimum(reward, limit), limit) * live["reward_scale"]',
        "tests/agents/dqn/test_rewards.py::test_rewards_are_scaled_and_then_clipped",
    ),
    Fault(
        "a frame stack reaches across a reset",
        "rl_core/replay/rows.py",
        "goes_back = tf.logical_and(goes_back, first)",
        "goes_back = tf.logical_or(goes_back, first)",
        "tests/rl_core/replay/test_stacks.py::"
        "test_by_hand_a_stack_is_the_frames_of_its_episode_and_zeros_before_it",
    ),
    Fault(
        "the target network chooses the action of double DQN",
        "agents/dqn/objective.py",
        "chooser = seen.chooser[i] if self._config.double else then",
        "chooser = then",
        "tests/agents/dqn/test_update.py::"
        "test_double_lets_online_choose_the_next_action_and_target_value_it",
    ),
    Fault(
        "branches have the least of their best values for a target",
        "rl_core/losses/branching.py",
        "tf.reduce_mean(worth, axis=1)",
        "tf.reduce_min(worth, axis=1)",
        "tests/rl_core/losses/test_branching.py::"
        "test_the_target_is_the_mean_of_the_best_choices_of_all_branches",
    ),
    Fault(
        "gradients flow into the burn-in",
        "rl_core/networks/recurrent.py",
        "state, begin = tf.stop_gradient(state), end",
        "begin = end",
        "tests/rl_core/networks/test_recurrent.py::"
        "test_gradients_flow_through_time_but_not_into_the_burn_in",
    ),
    Fault(
        "the exponent of importance weights is fixed",
        "agents/dqn/memory.py",
        'live.reader("priority_beta")\n',
        "lambda: tf.constant(0.4)\n",
        "tests/agents/dqn/test_family.py::test_priorities_are_live",
    ),
    Fault(
        "lambda-returns go on over a reset",
        "agents/dqn/rollout.py",
        "tf.concat([autoreset[1:],",
        "tf.concat([tf.zeros_like(autoreset[1:]),",
        "tests/agents/dqn/test_rollout.py::test_an_update_regresses_every_row_on_its_q_lambda_return",
    ),
    Fault(
        "weights are pushed away from the target's",
        "agents/dqn/proximal.py",
        "(value - of_target[variable.op.name].read_value())",
        "(of_target[variable.op.name].read_value() - value)",
        "tests/agents/dqn/test_stillness.py::test_a_step_draws_the_trained_weights_to_the_targets",
    ),
    Fault(
        "the conservative penalty sums over the batch",
        "rl_core/losses/conservative.py",
        "tf.reduce_logsumexp(legal_only(q_tm1, legal_tm1), axis=1)",
        "tf.reduce_mean(tf.reduce_logsumexp(legal_only(q_tm1, legal_tm1), axis=0))",
        "tests/rl_core/losses/test_conservative.py::test_penalty_matches_hand_computed_rows",
    ),
    Fault(
        "epsilon is one step late",
        "agents/loops/plain.py",
        "            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))\n"
        "            live.env_step = state.env_step\n",
        "            live.env_step = state.env_step\n"
        "            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))\n",
        "tests/agents/loops/test_plain.py::test_schedules_follow_the_env_steps",
    ),
    Fault(
        "a soft copy moves by 1 - tau",
        "rl_core/graph/sync.py",
        "moved = now + tau * (goal - now)\n",
        "moved = now + (1 - tau) * (goal - now)\n",
        "tests/rl_core/graph/test_sync.py::"
        "test_a_soft_copy_moves_the_target_by_its_share_of_the_way",
    ),
    Fault(
        "a copy does not reset Adam's step counters",
        "rl_core/optimizers/adam.py",
        "starts = [first.get(of.op.name, tf.zeros(of.shape)) for of in variables]",
        "starts = [of if of.op.name in first else tf.zeros(of.shape) for of in variables]",
        "tests/agents/dqn/test_on_sync.py::test_after_a_copy_the_next_step_counts_as_the_first",
    ),
    Fault(
        "a copy does not reset Adam's step counters in a loop",
        "rl_core/optimizers/packed_adam.py",
        "powers = where(only_if, tf.constant(self._betas), moments.powers)",
        "powers = moments.powers",
        "tests/agents/dqn/test_on_sync.py::test_single_and_fused_updates_agree_over_several_copies",
    ),
    Fault(
        "eta and 1 - eta are swapped in a sequence's priority",
        "agents/dqn/sequence_objective.py",
        "eta * batch.largest(of_steps) + (1.0 - eta) * batch.mean(of_steps)",
        "eta * batch.mean(of_steps) + (1.0 - eta) * batch.largest(of_steps)",
        "tests/agents/dqn/test_recurrent.py::"
        "test_the_priority_mixes_the_largest_and_the_mean_error_of_the_learned_steps",
    ),
    Fault(
        "MINTO takes the larger estimate",
        "rl_core/losses/stillness.py",
        "tf.where_v2(online_is_lower, of_online, of_target)",
        "tf.where_v2(online_is_lower, of_target, of_online)",
        "tests/rl_core/losses/test_stillness.py::test_blend_matches_hand_computed_rows",
    ),
    Fault(
        "the bins of HL-Gauss are half a bin off",
        "rl_core/losses/hl_gauss.py",
        "/ width + 0.5, 0.0, bins)",
        "/ width, 0.0, bins)",
        "tests/rl_core/losses/test_hl_gauss.py::test_histogram_matches_hand_computed_rows",
    ),
    Fault(
        "importance weights are ignored",
        "agents/dqn/update.py",
        "weighted = td.loss if batch.weight is None else batch.weight * td.loss",
        "weighted = td.loss",
        "tests/agents/dqn/test_update.py::test_a_loss_is_weighted_by_the_chance_of_its_transition",
    ),
    Fault(
        "importance weights are square roots of what they should be",
        "rl_core/replay/prioritized.py",
        "(tf.reduce_min(leaf) / leaf) ** self._beta())",
        "tf.sqrt((tf.reduce_min(leaf) / leaf) ** self._beta()))",
        "tests/rl_core/replay/test_prioritized.py::test_weights_of_four_rows_by_hand",
    ),
    Fault(
        "the variance of observations has n - 1 for n",
        "agents/dqn/normalizing.py",
        "squares / count + _LEAST_VARIANCE",
        "squares / tf.maximum(count - 1.0, 1.0) + _LEAST_VARIANCE",
        "tests/agents/dqn/test_normalizing.py::"
        "test_the_network_sees_all_numbers_by_their_running_moments",
    ),
    Fault(
        "all rows have the bonus of demonstrations",
        "agents/dqn/update.py",
        "tf.cast(self._demonstrations.among(row), tf.float32)",
        "tf.ones_like(row, tf.float32)",
        "tests/agents/dqn/test_demonstrations.py::"
        "test_the_bonus_is_added_to_the_size_of_their_td_errors",
    ),
    Fault(
        "the penalty of functional regularization trains the target",
        "rl_core/losses/stillness.py",
        "tf.stop_gradient(at_action(q_tm1_target, a_tm1))",
        "at_action(q_tm1_target, a_tm1)",
        "tests/rl_core/losses/test_stillness.py::"
        "test_functional_penalty_draws_the_value_of_the_action_taken_alone",
    ),
    Fault(
        "a network of a chain learns from a copy of itself",
        "agents/dqn/copy_ops.py",
        "(_link(self._online, i - 1), _link(self._targets[0], i))",
        "(_link(self._online, i), _link(self._targets[0], i))",
        "tests/agents/dqn/test_chain.py::"
        "test_the_window_shifts_and_the_copies_are_refreshed_as_in_the_slow_twin",
    ),
)


class NotRun(Exception):
    """Tests that did not come to a verdict, or that fail without any fault."""


class Found(NamedTuple):
    """Outcome of one fault: the test that found it, or None, and how long that took."""

    test: str | None
    seconds: float


class Copy:
    """A copy of the code and its tests, in which faults are planted one at a time.

    Args:
      directory: an empty one, for the copy.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in COPIED:
            source = ROOT / name
            if source.is_file():
                shutil.copy2(source, directory / name)
            else:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, directory / name, symlinks=True, ignore=ignored)

    def check(self, faults: Iterable[Fault]) -> None:
        """Checks that the copy is what is imported, and passes the tests of these faults.

        Raises:
          NotRun: it is not, or does not.
        """
        where = self._run(["-c", "import targetnet.rl_core as it; print(it.__file__)"])
        if Path(where.stdout.strip()).parents[2] != self._directory.resolve():
            raise NotRun(f"not the copy is imported, but {where.stdout}{where.stderr}")
        tests = list(dict.fromkeys(test for fault in faults for test in fault.tests.split()))
        done = self._run([*PYTEST, "-m", WHICH, *tests])
        if done.returncode:
            raise NotRun(f"tests fail without any fault:\n{done.stdout}{done.stderr}")

    def find(self, fault: Fault) -> Found:
        """Plants a fault and runs its tests.

        Raises:
          NotRun: pytest could not run them.
        """
        begin = time.monotonic()
        with self._planted(fault):
            command = [*PYTEST, "-x", "-m", WHICH, *fault.tests.split()]
            # Python tells compiled files by times and sizes, which the right text may share.
            done = self._run(command, PYTHONDONTWRITEBYTECODE="1")
        if done.returncode not in (0, 1):
            raise NotRun(f"pytest ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        failed = FAILED.search(done.stdout) if done.returncode else None
        test = failed[1] if failed else "?" if done.returncode else None
        return Found(test, time.monotonic() - begin)

    @contextlib.contextmanager
    def _planted(self, fault: Fault) -> Iterator[None]:
        path = self._directory / fault.file
        right, times = path.read_text(), path.stat()
        assert right.count(fault.old) == 1, f"{fault.file} does not have {fault.old!r} once"
        path.write_text(right.replace(fault.old, fault.new))
        os.utime(path, (0, 0))  # never that of the right text
        try:
            yield
        finally:
            path.write_text(right)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _run(self, arguments: Sequence[str], **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self._directory), **more}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._directory, env=environment, capture_output=True, text=True,
        )  # fmt: skip


def main(names: Sequence[str]) -> int:
    """Plants the named faults, or all; prints a line for each. Returns 1 if one is not found."""
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    missing = 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Copy(Path(directory))
        copy.check(chosen)
        for fault in chosen:
            test, seconds = copy.find(fault)
            missing += test is None
            print(f"{fault.name:<60} {seconds:4.0f} s  {test or 'NOT FOUND'}", flush=True)
    return min(missing, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*[f.name for f in FAULTS], []])
    sys.exit(main(parser.parse_args().name))
