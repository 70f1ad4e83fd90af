"""No config, however it is made, gives anything but a config or one short line."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from targetnet.agents.config.files import (
    changed_config,
    dump_config,
    load_config,
    read_config,
)
from targetnet.agents.config.model import DqnConfig
from targetnet.rl_core.errors import ConfigError

ESCAPE = "\x1b[2J\x1b]0;title\x07"
TEXTS = {
    "deep lists": "hidden = " + "[" * 5_000 + "]" * 5_000,
    "lists that just can be read": "env_kwargs = {a = " + "[" * 100 + "]" * 100 + "}",
    "deep tables": "env_kwargs = " + "{a = " * 2_000 + "1" + "}" * 2_000,
    "a deep dotted name": "env_kwargs." + "a." * 100 + "a = 1",
    "a long dotted name": "a." * 200_000 + "a = 1",
    "a table of a long dotted name": "[" + "a." * 200_000 + "a]",
    "5,000 digits": "sync_period = " + "9" * 5_000,
    "5,000 digits in a list": "hidden = [" + "9" * 5_000 + "]",
    "4,000 hexadecimal digits in a table": "env_kwargs = {a = [{b = 0x" + "f" * 4_000 + "}]}",
    "4,000 digits in a list": "hidden = [" + "9" * 4_000 + "]",
    "no number in a table": "env_kwargs = {a = [1.0, nan]}",
    "epochs beyond int32": "env_id = 'CartPole-v1'\nrollout = 64\nnum_envs = 32\nbatch_size = 128\n"
    "loop = 'plain'\nepochs = 200_000_000",
    "4,000 digits": "batch_size = " + "9" * 4_000,
    "4,000 digits of steps": "epsilon = {schedule = 'linear', start = 1, end = 0, steps = "
    + "9" * 4_000
    + "}",
    "a share of 4,000 digits of steps": "env_steps = "
    + "9" * 4_000
    + "\nepsilon = {schedule = 'linear', start = 1, end = 0, fraction = 0.5}",
    "shares of 4,000 digits of steps": "env_steps = "
    + "9" * 4_000
    + "\nepsilon = {schedule = 'piecewise', fractions = [[0, 1], [0.5, 0]]}",
    "a huge value": f"env_id = 3\nloss = '{'x' * 500_000}'",
    "a huge loss": f"loss = '{'x' * 500_000}'",
    "a huge network": f"network = '{'x' * 500_000}'",
    "a huge schedule": f"tau = {{schedule = '{'x' * 500_000}'}}",
    "many points": f"tau = {{schedule = 'piecewise', points = {[[1, 1]] * 5_000}}}",
    "a huge key": f"{'x' * 500_000} = 3",
    "a huge key of a schedule": f"tau = {{schedule = 'constant', value = 1, {'x' * 500_000} = 3}}",
    "a huge key of an arm": f"freeze = [{{exempt = [], updates = 1, {'x' * 500_000} = 3}}]",
    "an escape in a value": f"loss = {ESCAPE!r}".replace("'", '"').replace("\\x", "\\u00"),
    "an escape in a key": f"{ESCAPE!r} = 1".replace("'", '"').replace("\\x", "\\u00"),
    "a newline in a value": r'network = "a\nb"',
    "a base with NUL": r'base = "a\u0000.toml"',
    "a base with NUL in a directory": r'base = "\u0000/cartpole"',
    "a huge base": f"base = '{'x' * 500_000}'",
    "a huge path as base": f"base = '{'x/' * 200_000}y.toml'",
    "a base that is a device": "base = '/dev/zero'\n",
    "a base that is a directory": "base = './'",
    "a base that leads back by a longer way": "base = '../here/mine.toml'",
    "larger than any config": "# " + "x" * (1 << 20),
    "no text": "\udcff",
    "NUL": "\0",
    "v_min": "v_min = -inf",
    "v_max": "v_max = nan",
    "adam_epsilon": "adam_epsilon = 1e39",
    "checkpoint_seconds": "checkpoint_seconds = inf",
    "threads": "threads = 100_000",
    **{
        f"{name} beyond int64": f"{name} = {10**30}"
        for name, field in DqnConfig.model_fields.items()
        if field.annotation is int
    },
}


def refusal(call, *arguments):
    """One short line that no terminal obeys."""
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    text = str(caught.value)
    assert text.isprintable() and len(text) <= 700, text
    return text


@pytest.fixture
def write(tmp_path):
    (tmp_path / "here").mkdir()

    def write(text):
        path = tmp_path / "here" / "mine.toml"
        path.write_bytes(text.encode(errors="surrogateescape"))
        return path

    return write


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_hostile_config_is_refused_in_one_short_line(write, text):
    path = write(text)
    refusal(load_config, str(path))
    refusal(read_config, path)
    assert [p.name for p in path.parent.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    "change",
    [
        *(text for text in TEXTS.values() if "=" in text),
        "a" * 1_000_000,
        f"{ESCAPE}=1",
        "env_kwargs={a=" * 3_000,
        "seed=1\nsync_period=3",
        "seed=1\n[env_kwargs]\na=1",
    ],
    ids=lambda change: repr(change[:40]),
)
def test_a_hostile_change_is_refused_in_one_short_line(change):
    refusal(load_config, "cartpole", [change])
    refusal(lambda: changed_config(DqnConfig(), [change]))


@pytest.mark.parametrize(
    "source", ["x" * 1_000_000, ESCAPE, "\0", "\0.toml", "/" * 5_000, "x/" * 5_000, "", "\ud800/x"]
)
def test_a_hostile_name_of_a_config_is_refused_in_one_short_line(source):
    refusal(load_config, source)


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def loop(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [pipe, loop, device, Path.mkdir])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path, make):
    path = tmp_path / "mine.toml"
    make(path)
    assert "mine.toml" in refusal(load_config, str(path))
    assert "mine.toml" in refusal(read_config, path)
    (tmp_path / "above.toml").write_text('base = "./mine.toml"')
    assert "mine.toml" in refusal(load_config, str(tmp_path / "above.toml"))


def test_a_link_is_followed_where_the_user_typed_it_and_not_in_a_run(tmp_path):
    (tmp_path / "real.toml").write_text("sync_period = 7")
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert load_config(str(tmp_path / "link.toml")).sync_period == 7
    refusal(read_config, tmp_path / "link.toml")


def test_a_tower_of_bases_may_be_twenty_high_and_no_higher(tmp_path):
    for i in range(30):
        (tmp_path / f"{i}.toml").write_text(f'base = "./{i + 1}.toml"\n')
    (tmp_path / "30.toml").write_text("sync_period = 7")
    assert load_config(str(tmp_path / "10.toml")).sync_period == 7
    assert "more than 20 configs" in refusal(load_config, str(tmp_path / "9.toml"))


# At random.

scraps = st.sampled_from(
    ["a", "b.c", "base", "hidden", "tau", "env_kwargs", " = ", "=", "[", "]", "{", "}", '"',
     "'''", '"""', "\n", ",", "#", "\\", "inf", "-nan", "1e999", "0x", "1979-05-27", "07:32:00",
     "[[", "]]", "true", "9" * 5_000, "\0", "\x1b[2J", "\ud800", "schedule", "linear",
     "piecewise", "points"]
)  # fmt: skip
texts = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=60).map(lambda data: data.decode(errors="surrogateescape")),
    st.lists(scraps, max_size=30).map("".join),
)
quietly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.thorough
@quietly
@given(text=texts)
def test_random_text_is_a_config_or_one_line(write, text):
    path = write(text.encode(errors="replace").decode())
    try:
        config = load_config(str(path))
    except ConfigError as error:
        assert str(error).isprintable() and len(str(error)) <= 700
    else:
        path.write_text(dump_config(config))
        assert load_config(str(path)) == config


@quietly
@given(name=st.sampled_from(sorted(DqnConfig.model_fields)), text=texts)
def test_random_changes_are_taken_or_refused_in_one_line(name, text):
    try:
        load_config("cartpole", [f"{name}={text}"])
    except ConfigError as error:
        assert str(error).isprintable() and len(str(error)) <= 700
