"""The groups of keys that make up a config."""

from __future__ import annotations

from agents.config.model import DqnConfig


def test_a_config_has_the_keys_of_its_groups_in_their_order_and_none_twice():
    groups = DqnConfig.__bases__[::-1]
    keys = [key for group in groups for key in group.__annotations__]
    assert list(DqnConfig.model_fields) == keys
    assert (keys[0], keys[-1]) == ("env_id", "live")
