"""Docs page of all keys of a config.

`python -m targetnet.agents.config.keys` prints docs/reference/config.md.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from targetnet.agents.config.combinations import PREPARED
from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys
from targetnet.agents.config.settings import Settings
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.schedules import SCHEDULES


class Paper(NamedTuple):
    """A paper, and the keys whose meaning comes from it."""

    name: str
    address: str
    keys: str


PAPERS = (
    Paper("Ba et al. 2016", "https://arxiv.org/abs/1607.06450", "layer_norm"),
    Paper("Kingma & Ba 2015", "https://arxiv.org/abs/1412.6980", "learning_rate adam_epsilon"),
    Paper("Pascanu et al. 2013", "https://arxiv.org/abs/1211.5063", "max_grad_norm"),
    Paper("Huber 1964", "https://doi.org/10.1214/aoms/1177703732", "loss huber_delta"),
    Paper("Polyak & Juditsky 1992", "https://doi.org/10.1137/0330046", "ema_decay"),
    Paper("Watkins & Dayan 1992", "https://doi.org/10.1007/BF00992698", "discount"),
    Paper(
        "Mnih et al. 2015",
        "https://doi.org/10.1038/nature14236",
        "reward_clip network sync_period replay_capacity batch_size learn_start learn_period "
        "epsilon",
    ),
    Paper("Young & Tian 2019", "https://arxiv.org/abs/1903.03176", "network"),
    Paper(
        "Kapturowski et al. 2019",
        "https://openreview.net/forum?id=r1lyTjAqYX",
        "recurrent sequence_length burn_in priority_eta",
    ),
    Paper("Pohlen et al. 2018", "https://arxiv.org/abs/1805.11593", "value_rescaling"),
    Paper("Espeholt et al. 2018", "https://arxiv.org/abs/1802.01561", "network"),
    Paper("van Hasselt et al. 2016", "https://arxiv.org/abs/1509.06461", "double"),
    Paper("Lillicrap et al. 2016", "https://arxiv.org/abs/1509.02971", "tau"),
    Paper("Asadi et al. 2023", "https://arxiv.org/abs/2306.17833", "on_sync"),
    Paper("Ellis et al. 2024", "https://arxiv.org/abs/2412.17113", "on_sync"),
    Paper("Nikishin et al. 2022", "https://arxiv.org/abs/2205.07802", "actions"),
    Paper("Ash & Adams 2020", "https://arxiv.org/abs/1910.08475", "actions"),
    Paper("Sokar et al. 2023", "https://arxiv.org/abs/2302.12902", "actions"),
    Paper("Anschel et al. 2017", "https://arxiv.org/abs/1611.01929", "averaged_targets"),
    Paper("Hendawy et al. 2025", "https://arxiv.org/abs/2510.02590", "min_weight"),
    Paper(
        "Pich\u00e9 et al. 2021",
        "https://arxiv.org/abs/2106.02613",
        "functional_weight online_weight",
    ),
    Paper("Vincent et al. 2024", "https://arxiv.org/abs/2403.02107", "chain refresh_period"),
    Paper("Vincent et al. 2025", "https://arxiv.org/abs/2506.04398", "chain chain_torso"),
    Paper("Asadi et al. 2021", "https://arxiv.org/abs/2112.05848", "proximal_weight"),
    Paper("Weissmann et al. 2026", "https://arxiv.org/abs/2602.03911", "sync_growth"),
    Paper(
        "Vieillard et al. 2020",
        "https://arxiv.org/abs/2007.14430",
        "munchausen munchausen_alpha munchausen_temperature munchausen_clip",
    ),
    Paper("Wang et al. 2016", "https://arxiv.org/abs/1511.06581", "dueling"),
    Paper("Fortunato et al. 2018", "https://arxiv.org/abs/1706.10295", "noisy"),
    Paper("Bellemare et al. 2017", "https://arxiv.org/abs/1707.06887", "head atoms v_min v_max"),
    Paper("Dabney et al. 2018", "https://arxiv.org/abs/1710.10044", "head quantiles"),
    Paper("Imani & White 2018", "https://arxiv.org/abs/1806.04613", "loss hl_gauss_sigma"),
    Paper("Farebrother et al. 2024", "https://arxiv.org/abs/2403.03950", "loss hl_gauss_sigma"),
    Paper(
        "Dabney et al. 2018b",
        "https://arxiv.org/abs/1806.06923",
        "head tau_samples tau_samples_acting",
    ),
    Paper(
        "Schaul et al. 2016",
        "https://arxiv.org/abs/1511.05952",
        "prioritized priority_alpha priority_beta",
    ),
    Paper("Hessel et al. 2018", "https://arxiv.org/abs/1710.02298", "n_step"),
    Paper("Kumar et al. 2020", "https://arxiv.org/abs/2006.04779", "cql_weight"),
    Paper(
        "Hester et al. 2018",
        "https://arxiv.org/abs/1704.03732",
        "begin_with margin_weight margin demonstration_bonus",
    ),
    Paper("Gallici et al. 2024", "https://arxiv.org/abs/2407.04811", "rollout epochs q_lambda"),
    Paper("Peng & Williams 1996", "https://doi.org/10.1007/BF00114731", "q_lambda"),
    Paper("Daley & Amato 2021", "https://arxiv.org/abs/2111.01264", "loop"),
    Paper("Jaderberg et al. 2017", "https://arxiv.org/abs/1711.09846", "period share factors"),
    Paper(
        "Horgan et al. 2018",
        "https://arxiv.org/abs/1803.00933",
        "loop actor_pace actor_alpha actor_priorities",
    ),
)
# Values of keys that are neither numbers nor words nor true or false.
_VALUES = {
    "env_id": "text",
    "env_kwargs": "table",
    "env_wrapper": "text, or list of texts",
    "env_wrapper_kwargs": "table, or list of tables",
    "observation_keys": "list of texts",
    "action_masks": "`auto`, `info`, `off`, or the name of a part",
    "part_networks": "table",
    "network": "text",
    "hidden": "list of whole numbers >= 1",
    "head_hidden": "list of whole numbers >= 1",
    "freeze": "list of `{ exempt = [...], updates = N }`",
    "actions": 'list of `{ do = "reset", block = ..., every = N }`, `{ do = "perturb", factor = '
    'A, every = N }`, `{ do = "recycle", threshold = T, every = N }`',
    "on_sync": 'list of `"reset_moments"`, `"reset_time"`',
    "prepared": "list of " + ", ".join(f"`{name}`" for name in PREPARED),
    "controller": "text",
    "controller_args": "table",
    "log_to": "list of texts",
    "live": "tables `[live.NAME]`",
    "offline": "text",
    "begin_with": "text",
    "dataset_digest": "text",
    "share": "in (0, 0.5]",
    "perturb": "list of texts",
    "factors": "list of numbers > 0",
}


def as_markdown() -> str:
    """Returns the docs page of all keys."""
    groups = [_group(group) for group in DqnConfig.__mro__[::-1] if _is_group(group)]
    return _PAGE + "\n".join([*groups, _group(PbtKeys, "Population-based training")])


def _is_group(model: type) -> bool:
    return issubclass(model, Settings) and model.__name__.endswith("Keys")


def _group(group: type[Settings], title: str = "") -> str:
    title = title or group.__name__.removesuffix("Keys")
    rows = "\n".join(_row(group, name) for name in group.model_fields)
    return f"## {title}\n\n{inspect.getdoc(group)}\n\n{_HEAD}{rows}\n"


def _row(group: type[Settings], name: str) -> str:
    # The whole config may have other defaults than the group alone.
    field = (DqnConfig if issubclass(DqnConfig, group) else group).model_fields[name]
    knobs = {knob.name: knob for knob in DqnConfig.knobs()}
    extra: Any = field.json_schema_extra
    if name in knobs:
        shown, unit, values = f"`{name}` (live)", knobs[name].unit, knobs[name].bounds
    else:
        shown, unit, values = f"`{name}`", extra["unit"], _VALUES.get(name) or _values(field)
    meaning = re.sub(r"docs/(\w+/(\w+)\.md)", r"[\2](../\1)", field.description or "")
    default = "" if field.is_required() or field.default is None else f"`{_toml(field.default)}`"
    cells = (shown, meaning, default, unit, values, ", ".join(_papers(name)))
    return f"| {' | '.join(cells)} |"


def _values(field: FieldInfo) -> str:
    if field.annotation is bool:
        return "`true`, `false`"
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{json.dumps(word)}`" for word in get_args(field.annotation))
    bounds = {name: getattr(of, name) for of in field.metadata for name in of.__slots__}
    return Knob("", "", "", at_least=bounds.get("ge"), at_most=bounds.get("le")).bounds


def _toml(value: Any) -> str:
    if isinstance(value, SCHEDULES):
        value = {"schedule": value.schedule} | value.model_dump(exclude_defaults=True)
    if isinstance(value, dict):
        items = ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items())
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return json.dumps(value)


def _papers(name: str) -> Iterator[str]:
    return (f"[{p.name}]({p.address})" for p in PAPERS if name in p.keys.split())


_HEAD = """\
| key | meaning | default | unit | values | source |
|---|---|---|---|---|---|
"""
_PAGE = """\
# Keys of a config

<!-- Generated from agents/config/model.py and agents/config/keys.py by make docs. -->

Every key has a default, so a config lists only what differs. *Source* is the paper that a key
comes from; the defaults are our own. A key marked *live* may be changed during a run, and may
be a schedule instead of a number. [Live values](live_values.md) says when a change takes effect.

An *env step* is one transition of one env, an *update* is one gradient step, a *time step* is one
step of all envs.

`base = "NAME"` is not in the tables: it takes all values from another config, which is a shipped
one or a path.

"""


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
