"""Datasets of somebody else: nothing is imported, no other file is read, nothing waits or grows."""

import contextlib
import io
import json
import os
import shutil
import socket
import sys

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple
from minari.data_collector.episode_buffer import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from PIL import Image

from targetnet.agents.config.model import DqnConfig
from targetnet.agents.data.metadata import DataError
from targetnet.agents.data.minari_files import Dataset
from targetnet.agents.data.run_dataset import fill, with_dataset
from targetnet.agents.run.agent_factory import agent_for
from targetnet.agents.run.train import train
from targetnet.envs import make_envs
from targetnet.rl_core.errors import RlCoreError
from tests.agents.data.datasets import random_episodes, written

STEPS = (9, 1, 14, 6)  # of the episodes of `path`
SMALL = {"hidden": (8,), "batch_size": 8, "learn_start": 0, "past_states": 0, "xla": False}


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "random-v0", random_episodes(lengths=STEPS))


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that must not be imported, where it could be."""
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)


def config_of(path, **settings):
    return DqnConfig(**SMALL | {"offline": str(path)} | settings)


def complaint(path, **settings):
    with pytest.raises(DataError) as refused:
        with_dataset(config_of(path, **settings))
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)
    return str(refused.value)


def metadata_of(path):
    return json.loads((path / "data" / "metadata.json").read_text())


def put_metadata(path, **changes):
    """Changes the metadata; None takes a key away."""
    new = {k: v for k, v in (metadata_of(path) | changes).items() if v is not None}
    (path / "data" / "metadata.json").write_text(json.dumps(new))


def put_spec(path, **changes):
    spec = json.loads(metadata_of(path)["env_spec"]) | changes
    put_metadata(path, env_spec=json.dumps(spec))


def put_array(path, name, make, episode="episode_2"):
    """Puts another array in place of one of an episode: make(group, name, old)."""
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        group = file[episode]
        old = group[name][()]
        del group[name]
        make(group, name, old)


# Nothing that a dataset names is imported.


@pytest.mark.usefixtures("evil")
def test_the_env_of_a_dataset_is_taken_without_its_module(path):
    wrapper = {"name": "W", "entry_point": "evil:W", "kwargs": {}}
    put_spec(path, id="evil:CartPole-v1", entry_point="evil:E", vector_entry_point="evil:V")
    put_metadata(path, eval_env_spec=metadata_of(path)["env_spec"])
    config = with_dataset(config_of(path))
    assert (config.env_id, config.env_kwargs) == ("CartPole-v1", {})
    put_spec(path, id="evil:Maze-v0")
    assert "--set env_id=MODULE:Maze-v0" in complaint(path)
    put_spec(path, id="evil:CartPole-v1", additional_wrappers=[wrapper])
    assert "with the wrappers W" in complaint(path)
    put_spec(path, additional_wrappers=[])
    put_metadata(path, observation_space=None)  # Minari would make the env to get it
    assert "must have 'observation_space'" in complaint(path)
    put_metadata(path, observation_space=json.dumps({"type": "evil:Space"}))
    assert "is no space of Minari" in complaint(path)
    assert "evil" not in sys.modules


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize("value", ["evil:f", "evil.py", "/etc", {"a": [{"b": "evil.f"}]}])
def test_arguments_of_the_env_are_numbers_and_words(path, value):
    put_spec(path, kwargs={"render_mode": "human", "mode": "a word", "levels": [1, [0.5]]})
    kept = with_dataset(config_of(path, env_kwargs={}))
    assert kept.env_kwargs == {}
    with pytest.raises(RlCoreError, match="takes no argument 'mode'"):  # so it was given
        with_dataset(config_of(path))
    put_spec(path, kwargs={"where": value})
    assert "CartPole-v1 with 'where' = " in complaint(path)


# No other file is read.


def another_file(path):
    other = path.parent / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = np.zeros((15, 4), np.float32)
    return other


def link(target):
    return lambda path: put_array(
        path, "observations", lambda group, name, old: group.__setitem__(name, target(path))
    )


def external(file):
    return h5py.ExternalLink(str(file), "/x")


def over_an_external_link(path):
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        file["other"] = h5py.ExternalLink(str(another_file(path)), "/")
    return h5py.SoftLink("/other/x")


def external_storage(path):
    (path.parent / "raw").write_bytes(bytes(240))
    where = [(str(path.parent / "raw"), 0, 240)]
    put_array(
        path,
        "observations",
        lambda group, name, old: group.create_dataset(name, old.shape, old.dtype, external=where),
    )


def virtual(source):
    def change(path):
        def make(group, name, old):
            layout = h5py.VirtualLayout(old.shape, old.dtype)
            layout[:] = h5py.VirtualSource(str(source(path)), "x", shape=old.shape)
            group.create_virtual_dataset(name, layout)

        put_array(path, "observations", make)

    return change


def pipe_beside(path):
    pipe = path.parent / "pipe"
    os.mkfifo(pipe)
    return pipe


def linked_infos(path):
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        file["episode_2"]["infos"] = external(another_file(path))


def linked_episode(path):
    other = path.parent / "other.h5"
    shutil.copy(path / "data" / "main_data.hdf5", other)
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        del file["episode_2"]
        file["episode_2"] = h5py.ExternalLink(str(other), "/episode_2")


@pytest.mark.timeout(20)  # a pipe would wait for ever
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (link(lambda path: external(another_file(path))), "is a link to another place"),
        (link(lambda path: external(pipe_beside(path))), "is a link to another place"),
        (link(over_an_external_link), "is a link to another place"),
        (link(lambda path: h5py.SoftLink("/episode_0/observations")), "is a link to another place"),
        (linked_infos, "'/episode_2/infos' in main_data.hdf5 is a link"),
        (linked_episode, "'/episode_2' in main_data.hdf5 is a link"),
        (external_storage, "is stored in another file"),
        (virtual(another_file), "is a virtual dataset"),
        (virtual(pipe_beside), "is a virtual dataset"),
    ],
)
def test_a_file_that_reads_other_files_is_refused(path, change, said):
    change(path)
    assert said in complaint(path)


def in_place_of(name, make):
    def change(path):
        (path / "data" / name).unlink()
        make(path / "data" / name)

    return change


def a_socket(place):
    # The whole path of a test can be longer than a socket's name may be.
    with socket.socket(socket.AF_UNIX) as of, contextlib.chdir(place.parent):
        of.bind(place.name)


def moved_out(name):
    def change(path):
        (path / name).rename(path.parent / "moved")
        (path / name).symlink_to(path.parent / "moved")

    return change


DATA, METADATA = "main_data.hdf5", "metadata.json"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (in_place_of(DATA, os.mkfifo), f"{DATA} cannot be read: it is not a regular file"),
        (in_place_of(METADATA, os.mkfifo), f"{METADATA} cannot be read: it is not a regular"),
        (in_place_of(DATA, os.mkdir), f"{DATA} cannot be read: it is not a regular file"),
        (in_place_of(METADATA, os.mkdir), f"{METADATA} cannot be read: it is not a regular"),
        (in_place_of(DATA, a_socket), f"{DATA} cannot be read"),
        (in_place_of(DATA, lambda at: at.symlink_to("/dev/zero")), "leads out of the dataset's"),
        (in_place_of(METADATA, lambda at: at.symlink_to("/dev/zero")), "leads out of the"),
        (in_place_of(DATA, lambda at: at.symlink_to(at.name)), f"data/{DATA} cannot be opened"),
        (in_place_of(DATA, lambda at: None), f"data/{DATA} cannot be opened: No such file"),
        (in_place_of(METADATA, lambda at: at.write_bytes(bytes(1 << 25))), "it has 33,554,432"),
        (moved_out(f"data/{DATA}"), f"data/{DATA} is a link that leads out of the dataset's"),
        (moved_out("data"), f"data/{METADATA} is a link that leads out of the dataset's"),
    ],
)
def test_files_of_other_kinds_and_links_out_of_the_directory_are_refused(path, change, said):
    change(path)
    assert said in complaint(path)


def test_a_link_within_the_directory_is_followed(path):
    wanted = with_dataset(config_of(path)).dataset_digest
    (path / "data" / DATA).rename(path / "real.h5")
    (path / "data" / DATA).symlink_to("../real.h5")
    link_to = path.parent / "link-v0"
    link_to.symlink_to(path)
    assert with_dataset(config_of(link_to)).dataset_digest == wanted


# Nothing grows without end.


def box(shape, dtype="float32"):
    return json.dumps({"type": "Box", "dtype": dtype, "shape": shape, "low": 0, "high": 1})


def nested(depth):
    space = {"type": "Discrete", "n": 2, "start": 0}
    for _ in range(depth):
        space = {"type": "Tuple", "subspaces": [space]}
    return json.dumps(space)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"total_episodes": 10**9}, "says 1,000,000,000 episodes, and main_data.hdf5 has 4"),
        ({"total_episodes": 1e9}, "must be a whole number >= 0, got 1000000000.0"),
        ({"total_episodes": -1}, "total_episodes in metadata.json must be a whole number >= 0"),
        ({"total_episodes": "4"}, "got '4'"),
        ({"total_episodes": True}, "got True"),
        ({"total_episodes": None}, "got None"),
        ({"total_steps": 10**18}, "steps, more than main_data.hdf5 can have"),
        ({"total_steps": -30}, "total_steps in metadata.json must be a whole number >= 0"),
        ({"observation_space": box([10**6, 10**6])}, "more than 8,388,608 numbers"),
        ({"observation_space": box([-1])}, "a length of observation_space"),
        ({"observation_space": box([4], "object")}, "has numbers of type 'object'"),
        ({"observation_space": '{"type": "MultiBinary", "n": 1000000000000}'}, "more than"),
        ({"observation_space": nested(40)}, "is no space of Minari"),
        ({"observation_space": "[" * 100_000}, "is no JSON"),
        ({"env_spec": "[]"}, "env_spec in metadata.json must be a JSON object"),
        ({"data_format": "arrow"}, "wanted data_format 'hdf5', got 'arrow'"),
    ],
)
def test_metadata_out_of_bounds_are_refused_before_anything_is_allocated(path, changes, said):
    put_metadata(path, **changes)
    assert said in complaint(path)


def virtually(shape, **how):
    return lambda group, name, old: group.create_dataset(name, shape, old.dtype, **how)


def by_plugin(group, name, old):
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(old.shape)
    made.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (1,))
    space = h5py.h5s.create_simple(old.shape)
    h5py.h5d.create(group.id, name.encode(), h5py.h5t.NATIVE_DOUBLE, space, made)


def references(group, name, old):
    group.create_dataset(name, data=[group.ref] * len(old), dtype=h5py.ref_dtype)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("rewards", virtually((10**12,), chunks=(1000,)), "cannot be unpacked"),
        ("observations", virtually((15, 10**12), chunks=(15, 1000)), "cannot be unpacked"),
        (
            "rewards",
            virtually((14,), maxshape=(None,), chunks=(500_000_000,), compression="gzip"),
            "has chunks of 4 GB for an array of 112",
        ),
        ("rewards", by_plugin, "needs the plugin of filter 32015"),
        ("rewards", references, "has no numbers"),
        ("rewards", lambda group, name, old: group.create_group(name), "is no array"),
        (
            "rewards",
            lambda group, name, old: group.create_dataset(name, data=h5py.Empty("f8")),
            "has no values",
        ),
    ],
)
def test_arrays_that_no_honest_file_has_are_refused_before_they_are_read(path, name, make, said):
    put_array(path, name, make)
    assert said in complaint(path)


def test_an_episode_that_memory_cannot_hold_is_refused(path, monkeypatch):
    monkeypatch.setattr("targetnet.agents.data.hdf5.memory_limit", lambda: 600)
    assert "there is memory for an episode of 300" in complaint(path)


def test_a_key_is_no_path_through_the_file(path):
    inner = json.loads(box([4])) | {"low": [0] * 4, "high": [1] * 4}
    for key in ("/episode_0/observations", "../episode_0", "."):
        space = json.dumps({"type": "Dict", "subspaces": {key: inner}})
        put_metadata(path, observation_space=space)
        with h5py.File(path / "data" / DATA, "a") as file:
            for of in file.values():
                del of["observations"]
                of.create_group("observations")
        with pytest.raises(DataError, match="is no name of a part"):
            next(Dataset(path).episodes())
        shutil.rmtree(path)
        written(path)


# Pictures, texts and tuples are what Minari reads.

SPACE = Dict(cam=Box(0, 255, (40, 36, 3), np.uint8), says=Text(9), at=Tuple((Discrete(4),) * 2))


def pictures(tmp_path):
    """A dataset as Minari writes it by itself, with JPEG."""
    path = tmp_path / "pictures-v0"
    path.mkdir()
    spec = gym.make("CartPole-v1").spec
    storage = MinariStorage.new(path / "data", SPACE, Discrete(2), spec)
    about = {"dataset_id": path.name, "minari_version": minari.__version__}
    storage.update_metadata(about)
    rng = np.random.default_rng(0)
    storage.update_episodes(
        EpisodeBuffer(
            observations={
                "cam": rng.integers(0, 255, (T + 1, 40, 36, 3), np.uint8),
                "says": ["go" * (t % 3) for t in range(T + 1)],
                "at": (rng.integers(0, 4, T + 1), rng.integers(0, 4, T + 1)),
            },
            actions=rng.integers(0, 2, T),
            rewards=rng.normal(size=T),
            terminations=np.arange(T) == T - 1,
            truncations=np.zeros(T, bool),
            infos={"action_mask": np.ones((T + 1, 2), np.int8), "more": np.zeros(T + 1)},
        )
        for T in (5, 1, 9)
    )
    return path


def test_pictures_texts_tuples_and_masks_are_what_minari_reads(tmp_path):
    path = pictures(tmp_path)
    found, wanted = [*Dataset(path).episodes()], [*minari.MinariDataset(path / "data")]
    assert len(found) == len(wanted) == 3
    for ours, theirs in zip(found, wanted, strict=True):
        assert [*ours.observations] == [*theirs.observations] == ["at", "cam", "says"]
        assert ours.observations["says"] == theirs.observations["says"]
        for of in ("cam", "at"):
            np.testing.assert_array_equal(
                ours.observations[of], theirs.observations[of], strict=True
            )
        for name in ("actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), strict=True)
        mask = theirs.infos["action_mask"]
        np.testing.assert_array_equal(ours.infos["action_mask"], mask, strict=True)


@pytest.mark.parametrize(
    ("form", "size", "said"),
    [
        ("JPEG", (6_000, 6_000), "is of (6000, 6000), and the space says (40, 36)"),
        ("PNG", (36, 40), "UnidentifiedImageError"),  # Pillow reads some with another program
    ],
)
def test_a_picture_of_another_size_or_format_is_not_unpacked(tmp_path, form, size, said):
    path = pictures(tmp_path)
    packed = io.BytesIO()
    Image.new("RGB", size).save(packed, form)
    data = np.frombuffer(packed.getvalue(), np.uint8)

    def make(group, name, old):
        column = group.create_dataset(name, (len(old),), h5py.vlen_dtype(np.uint8))
        column[:] = [data] * len(old)

    put_array(path, "cam", make, "episode_1/observations")
    with pytest.raises(DataError, match=said.replace("(", r"\(").replace(")", r"\)")):
        [*Dataset(path).episodes()]


# The steps of a dataset.


@pytest.mark.cases(0)
@pytest.mark.parametrize("columns", ["of no row", "as floats", "with its reset"])
def test_an_empty_episode_is_skipped(path, columns):
    whole = rows_of(path)
    with h5py.File(path / "data" / DATA, "a") as file:
        file.move("episode_3", "episode_4")
        old, group = file["episode_2"], file.create_group("episode_3")
        for name, column in old.items():
            kept = column[: name == "observations" and columns == "with its reset"]
            group.create_dataset(name, data=np.zeros((0,)) if columns == "as floats" else kept)
    put_metadata(path, total_episodes=5)
    found = rows_of(path)
    for name, column in whole.items():
        np.testing.assert_array_equal(found[name], column, strict=True)


def agent_of(config):
    return agent_for(config, make_envs(config.env_id, 1, seed=0))


def rows_of(path):
    config = with_dataset(config_of(path, env_id="CartPole-v1"))
    agent = agent_of(config)
    fill(agent)
    assert agent.state.contents.written() == sum(STEPS) + len(STEPS)
    return agent.state.contents.time_steps(0, agent.state.contents.written())


def other_reward(path):
    def make(group, name, old):
        old[3] += 1
        group.create_dataset(name, data=old)

    put_array(path, "rewards", make)


def other_episodes(lengths):
    def change(path):
        shutil.rmtree(path)
        written(path, random_episodes(lengths=lengths))

    return change


@pytest.mark.parametrize("key", ["offline", "begin_with"])
@pytest.mark.parametrize("change", [other_reward, other_episodes((40,) * 9), other_episodes((3,))])
def test_a_dataset_that_changes_before_it_fills_the_replay_is_noticed(path, key, change):
    config = with_dataset(DqnConfig(**SMALL | {"env_id": "CartPole-v1", key: str(path)}))
    agent = agent_of(config)
    change(path)
    with pytest.raises(DataError, match="has changed since it was looked through: wanted the dig"):
        fill(agent)


def test_a_run_whose_dataset_changes_as_it_begins_leaves_nothing(path, tmp_path, monkeypatch):
    def build(*arguments):
        other_reward(path)
        return agent_for(*arguments)

    monkeypatch.setattr("targetnet.agents.run.train.agent_for", build)
    with pytest.raises(DataError, match="has changed since"):
        train(config_of(path, env_id="CartPole-v1"), tmp_path / "run", console=None)
    assert not (tmp_path / "run").exists()
