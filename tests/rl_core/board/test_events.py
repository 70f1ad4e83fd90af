"""Event files: read back with TensorBoard's own reader, without TensorFlow."""

import math
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams import metadata as hparams_plugin
from tensorboard.util.tensor_util import make_ndarray

from targetnet.rl_core.board import events
from targetnet.rl_core.board.events import EventWriter
from targetnet.rl_core.board.once import CHARTS, animation_event, hparams_event
from targetnet.rl_core.board.tags import TAGS, tag_named
from targetnet.rl_core.errors import RunDirError, UnknownName

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tags.md"
NEVER = math.inf


@pytest.fixture
def read(monkeypatch):
    """Reads a run directory's events as TensorBoard does, all of them."""
    notf = "tensorboard.compat.notf"
    monkeypatch.setitem(sys.modules, notf, types.ModuleType(notf))

    def read(logdir):
        guidance = {"scalars": 0, "tensors": 0}
        return EventAccumulator(str(logdir), size_guidance=guidance).Reload()

    return read


def only_file(logdir):
    (path,) = logdir.iterdir()
    return path


def points(accumulator, tag):
    return [(point.step, point.value) for point in accumulator.Scalars(tag)]


def tensor(accumulator, tag):
    (event,) = accumulator.Tensors(tag)
    return make_ndarray(event.tensor_proto)


# --- what is written comes back


def test_scalars_come_back_with_their_steps(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        writer.scalar("learn/loss", 0.5, 10)
        writer.scalars({"learn/loss": np.float32(0.25), "episode/return": 7}, np.int64(20))
    got = read(tmp_path)
    assert points(got, "learn/loss") == [(10, 0.5), (20, 0.25)]
    assert points(got, "episode/return") == [(20, 7.0)]


def test_a_file_that_goes_on_after_an_env_step_replaces_the_points_beyond_it(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        for env_step in (5, 6, 7):
            writer.scalar("learn/loss", env_step, env_step)
    with EventWriter(tmp_path, after=6) as writer:
        writer.scalar("learn/loss", 0.5, 8)
    assert points(read(tmp_path), "learn/loss") == [(5, 5.0), (6, 6.0), (8, 0.5)]


def test_a_diverging_loss_stays_visible(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        for step, loss in enumerate([math.inf, -math.inf, 1e300, math.nan]):  # 1e300: no float32
            writer.scalar("learn/loss", loss, step)
    *numbers, (_, last) = points(read(tmp_path), "learn/loss")
    assert numbers == [(0, math.inf), (1, -math.inf), (2, math.inf)]
    assert math.isnan(last)


def test_a_text_comes_back(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        writer.text("run/config", "# CartPole\n\nö", 3)
    assert tensor(read(tmp_path), "run/config").item().decode() == "# CartPole\n\nö"


def test_every_tag_carries_its_unit_and_meaning(tmp_path, read):
    write = {
        "scalar": lambda writer, tag: writer.scalar(tag, 1.0, 1),
        "histogram": lambda writer, tag: writer.histogram(tag, [1.0], 1),
        "text": lambda writer, tag: writer.text(tag, "text", 1),
        "image": lambda writer, tag: writer.add(animation_event(tag, b"GIF89a", 1, 1, 0)),
    }
    with EventWriter(tmp_path) as writer:
        for tag in TAGS:
            write[tag.kind](writer, tag.name)
    got = read(tmp_path)
    for tag in TAGS:
        if tag.kind == "image":  # TensorBoard writes what it knows of a picture itself
            continue
        description = got.SummaryMetadata(tag.name).summary_description
        assert description == f"{tag.meaning} Unit: {tag.unit}. X axis: env steps."


def test_hparams_are_numbers_truths_or_else_texts(tmp_path, read):
    values = {"lr": 0.5, "steps": 3, "dueling": True, "env": "X", "none": None, "huge": math.inf}
    with EventWriter(tmp_path) as writer:
        writer.add(hparams_event(values))
    content = read(tmp_path).SummaryMetadata(hparams_plugin.SESSION_START_INFO_TAG)
    session = hparams_plugin.parse_session_start_info_plugin_data(content.plugin_data.content)
    got = {name: getattr(v, v.WhichOneof("kind")) for name, v in session.hparams.items()}
    assert got == values | {"none": "None", "huge": "inf"}


# --- histograms

BUCKETS = events.HISTOGRAM_BUCKETS


def histogram(tmp_path, read, values):
    with EventWriter(tmp_path) as writer:
        writer.histogram("learn/td_error", values, 1)
    return tensor(read(tmp_path), "learn/td_error")


def test_histogram_buckets_are_equally_wide_and_the_last_is_closed(tmp_path, read):
    got = histogram(tmp_path, read, np.arange(31).reshape(31, 1))  # 0 .. 30, one bucket per unit
    np.testing.assert_allclose(got[:, 0], np.arange(30))
    np.testing.assert_allclose(got[:, 1], np.arange(1, 31))
    np.testing.assert_array_equal(got[:, 2], [1] * 29 + [2])  # 29 and 30 share the last


def test_histogram_of_equal_values_is_counted_in_the_last_bucket(tmp_path, read):
    got = histogram(tmp_path, read, [2.5, 2.5, 2.5])
    np.testing.assert_array_equal(got[:, :2], np.full((BUCKETS, 2), 2.5))
    np.testing.assert_array_equal(got[:, 2], [0] * (BUCKETS - 1) + [3])


@pytest.mark.parametrize("values", [[], [math.nan, math.inf, -math.inf, 1e300]])
def test_histogram_of_nothing_finite_is_all_zero(tmp_path, read, values):
    np.testing.assert_array_equal(histogram(tmp_path, read, values), np.zeros((BUCKETS, 3)))


def test_histogram_leaves_out_what_has_no_place_on_the_axis(tmp_path, read):
    got = histogram(tmp_path, read, [0.0, math.nan, 30.0, math.inf])
    assert (got[0, 0], got[-1, 1], got[:, 2].sum()) == (0.0, 30.0, 2)


def test_histogram_of_a_range_of_one_ulp_is_still_counted(tmp_path, read):
    got = histogram(tmp_path, read, [1.0, np.nextafter(1.0, 2.0)])
    assert (got[0, 2], got[-1, 2]) == (1, 1)


def test_histogram_agrees_with_tensorboards_own_slower_one(tmp_path, read):
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    want = make_ndarray(histogram_pb("x", values).value[0].tensor)
    np.testing.assert_allclose(histogram(tmp_path, read, values), want)


# --- names


def test_an_unknown_tag_is_refused_with_the_nearest_name(tmp_path):
    with (
        EventWriter(tmp_path) as writer,
        pytest.raises(UnknownName, match="'learn/los'; did you mean 'learn/loss'"),
    ):
        writer.scalar("learn/los", 1.0, 1)


def test_a_tag_of_another_kind_is_refused_also_after_its_first_use(tmp_path):
    with EventWriter(tmp_path) as writer:
        writer.histogram("learn/td_error", [1.0], 1)
        with pytest.raises(UnknownName, match=r"no scalar tag .* it is a histogram"):
            writer.scalar("learn/td_error", 1.0, 1)
        with pytest.raises(UnknownName, match=r"no text tag .* it is a scalar"):
            writer.text("learn/loss", "text", 1)


def test_one_unknown_tag_among_several_writes_none_and_spoils_none(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        with pytest.raises(UnknownName):
            writer.scalars({"learn/loss": 1.0, "no/such": 2.0}, 1)
        writer.scalar("learn/loss", 3.0, 2)
    got = read(tmp_path)
    assert points(got, "learn/loss") == [(2, 3.0)]
    meaning = tag_named("learn/loss", "scalar").meaning
    assert got.SummaryMetadata("learn/loss").summary_description.startswith(meaning)


def test_the_charts_that_belong_together_are_of_scalars_that_there_are():
    tags = [tag for _, curves in CHARTS for tag in curves]
    assert len(tags) > 4 and {tag_named(tag, "scalar").name for tag in tags} == set(tags)


def test_tag_names_are_unique_and_have_a_group():
    names = [tag.name for tag in TAGS]
    assert len(set(names)) == len(names)
    assert all(name.count("/") == 1 for name in names)


# --- buffering


@pytest.fixture
def writes(monkeypatch):
    """The sizes of the writes that reached the system, in order."""
    sizes = []
    pwrite = events.os.pwrite

    def record(file, data, position):
        sizes.append(len(data))
        return pwrite(file, data, position)

    monkeypatch.setattr(events.os, "pwrite", record)
    return sizes


def test_a_flush_is_one_write_and_an_empty_one_none(tmp_path, writes):
    with EventWriter(tmp_path, flush_seconds=NEVER) as writer:
        del writes[:]  # the file version
        for step in range(100):
            writer.scalar("learn/loss", 1.0, step)
        assert writes == []
        writer.flush()
        writer.flush()
        assert len(writes) == 1


def test_position_is_the_end_of_the_last_whole_event_written(tmp_path, read):
    with EventWriter(tmp_path, flush_seconds=NEVER) as writer:
        writer.scalar("learn/loss", 1.0, 1)
        writer.flush()
        position = writer.position
        assert position == only_file(tmp_path).stat().st_size
        writer.scalar("learn/loss", 2.0, 2)
        assert writer.position == position
    assert writer.position == only_file(tmp_path).stat().st_size > position
    with only_file(tmp_path).open("r+b") as file:
        file.truncate(position)
    assert points(read(tmp_path), "learn/loss") == [(1, 1.0)]


def test_an_event_that_waited_too_long_is_written_when_the_next_is_added(
    tmp_path, monkeypatch, writes
):
    now = 100.0
    monkeypatch.setattr(events.time, "monotonic", lambda: now)
    with EventWriter(tmp_path, flush_seconds=2.0) as writer:
        del writes[:]
        for now, written in [(100.0, 0), (102.0, 0), (102.5, 1), (104.0, 1), (106.5, 2)]:
            writer.scalar("learn/loss", 1.0, 1)
            assert len(writes) == written, now


def test_a_full_buffer_is_written_at_once(tmp_path, writes):
    with EventWriter(tmp_path, flush_seconds=NEVER) as writer:
        del writes[:]
        writer.text("run/config", "x" * events.MAX_BUFFER_BYTES, 1)
        assert len(writes) == 1


def test_closing_writes_the_rest_and_may_be_repeated(tmp_path, read):
    writer = EventWriter(tmp_path, flush_seconds=NEVER)
    writer.scalar("learn/loss", 1.0, 1)
    writer.close()
    writer.close()
    assert points(read(tmp_path), "learn/loss") == [(1, 1.0)]


# --- files


def test_writers_of_the_same_second_have_their_own_files(tmp_path):
    with EventWriter(tmp_path), EventWriter(tmp_path):
        names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert all(name.startswith("events.out.tfevents.") for name in names)


def test_the_first_event_is_the_file_version(tmp_path, read):
    with EventWriter(tmp_path) as writer:
        writer.scalar("learn/loss", 1.0, 1)
    assert read(tmp_path).file_version == 2.0


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunDirError) as error:
        EventWriter(tmp_path / "file" / "run")
    assert str(error.value) == (
        f"cannot write TensorBoard events to {tmp_path}/file/run: Not a directory"
    )


# A limit on the size of files cuts a write short exactly as a full disk does; in a process of
# its own, because pytest writes files too.
FULL_DISK = """
import resource, sys
from pathlib import Path
from targetnet.rl_core.errors import RunDirError
from targetnet.rl_core.board.events import EventWriter

hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with EventWriter(Path(sys.argv[1]), flush_seconds=1e9) as writer:
    for step in range(100):
        writer.scalar("learn/loss", step, step)
    before = writer.position
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    for attempt in range(2):
        try:
            writer.flush()
        except RunDirError as error:
            print(error)
    assert writer.position == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
"""


def test_a_full_disk_is_one_clear_line_and_loses_nothing_once_there_is_room(tmp_path, read):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path], check=True, capture_output=True, text=True
    )
    line = f"cannot write TensorBoard events to {only_file(tmp_path)}: File too large"
    assert done.stdout.splitlines() == [line, line]
    assert points(read(tmp_path), "learn/loss") == [(step, step) for step in range(100)]


# --- the module


def test_importing_it_does_not_import_tensorflow():
    check = "import targetnet.rl_core.board.events, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_the_docs_page_is_what_the_command_prints():
    command = [sys.executable, "-m", "targetnet.rl_core.board.events"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert PAGE.read_text() == printed, "run `make docs`"
    assert all(f"`{tag.name}`" in printed for tag in TAGS)
