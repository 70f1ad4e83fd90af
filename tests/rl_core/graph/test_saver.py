"""An engine's variables in files of TensorFlow: out, in again, and to and from `tf.train.Saver`."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from targetnet.rl_core import ArgumentError, RlCoreError, ScopeMismatch, variables_in

FIRST = {"w": [1.0, 2.0], "head/b": 3, "twin": [1.0, 2.0]}


def build():
    """w = [1, 2], head/b = 3 in int64, and a twin of w, which shares its first value's tensor."""
    first = tf.constant([1.0, 2.0])
    tf.get_variable("w", initializer=first)
    tf.get_variable("head/b", initializer=np.int64(3), trainable=False)
    tf.get_variable("twin", initializer=first)


@pytest.fixture
def started(engine):
    with engine.building():
        build()
    engine.start()
    return engine


def variables_of(engine):
    return {v.op.name: v for v in engine.graph.get_collection("variables")}


def values(engine):
    return {name: v.tolist() for name, v in engine.run(variables_of(engine)).items()}


def put(engine, **new):
    """Sets variables past every saver."""
    for name, value in new.items():
        assign = variables_of(engine)[name.replace("__", "/")].initializer
        engine.run(assign, {assign.inputs[1]: value})


@pytest.fixture
def by_tensorflow(tmp_path):
    """A file of `tf.train.Saver`: w = [5, 6], head/b = 7, twin = [8, 9]."""
    with tf.Graph().as_default(), tf.Session() as session:
        build()
        session.run(tf.global_variables_initializer())
        for v, value in zip(tf.global_variables(), ([5, 6], 7, [8, 9]), strict=True):
            v.load(value, session)
        return tf.train.Saver().save(session, str(tmp_path / "theirs"))


def test_a_saver_made_after_the_start_saves_and_restores_and_adds_no_operation(started, tmp_path):
    operations = started.graph.get_operations()
    saver = started.saver()
    assert saver.save(tmp_path / "new" / "model") == str(tmp_path / "new" / "model")
    put(started, w=[0, 0], head__b=0, twin=[4, 4])
    assert values(started) == {"w": [0, 0], "head/b": 0, "twin": [4, 4]}
    saver.restore(tmp_path / "new" / "model")
    assert values(started) == FIRST
    assert started.graph.get_operations() == operations and started.graph.finalized


def test_a_saver_may_be_made_while_building_and_then_has_what_is_built_later_too(engine, tmp_path):
    with engine.building():
        saver = engine.saver()
        build()
    with pytest.raises(RlCoreError, match="no session yet: call start"):
        saver.save(tmp_path / "model")
    engine.start()
    saver.save(tmp_path / "model")
    assert tf.train.load_checkpoint(str(tmp_path / "model")).get_variable_to_shape_map() == {
        "w": [2], "head/b": [], "twin": [2]
    }  # fmt: skip


def test_tensorflow_restores_what_is_saved_here(started, tmp_path):
    put(started, w=[5, 6], head__b=7)
    path = started.saver().save(tmp_path / "model")
    assert tf.train.load_checkpoint(path).get_tensor("head/b") == 7
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    with tf.Graph().as_default(), tf.Session() as session:
        build()
        tf.train.Saver().restore(session, path)
        got = session.run({v.op.name: v for v in tf.global_variables()})
    assert (got["w"].tolist(), got["head/b"], got["twin"].tolist()) == ([5, 6], 7, [1, 2])


def test_the_directory_may_be_moved(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started.saver().save("old/model")
    (tmp_path / "old").rename(tmp_path / "new")
    assert tf.train.latest_checkpoint("new") == "new/model"


@pytest.mark.parametrize("name", ['a "b" c', "größe"])
def test_any_name_of_a_file_is_found_again(started, tmp_path, name):
    path = started.saver().save(tmp_path / name)
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert len([*tmp_path.iterdir()]) == 3  # index, data and the file that names them


def test_a_name_that_tensorflow_would_take_for_a_pattern_is_refused(started, tmp_path):
    with pytest.raises(RlCoreError, match=r"TensorFlow takes \* \? \[ in the path for a pattern"):
        started.saver().save(tmp_path / "a [b]*")
    assert [*tmp_path.iterdir()] == []


def test_what_tensorflow_saved_is_restored_here(started, by_tensorflow):
    started.saver().restore(by_tensorflow)
    assert values(started) == {"w": [5, 6], "head/b": 7, "twin": [8, 9]}


def test_only_the_chosen_variables_are_restored(started, by_tensorflow):
    of = variables_of(started)
    started.saver([of["w"]]).restore(by_tensorflow)
    assert values(started) == FIRST | {"w": [5, 6]}


def test_a_mapping_restores_under_other_names(started, by_tensorflow):
    of = variables_of(started)
    started.saver({"w": of["twin"]}).restore(by_tensorflow)
    assert values(started) == FIRST | {"twin": [5, 6]}


def test_variables_of_a_scope_are_saved_by_their_relative_names(engine, tmp_path):
    with engine.building():
        for scope in ("online", "target"):
            with tf.variable_scope(scope):
                tf.get_variable("w", initializer=np.float32(len(scope)))
        saver, other = (engine.saver(variables_in(scope)) for scope in ("online", "target"))
    engine.start()
    other.restore(saver.save(tmp_path / "weights"))
    assert values(engine) == {"online/w": 6, "target/w": 6}


def test_a_name_that_the_file_does_not_have_is_one_line_and_nothing_is_restored(
    started, by_tensorflow
):
    of = variables_of(started)
    with pytest.raises(ScopeMismatch) as error:
        started.saver({"twin": of["w"], "heat/b": of["head/b"]}).restore(by_tensorflow)
    assert str(error.value) == (
        f"{by_tensorflow} has no variable 'heat/b'; did you mean 'head/b'?; it has head/b, twin, "
        "w. A dictionary of names in the file restores variables of other names"
    )
    assert values(started) == FIRST


def test_another_shape_or_dtype_is_one_line_and_nothing_is_restored(started, by_tensorflow):
    of = variables_of(started)
    with pytest.raises(ScopeMismatch, match=r"head/b should be float32\(2,\), got int64\(\)"):
        started.saver({"w": of["twin"], "head/b": of["w"]}).restore(by_tensorflow)
    assert values(started) == FIRST


def cut(path):
    os.truncate(f"{path}.data-00000-of-00001", 10)


def without_data(path):
    Path(f"{path}.data-00000-of-00001").unlink()


def pipe_for(suffix):
    def spoil(path):
        Path(path + suffix).unlink()
        os.mkfifo(path + suffix)

    return spoil


def scribble(path):
    Path(f"{path}.index").write_bytes(b"x" * 100)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: Path(f"{path}.index").unlink(), "No such file or directory"),
        (without_data, "NOT_FOUND|No such file"),
        (cut, ""),
        (scribble, ""),
        (pipe_for(".index"), "it is not a regular file"),
        (pipe_for(".data-00000-of-00001"), "it is not a regular file"),
    ],
    ids=["none", "no data", "cut", "scribble", "pipe", "pipe for data"],
)
def test_a_file_that_cannot_be_restored_is_one_line(started, by_tensorflow, spoil, reason):
    spoil(by_tensorflow)
    with pytest.raises(RlCoreError, match=f"cannot restore variables from .*: .*({reason})") as e:
        started.saver().restore(by_tensorflow)
    assert "\n" not in str(e.value)
    assert values(started) == FIRST


def test_a_place_that_cannot_be_written_is_one_line(started, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RlCoreError, match=r"cannot save variables to .*/file/model: "):
        started.saver().save(tmp_path / "file" / "model")


@pytest.mark.parametrize("given", ["online", ["w"], {"w": 3}, 5], ids=str)
def test_only_variables_can_be_saved(engine, given):
    with pytest.raises(ArgumentError, match="a saver needs variables, or a dictionary of names"):
        engine.saver(given)


def test_a_graph_without_variables_has_nothing_to_save(engine, tmp_path):
    engine.start()
    with pytest.raises(RlCoreError, match="no variables to save"):
        engine.saver().save(tmp_path / "model")
