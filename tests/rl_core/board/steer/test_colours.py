"""The colours of runs, computed from the style sheet: eyes differ."""

import itertools
import re

import numpy as np
import pytest

from targetnet.rl_core.board.steer.plugin import STATIC

# What a person without one kind of cones sees, in linear RGB: Machado, Oliveira & Fernandes (2009),
# https://doi.org/10.1109/TVCG.2009.113, severity 1.
EYES = {
    "all cones": np.eye(3),
    "no red cones": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green cones": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue cones": [
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    colour = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a, b):
    """The contrast of WCAG, 1 to 21."""
    low, high = sorted((TO_XYZ[1] @ a, TO_XYZ[1] @ b))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(params=[0, 1], ids=["light", "dark"])
def theme(request):
    """Name -> colour of one theme."""
    blocks = re.findall(r":root[^{]*\{(.*?)\}", (STATIC / "style.css").read_text(), re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#\w+);", blocks[request.param]))


def runs(theme):
    return [linear(theme[f"run-{slot}"]) for slot in range(8)]


@pytest.mark.parametrize("eyes", EYES)
def test_the_colours_of_runs_differ_for_every_eye(theme, eyes):
    seen = [lab(np.array(EYES[eyes]) @ colour) for colour in runs(theme)]
    # About 2 is the least difference that is noticed side by side.
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def test_the_colours_of_runs_stand_out_from_the_page(theme):
    assert min(contrast(colour, linear(theme["back"])) for colour in runs(theme)) > 2.7
