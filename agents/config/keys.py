"""Docs page of all keys of a config.

`python -m targetnet.agents.config.keys` prints docs/reference/config.md.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.config.pbt import PbtKeys
from targetnet.agents.config.settings import Settings
from targetnet.rl_core.hyperparameters import Knob
from targetnet.rl_core.schedules import SCHEDULES

# The papers that keys come from.
PAPERS = {
    "Ba et al. 2016": "https://arxiv.org/abs/1607.06450",
    "Clevert et al. 2016": "https://arxiv.org/abs/1511.07289",
    "Hendrycks & Gimpel 2016": "https://arxiv.org/abs/1606.08415",
    "Elfwing et al. 2018": "https://arxiv.org/abs/1702.03118",
    "Kingma & Ba 2015": "https://arxiv.org/abs/1412.6980",
    "Loshchilov & Hutter 2019": "https://arxiv.org/abs/1711.05101",
    "Rumelhart et al. 1986": "https://doi.org/10.1038/323533a0",
    "Pascanu et al. 2013": "https://arxiv.org/abs/1211.5063",
    "Huber 1964": "https://doi.org/10.1214/aoms/1177703732",
    "Polyak & Juditsky 1992": "https://doi.org/10.1137/0330046",
    "Watkins & Dayan 1992": "https://doi.org/10.1007/BF00992698",
    "Mnih et al. 2015": "https://doi.org/10.1038/nature14236",
    "Young & Tian 2019": "https://arxiv.org/abs/1903.03176",
    "Kapturowski et al. 2019": "https://openreview.net/forum?id=r1lyTjAqYX",
    "Pohlen et al. 2018": "https://arxiv.org/abs/1805.11593",
    "Espeholt et al. 2018": "https://arxiv.org/abs/1802.01561",
    "van Hasselt et al. 2016": "https://arxiv.org/abs/1509.06461",
    "Lillicrap et al. 2016": "https://arxiv.org/abs/1509.02971",
    "Asadi et al. 2023": "https://arxiv.org/abs/2306.17833",
    "Ellis et al. 2024": "https://arxiv.org/abs/2412.17113",
    "Nikishin et al. 2022": "https://arxiv.org/abs/2205.07802",
    "Ash & Adams 2020": "https://arxiv.org/abs/1910.08475",
    "Sokar et al. 2023": "https://arxiv.org/abs/2302.12902",
    "Anschel et al. 2017": "https://arxiv.org/abs/1611.01929",
    "Hendawy et al. 2025": "https://arxiv.org/abs/2510.02590",
    "Piché et al. 2021": "https://arxiv.org/abs/2106.02613",
    "Vincent et al. 2024": "https://arxiv.org/abs/2403.02107",
    "Vincent et al. 2025": "https://arxiv.org/abs/2506.04398",
    "Asadi et al. 2021": "https://arxiv.org/abs/2112.05848",
    "Weissmann et al. 2026": "https://arxiv.org/abs/2602.03911",
    "Vieillard et al. 2020": "https://arxiv.org/abs/2007.14430",
    "Wang et al. 2016": "https://arxiv.org/abs/1511.06581",
    "Fortunato et al. 2018": "https://arxiv.org/abs/1706.10295",
    "Bellemare et al. 2017": "https://arxiv.org/abs/1707.06887",
    "Dabney et al. 2018": "https://arxiv.org/abs/1710.10044",
    "Imani & White 2018": "https://arxiv.org/abs/1806.04613",
    "Farebrother et al. 2024": "https://arxiv.org/abs/2403.03950",
    "Dabney et al. 2018b": "https://arxiv.org/abs/1806.06923",
    "Yang et al. 2019": "https://arxiv.org/abs/1911.02140",
    "Schaul et al. 2016": "https://arxiv.org/abs/1511.05952",
    "Hessel et al. 2018": "https://arxiv.org/abs/1710.02298",
    "Kumar et al. 2020": "https://arxiv.org/abs/2006.04779",
    "Hester et al. 2018": "https://arxiv.org/abs/1704.03732",
    "Gallici et al. 2024": "https://arxiv.org/abs/2407.04811",
    "Peng & Williams 1996": "https://doi.org/10.1007/BF00114731",
    "Daley & Amato 2021": "https://arxiv.org/abs/2111.01264",
    "Jaderberg et al. 2017": "https://arxiv.org/abs/1711.09846",
    "Horgan et al. 2018": "https://arxiv.org/abs/1803.00933",
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
    knobs, facts = {knob.name: knob for knob in DqnConfig.knobs()}, group.facts()[name]
    switches = ", ".join(f"`{name}`" for name in DqnConfig.switches())
    shown, values = f"`{name}`", facts.values.replace("{switches}", switches) or _values(field)
    if name in knobs:
        shown, values = f"`{name}` (live)", knobs[name].bounds
    meaning = re.sub(r"docs/(\w+/(\w+)\.md)", r"[\2](../\1)", field.description or "")
    default = "" if field.is_required() or field.default is None else f"`{_toml(field.default)}`"
    papers = ", ".join(f"[{of}]({PAPERS[of]})" for of in facts.papers)
    cells = (shown, meaning, default, facts.unit, values, papers)
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


_HEAD = """\
| key | meaning | default | unit | values | source |
|---|---|---|---|---|---|
"""
_PAGE = """\
# Keys of a config

<!-- Generated from agents/config/*_keys.py by make docs. -->

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
