"""Mistakes that tests have to find: each is planted in a copy of the code, and its tests must fail.

    python -m tests.faults           all of them; prints which test found each
    python -m tests.faults TEXT ...  those with one of the texts in their names

A fault replaces one text in one file. `tests/test_faults.py` plants all of them.
"""

from __future__ import annotations

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
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "600"]
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


# Packed, since it is a table.
# fmt: off
FAULTS = (
    Fault("n-step rewards are discounted once too often", "rl_core/replay/items.py",
          "r_t + discount_t * step.r_t", "r_t + discount_t * discount * step.r_t",
          "tests/rl_core/replay/test_n_step.py::test_three_steps_by_hand"),
    Fault("rewards are clipped before they are scaled", "agents/dqn/objective.py",
          '-tf.minimum(-tf.minimum(reward * live["reward_scale"], limit), limit)',
          '-tf.minimum(-tf.minimum(reward, limit), limit) * live["reward_scale"]',
          "tests/agents/dqn/test_rewards.py::test_rewards_are_scaled_and_then_clipped"),
    Fault("a frame stack reaches across a reset", "rl_core/replay/rows.py",
          "goes_back = tf.logical_and(goes_back, first)",
          "goes_back = tf.logical_or(goes_back, first)",
          "tests/rl_core/replay/test_stacks.py::"
          "test_by_hand_a_stack_is_the_frames_of_its_episode_and_zeros_before_it"),
    Fault("the target network chooses the action of double DQN", "agents/dqn/objective.py",
          "selector_t = values.selector_t[i] if self._config.double else target_t",
          "selector_t = target_t",
          "tests/agents/dqn/test_update.py::"
          "test_double_lets_online_choose_the_next_action_and_target_value_it"),
    Fault("branches have the least of their best values for a target",
          "rl_core/losses/branching.py",
          "tf.reduce_mean(worth, axis=1)", "tf.reduce_min(worth, axis=1)",
          "tests/rl_core/losses/test_branching.py::"
          "test_the_target_is_the_mean_of_the_best_choices_of_all_branches"),
    Fault("an agent that is reset draws the random numbers of the seed before",
          "agents/dqn/agent.py",
          "        parts.set_keys(self._keys.values(config.seed))\n        self.begin(parts)\n",
          "        self.begin(parts)\n",
          "tests/agents/dqn/test_reset.py::test_it_lives_the_life_of_one_that_is_built"),
    Fault("the loss of quantiles moves the fractions", "rl_core/networks/heads.py",
          "widths = tf.stop_gradient(shares)", "widths = shares",
          "tests/rl_core/networks/test_networks.py::"
          "test_the_fractions_of_an_fqf_head_receive_gradient_of_its_shares_alone"),
    Fault("a block with a step size of its own has that of all others", "agents/dqn/learner.py",
          "return _optimizer(config, live, own_rate, None)",
          "return _optimizer(config, live, rate, None)",
          "tests/agents/dqn/test_fqf.py::"
          "test_the_first_step_of_the_fractions_is_as_long_as_their_live_step_size"),
    Fault("gradients flow into the burn-in", "rl_core/networks/recurrent.py",
          "state, begin = tf.stop_gradient(state), end", "begin = end",
          "tests/rl_core/networks/test_recurrent.py::"
          "test_gradients_flow_through_time_but_not_into_the_burn_in"),
    Fault("the exponent of importance weights is fixed", "agents/dqn/memory.py",
          'live.reader("priority_beta")\n', "lambda: tf.constant(0.4)\n",
          "tests/agents/dqn/test_family.py::test_priorities_are_live"),
    Fault("lambda-returns go on over a reset", "agents/dqn/sequences.py",
          "tf.concat([autoreset[1:],", "tf.concat([tf.zeros_like(autoreset[1:]),",
          "tests/agents/dqn/test_rollout.py::"
          "test_an_update_regresses_every_row_on_its_q_lambda_return"),
    Fault("weights are pushed away from the target's", "agents/dqn/learner.py",
          "(value - of_target[variable.op.name].read_value())",
          "(of_target[variable.op.name].read_value() - value)",
          "tests/agents/dqn/test_target_regularizers.py::test_a_step_draws_the_trained_weights_to_the_targets"),
    Fault("the conservative penalty sums over the batch", "rl_core/losses/conservative.py",
          "tf.reduce_logsumexp(legal_only(q_tm1, legal_tm1), axis=1)",
          "tf.reduce_mean(tf.reduce_logsumexp(legal_only(q_tm1, legal_tm1), axis=0))",
          "tests/rl_core/losses/test_conservative.py::test_penalty_matches_hand_computed_rows"),
    Fault("epsilon is one step late", "agents/loops/plain.py",
          "            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))\n"
          "            live.env_step = state.env_step\n",
          "            live.env_step = state.env_step\n"
          "            state.count(envs.num_envs - int(np.count_nonzero(step.autoreset)))\n",
          "tests/agents/loops/test_plain.py::test_schedules_follow_the_env_steps"),
    Fault("a soft copy moves by 1 - tau", "rl_core/graph/sync.py",
          "moved = now + tau * (goal - now)\n", "moved = now + (1 - tau) * (goal - now)\n",
          "tests/rl_core/graph/test_sync.py::"
          "test_a_soft_copy_moves_the_target_by_its_share_of_the_way"),
    Fault("a copy does not reset Adam's step counters", "rl_core/optimizers/adam.py",
          "starts = [first.get(of.op.name, tf.zeros(of.shape)) for of in variables]",
          "starts = [of if of.op.name in first else tf.zeros(of.shape) for of in variables]",
          "tests/agents/dqn/test_on_sync.py::test_after_a_copy_the_next_step_counts_as_the_first"),
    Fault("a copy does not reset Adam's step counters in a loop",
          "rl_core/optimizers/packed_adam.py",
          "powers = where(only_if, tf.constant(self._betas), moments.powers)",
          "powers = moments.powers",
          "tests/agents/dqn/test_on_sync.py::test_single_and_fused_updates_agree_over_several_copies"),
    Fault("eta and 1 - eta are swapped in a sequence's priority",
          "agents/dqn/sequences.py",
          "eta * batch.largest(of_steps) + (1.0 - eta) * batch.mean(of_steps)",
          "eta * batch.mean(of_steps) + (1.0 - eta) * batch.largest(of_steps)",
          "tests/agents/dqn/test_recurrent.py::"
          "test_the_priority_mixes_the_largest_and_the_mean_error_of_the_learned_steps"),
    Fault("MINTO takes the larger estimate", "rl_core/losses/target_regularizers.py",
          "tf.where_v2(online_is_lower, of_online, of_target)",
          "tf.where_v2(online_is_lower, of_target, of_online)",
          "tests/rl_core/losses/test_target_regularizers.py::test_blend_matches_hand_computed_rows"),
    Fault("the bins of HL-Gauss are half a bin off", "rl_core/losses/hl_gauss.py",
          "/ width + 0.5, 0.0, bins)", "/ width, 0.0, bins)",
          "tests/rl_core/losses/test_hl_gauss.py::test_histogram_matches_hand_computed_rows"),
    Fault("importance weights are ignored", "agents/dqn/update.py",
          "return loss if batch.weight is None else batch.weight * loss",
          "return loss",
          "tests/agents/dqn/test_update.py::test_a_loss_is_weighted_by_the_chance_of_its_transition"),
    Fault("importance weights are square roots of what they should be",
          "rl_core/replay/prioritized.py",
          "(tf.reduce_min(leaf) / leaf) ** self._beta())",
          "tf.sqrt((tf.reduce_min(leaf) / leaf) ** self._beta()))",
          "tests/rl_core/replay/test_prioritized.py::test_weights_of_four_rows_by_hand"),
    Fault("the variance of observations has n - 1 for n", "agents/dqn/normalizer.py",
          "squares / count + _LEAST_VARIANCE",
          "squares / tf.maximum(count - 1.0, 1.0) + _LEAST_VARIANCE",
          "tests/agents/dqn/test_normalizer.py::"
          "test_the_network_sees_all_numbers_by_their_running_moments"),
    Fault("all rows have the bonus of demonstrations", "agents/dqn/update.py",
          "tf.cast(self._demonstrations.among(row), tf.float32)", "tf.ones_like(row, tf.float32)",
          "tests/agents/dqn/test_demonstrations.py::"
          "test_the_bonus_is_added_to_the_size_of_their_td_errors"),
    Fault("the penalty of functional regularization trains the target",
          "rl_core/losses/target_regularizers.py",
          "tf.stop_gradient(at_action(q_tm1_target, a_tm1))", "at_action(q_tm1_target, a_tm1)",
          "tests/rl_core/losses/test_target_regularizers.py::"
          "test_functional_penalty_draws_the_value_of_the_action_taken_alone"),
    Fault("a network of a chain learns from a copy of itself", "agents/dqn/network_scopes.py",
          "(_link(self._online, i - 1), _link(self._targets[0], i))",
          "(_link(self._online, i), _link(self._targets[0], i))",
          "tests/agents/dqn/test_chain.py::"
          "test_the_window_shifts_and_the_copies_are_refreshed_as_in_the_slow_twin"),
    Fault("rows may be sampled that the ring has overwritten", "rl_core/replay/valid_rows.py",
          "entered = tf.gather(self._tail_at, oldest % self.steps)",
          "entered = tf.gather(self._tail_at, (oldest - 1) % self.steps)",
          "tests/rl_core/replay/test_uniform.py::"
          "test_nothing_is_sampled_across_the_place_where_the_ring_is_written_next"),
    Fault("a leaf that is set twice counts twice in the sums", "rl_core/replay/sum_tree.py",
          "more = more * counted", "more = more * tf.ones_like(counted)",
          "tests/rl_core/replay/test_sum_tree.py::"
          "test_sums_are_exact_after_any_changes_and_the_same_when_made_anew"),
    Fault("a truncated step has no value after it", "rl_core/replay/items.py",
          "discount_t=tf.where(terminated, tf.zeros_like(discounts), discounts),",
          "discount_t=tf.where(\n"
          '            tf.logical_or(terminated, ring.at("autoreset", ring.after(source))),\n'
          "            tf.zeros_like(discounts), discounts),",
          "tests/rl_core/replay/test_uniform.py::"
          "test_a_truncated_step_leads_to_the_true_final_observation_and_is_not_terminated"),
    Fault("a schedule that holds has the old value at its corner", "rl_core/schedules.py",
          "bisect.bisect_right(points,", "bisect.bisect_left(points,",
          "tests/rl_core/test_schedules.py::test_a_schedule_has_its_hand_computed_values"),
    Fault("the bias of a noisy layer has no noise", "rl_core/graph/layers.py",
          "(product(inputs * into, w_sigma) + b_sigma) * out",
          "product(inputs * into, w_sigma) * out + b_sigma",
          "tests/rl_core/graph/test_layers.py::test_noisy_dense_by_hand"),
    Fault("dueling distributions are centred over their atoms", "rl_core/networks/heads.py",
          "value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)",
          "value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)",
          "tests/rl_core/networks/test_networks.py::"
          "test_each_atom_of_a_dueling_distribution_is_less_its_mean_over_actions"),
    Fault("what is legal at the source is legal at the destination", "rl_core/replay/items.py",
          'ring.at("legal", span.destination)', 'ring.at("legal", row)',
          "tests/rl_core/replay/test_masks.py::"
          "test_a_transition_has_the_masks_of_both_its_observations"),
    Fault("an arm of a freeze schedule is one update longer",
          "rl_core/optimizers/freeze.py",
          "min(updates, arm.updates - self._done)", "min(updates, arm.updates - self._done + 1)",
          "tests/rl_core/optimizers/test_freeze_schedule.py::test_a_phase_is_cut_where_an_arm_ends"),
    Fault("a rewind goes back one snapshot too few", "agents/dqn/state.py",
          "self.past.restore(back + 1)", "self.past.restore(back)",
          "tests/agents/dqn/test_q_values.py::"
          "test_a_rewind_goes_back_to_what_past_said_and_keeps_what_was"),
    Fault("the digest leaves out a variable", "agents/dqn/state.py",
          "in sorted(self.read().variables.items()):",
          "in sorted(self.read().variables.items())[1:]:",
          "tests/agents/dqn/test_digest.py::test_every_variable_of_a_checkpoint_counts"),
    Fault("the newest checkpoint with a score is kept, not the best", "rl_core/checkpoint/store.py",
          "kept.add(max(scores, key=lambda n: (scores[n], n)))", "kept.add(max(scores))",
          "tests/rl_core/checkpoint/test_store.py::test_the_best_is_kept_beside_the_last_few"),
    Fault("random numbers of one name serve two purposes", "rl_core/random.py",
          'Stream(self._seed, f"{self._purpose}/{name}")', "Stream(self._seed, name)",
          "tests/rl_core/test_random.py::"
          "test_draws_differ_by_name_purpose_counter_and_seed_and_by_nothing_else"),
    Fault("a command is applied twice if the run was killed in between",
          "rl_core/control/log_writer.py",
          "return command_id in self._log.ids or any(", "return any(",
          "tests/rl_core/control/test_steering.py::"
          "test_a_crash_between_log_and_removal_does_not_apply_it_again"),
    Fault("a run that is resumed twice loses a command", "rl_core/control/log.py",
          "return [*before, *tail.new()]", "return tail.new()",
          "tests/agents/run/test_resume.py::"
          "test_killed_twice_before_it_came_to_the_change_it_still_comes_to_it"),
    Fault("averaged weights move by the decay", "agents/dqn/update.py",
          'share = tf.subtract(1.0, self._live["ema_decay"])', 'share = self._live["ema_decay"]',
          "tests/agents/dqn/test_averaging.py::"
          "test_every_update_moves_it_by_the_share_that_the_decay_leaves"),
    Fault("an evaluation explores among illegal actions too", "agents/loops/evaluation.py",
          "epsilon, next(time_steps), legal)", "epsilon, next(time_steps))",
          "tests/agents/loops/test_evaluation.py::test_with_epsilon_no_illegal_action_is_taken"),
    Fault("an evaluation plays the episodes of training", "agents/loops/evaluation.py",
          "self.seed = config.seed + _SEED_OFFSET if", "self.seed = config.seed if",
          "tests/agents/loops/test_evaluation.py::test_the_episodes_are_not_those_of_training"),
    Fault("a board drops the last point before a resume", "rl_core/board/events.py",
          "start = _event(after + 1)", "start = _event(after)",
          "tests/rl_core/board/test_events.py::"
          "test_a_file_that_goes_on_after_an_env_step_replaces_the_points_beyond_it"),
    Fault("n-step returns go on after a truncated step", "rl_core/replay/items.py",
          'over = tf.logical_or(terminated, ring.at("autoreset", at))', "over = terminated",
          "tests/rl_core/replay/test_n_step.py::test_n_steps_are_what_a_twin_finds_by_walking"),
    Fault("the target is copied one update late", "agents/dqn/target.py",
          "older >= self._period()", "older > self._period()",
          "tests/agents/dqn/test_sync.py::"
          "test_target_is_copied_on_exactly_the_update_that_makes_it_as_old_as_the_period"),
    Fault("all averaged targets are the newest one", "agents/dqn/network_scopes.py",
          "for i in reversed(range(len(self._targets))):", "for i in range(len(self._targets)):",
          "tests/agents/dqn/test_family.py::"
          "test_with_averaged_targets_each_sync_moves_every_copy_one_further"),
    Fault("step counters of frozen blocks go on in the graph's loop",
          "rl_core/optimizers/packed_adam.py",
          "counted = made if chosen is None else tf.stack(changed)", "counted = made",
          "tests/rl_core/optimizers/test_fused.py::"
          "test_blocks_that_are_chosen_when_it_runs_are_trained_as_singly"),
    Fault("the highest quarter counts in the interquartile mean",
          "agents/experiments/statistics.py",
          "np.arange(n // 4, n - n // 4)", "np.arange(n // 4, n)",
          "tests/agents/experiments/test_statistics.py::test_iqm_matches_hand_computed_rows"),
    Fault("a copied member perturbs its own live values", "agents/population/truncation.py",
          "scored[giver].values[knob.name]", "scored[name].values[knob.name]",
          "tests/agents/population/test_truncation.py::"
          "test_values_are_the_givers_times_a_factor_that_is_drawn"),
    Fault("running moments leave out the distance of the means", "agents/dqn/normalizer.py",
          "squares = before[2] + squares + tf.square(away) * (before[0] * n / count)",
          "squares = before[2] + squares",
          "tests/agents/dqn/test_normalizer.py::"
          "test_the_network_sees_all_numbers_by_their_running_moments"),
    Fault("a reset counts in the length of an episode that is cut", "agents/loops/evaluation.py",
          "lengths += ~step.autoreset", "lengths += 1",
          "tests/agents/loops/test_evaluation.py::"
          "test_an_episode_that_does_not_end_is_cut_and_counts_with_the_return_until_then"),
    Fault("a curve that is extended has its last point twice", "agents/sinks/group.py",
          "return self.last.get(tag, _NOWHERE)[0] < env_step",
          "return self.last.get(tag, _NOWHERE)[0] <= env_step",
          "tests/agents/run/test_curves.py::test_every_curve_is_a_line_that_goes_forward"),
    Fault("a greedy policy remembers the episode before", "agents/dqn/policy.py",
          "state = np.where(autoreset[:, np.newaxis], np.float32(0), state)",
          "state = np.where(False, np.float32(0), state)",
          "tests/agents/dqn/test_recurrent.py::"
          "test_acting_remembers_each_episode_and_stores_what_it_remembered"),
    Fault("an env's frames stay over a reset", "envs/lanes.py",
          "                self._frames[...] = 0\n", "                pass\n",
          "tests/envs/test_stacks.py::test_a_stack_is_what_was_shown_in_the_episode"),
    Fault("an episode of a dataset leads into the next one", "agents/data/rows.py",
          '"autoreset": np.arange(T + 1) == 0,', '"autoreset": np.arange(T + 1) < 0,',
          "tests/agents/data/test_rows.py::test_the_replay_has_exactly_the_datasets_transitions"),
    Fault("a recycled unit keeps its outgoing weights", "agents/dqn/weight_resets.py",
          "for of in (self._online[name], *self._slots[name]):", "for of in self._slots[name]:",
          "tests/agents/dqn/test_weight_resets.py::test_recycling_is_that_of_a_slow_twin"),
    Fault("an actor's priorities go on over a reset", "agents/remote/priorities.py",
          "alive &= inside & ~autoreset[after]", "alive &= inside",
          "tests/agents/remote/test_priorities.py::test_errors_are_those_computed_by_hand"),
    Fault("the worst trial of a sweep is the first", "agents/experiments/sweep/study.py",
          "(-(trial.value or 0.0), trial.number)", "(trial.value or 0.0, trial.number)",
          "tests/agents/experiments/sweep/test_study.py::"
          "test_the_best_trial_has_the_highest_score_and_of_equal_ones_is_the_older"),
    Fault("differences of arms have the other sign", "agents/experiments/compare/scores.py",
          "for one in (arm, other)))", "for one in (other, arm)))",
          "tests/agents/experiments/compare/test_tables.py::"
          "test_a_difference_is_bold_if_it_holds_among_all_of_its_family"),
    Fault("a new row enters with the priority 1", "rl_core/replay/prioritized.py",
          "largest = entered = self.max_priority.read_value()",
          "largest, entered = self.max_priority.read_value(), tf.ones([])",
          "tests/rl_core/replay/test_prioritized.py::"
          "test_a_new_row_enters_with_the_largest_priority_ever_seen"),
    Fault("averaged targets average logits", "agents/dqn/heads.py",
          "probabilities = _mean([tf.nn.softmax(v.logits) for v in values])",
          "probabilities = tf.nn.softmax(_mean([v.logits for v in values]))",
          "tests/agents/dqn/test_family.py::test_averaged_targets_are_the_mean_over_the_copies"),
    Fault("sequences learn from the step that is only a reset", "rl_core/replay/sequences.py",
          "tf.where_v2(known, tf.reshape(outcome, [B, L]), True)", "tf.logical_not(known)",
          "tests/rl_core/replay/test_sequences.py::test_every_sequence_is_what_was_shown"),
    Fault("a freeze schedule begins anew on resume", "agents/dqn/state.py",
          'self._learner.goes_on_from(saved.host["updates"], saved.host["freeze"])',
          'self._learner.goes_on_from(saved.host["updates"], (0, 0))',
          "tests/agents/dqn/test_digest.py::"
          "test_what_is_restored_has_the_digest_the_live_values_and_the_arm_of_what_was_saved"),
    Fault("live values that were set are forgotten on resume", "agents/dqn/state.py",
          'in saved.host["overrides"].items():', "in ():",
          "tests/agents/dqn/test_digest.py::"
          "test_what_is_restored_has_the_digest_the_live_values_and_the_arm_of_what_was_saved"),
    Fault("Munchausen's quantiles bootstrap from illegal actions", "rl_core/losses/munchausen.py",
          "soft_bootstrap(q_t, z_t, temperature, legal_t)",
          "soft_bootstrap(q_t, z_t, temperature)",
          "tests/rl_core/losses/test_munchausen.py::test_m_iqn_agrees_with_the_slow_twin"),
    Fault("the conservative penalty counts illegal actions", "agents/dqn/objective.py",
          "conservative_penalty(online_tm1.q, batch.a_tm1, weight, batch.legal_tm1)",
          "conservative_penalty(online_tm1.q, batch.a_tm1, weight)",
          "tests/agents/dqn/test_conservative.py::test_illegal_actions_are_not_penalized"),
    Fault("the margin of demonstrations is over illegal actions too", "agents/dqn/objective.py",
          "large_margin(online_tm1.q, batch.a_tm1, margin, weight, shown, batch.legal_tm1)",
          "large_margin(online_tm1.q, batch.a_tm1, margin, weight, shown)",
          "tests/agents/dqn/test_demonstrations.py::test_the_margin_is_to_legal_actions_alone"),
    Fault("an update that is not made changes priorities", "agents/dqn/update.py",
          "self._memory.update_priorities(batch.row, priority, made)",
          "self._memory.update_priorities(batch.row, priority)",
          "tests/agents/run/test_diverging.py::"
          "test_the_update_that_diverges_is_not_made_and_all_is_as_after_the_one_before"),
    Fault("the return of averaged weights is that of the online ones", "agents/run/evaluations.py",
          "self._returns_of(self.parts.agent.acting.greedy_averaged, episodes)",
          "self._returns_of(self.parts.agent.greedy, episodes)",
          "tests/agents/run/test_evaluations.py::test_averaged_weights_have_returns_of_their_own"),
    Fault("bytes of a checksum are summed without their places", "rl_core/replay/rows.py",
          "(self._factors[at // 4] << places)", "self._factors[at // 4]",
          "tests/agents/loops/test_compiled.py::"
          "test_the_trace_of_a_chunk_that_is_longer_than_the_ring_is_that_of_its_rows"),
    Fault("the concurrent loop acts by its first weights", "agents/loops/concurrent.py",
          "            agent.follow()\n", "",
          "tests/agents/loops/test_concurrent.py::test_the_threads_give_the_bits_of_one_thread"),
    Fault("the loop in the graph learns before learn_start", "agents/dqn/compiled.py",
          "return begun * phases * self.fed.updates_per_learn, age",
          "return phases * self.fed.updates_per_learn, age",
          "tests/agents/dqn/test_in_graph_loop.py::"
          "test_the_loop_in_the_graph_learns_when_the_learn_clock_says"),
    Fault("copies begin without the online network's values", "agents/dqn/network_scopes.py",
          'how["initializer"] = lambda *_, **__: original.initial_value',
          'how["initializer"] = tf.zeros_initializer()',
          "tests/agents/dqn/test_sync.py::test_target_equals_online_right_after_construction"),
    Fault("keys begin with those of no seed", "rl_core/random.py",
          "key = stream_key(self.seed, name)", "key = np.zeros(1, np.uint64)",
          "tests/rl_core/test_random.py::"
          "test_keys_begin_with_those_of_their_seed_and_take_those_of_another"),
    Fault("a checkpoint lacks the rows that wait", "agents/dqn/state.py",
          "        self._acting.flush()\n        self._learner.moments.to_slots(changed=False)\n",
          "        self._learner.moments.to_slots(changed=False)\n",
          "tests/agents/dqn/test_step_buffer.py::test_waiting_rows_change_no_bit"),
)
# fmt: on


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
        if not where.stdout.startswith(f"{self._directory}{os.sep}"):
            raise NotRun(f"imports do not come from the copy: {where.stdout}{where.stderr}")
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


def main(texts: Sequence[str]) -> int:
    """Plants the faults with one of `texts` in their names, or all, and prints a line for each.

    Returns:
      1 if one is not found, or there is none of that name.
    """
    chosen = [fault for fault in FAULTS if not texts or any(text in fault.name for text in texts)]
    found = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Copy(Path(directory))
        copy.check(chosen)
        for fault in chosen:
            test, seconds = copy.find(fault)
            found.append(test is not None)
            print(f"{fault.name:<60} {seconds:4.0f} s  {test or 'NOT FOUND'}", flush=True)
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
