"""Curves out of TensorBoard's memory: bounded, whatever a run's event files say."""

from types import SimpleNamespace

from targetnet.rl_core.board.steer.curves import Curves

REQUEST = SimpleNamespace(environ={})


class Provider:
    """A data provider of one run with these curves: tag -> description."""

    def __init__(self, described):
        self.described = described

    def list_scalars(self, ctx, *, run_tag_filter, **_):
        (run,) = run_tag_filter.runs
        return {run: {t: SimpleNamespace(description=d) for t, d in self.described.items()}}


def tags(described):
    return Curves(Provider(described)).tags(REQUEST, "some/run")


def test_unit_and_meaning_are_read_from_the_description():
    ours = "Updates since the target was last copied. Unit: updates. X axis: env steps."
    assert tags({"target/age": ours, "theirs": "a loss", "bare": ""}) == [
        {"tag": "bare", "unit": "", "meaning": ""},
        {
            "tag": "target/age",
            "unit": "updates",
            "meaning": "Updates since the target was last copied.",
        },
        {"tag": "theirs", "unit": "", "meaning": "a loss"},
    ]


def test_a_list_of_curves_is_short_whatever_the_event_files_say():
    many = {f"tag-{number:06}": "" for number in range(10_000)}
    assert len(tags(many)) == 500
    found = tags({"x" * 10_000: "", "y": "word " * 10**6, "": "", "z": "Unit: \x1b[2J" + "u" * 999})
    assert [tag["tag"] for tag in found] == ["y", "z"]
    assert all(len(tag["unit"]) <= 40 and len(tag["meaning"]) <= 300 for tag in found)
    assert all(tag["meaning"].isprintable() for tag in found)


def test_without_a_data_provider_there_are_no_curves():
    curves = Curves(None)
    assert curves.tags(REQUEST, "some/run") == []
    assert curves.points(REQUEST, "some/run", ["episode/return"], 10) == {}
