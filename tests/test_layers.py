"""What may import what, and what may not be written at all: read from the source, never run.

`rl_core` <- `envs` <- `agents` <- `targetnet`; `configs` is data. Here a package is called
after its folder; its modules are imported as `targetnet.…` alone.
"""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rl_core", "envs", "agents", "targetnet")
# The links in targetnet/ lead to the other three.
FILES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).glob("*.py" if package == "targetnet" else "**/*.py")
)
# What each package may import beside itself, of ours.
MAY_IMPORT = {
    "rl_core": set(),
    "envs": {"rl_core"},
    "agents": {"envs", "rl_core"},
    "targetnet": {"agents", "envs", "rl_core"},
}
OURS = {"rl_core", "envs", "agents", "targetnet", "configs", "tests", "docs"}
# For `targetnet set`, `status`, `board` and `--help`: TensorFlow costs seconds and 600 MB.
WITHOUT_TENSORFLOW = sorted(
    [
        *(ROOT / "rl_core" / "board").rglob("*.py"),
        *(ROOT / "rl_core" / "control").rglob("*.py"),
        *(
            ROOT / "rl_core" / f"{name}.py"
            for name in ("__init__", "errors", "hyperparameters", "schedules")
        ),
    ]
)
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def package_of(path: Path) -> str:
    return module_of(path) if path.name == "__init__.py" else module_of(path.parent)


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Full names of everything imported anywhere in the tree, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base if node.level else node.module}.{a.name}" for a in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Shared by all rules: look, do not touch."""
    return ast.parse(path.read_text())


def by_folder(names: Iterable[str]) -> set[str]:
    """targetnet.rl_core.errors -> rl_core.errors."""
    return {re.sub(rf"^targetnet\.(?=(?:{'|'.join(PACKAGES)})\b)", "", name) for name in names}


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    return frozenset(by_folder(imports(parsed(path), package_of(path))))


def tops(names: Iterable[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def offenders(files: Iterable[Path], rule: Callable[[Path], Any]) -> dict[str, Any]:
    """File -> what it does against the rule; one test tells all of them."""
    return {short(path): found for path in files if (found := rule(path))}


def in_core(path: Path) -> bool:
    return path.is_relative_to(ROOT / "rl_core")


def test_the_source_is_where_these_tests_look():
    assert len(FILES) > 30 and len(WITHOUT_TENSORFLOW) > 6
    assert sum(map(in_core, FILES)) > 20
    assert all(path.exists() for path in WITHOUT_TENSORFLOW)


@pytest.mark.thorough
def test_a_module_of_ours_has_one_name():
    """`import agents` would work in a checkout, and make a second module of the same file."""
    files = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]
    bare = {"rl_core", "envs", "agents", "configs"}
    assert offenders(files, lambda path: tops(imports(parsed(path), package_of(path))) & bare) == {}
    code = "import sys; from targetnet.agents.cli.main import main; main(['configs'])\n"
    code += "import targetnet.agents.run.train\n"
    code += f"print({bare} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_imports_go_one_way():
    def wrong_way(path):
        package = path.relative_to(ROOT).parts[0]
        return (tops(imports_of(path)) & OURS) - MAY_IMPORT[package] - {package}

    assert offenders(FILES, wrong_way) == {}


def room_of(path: Path) -> Path | None:
    """The directory within a package that a file is in; None for the package's own files."""
    inside = path.relative_to(ROOT).parts
    return ROOT / inside[0] / inside[1] if len(inside) > 2 else None


ROOMS = sorted({room for path in FILES if (room := room_of(path))})


def may_import(room: Path) -> list[str]:
    """What a room's first page names: "Imports: rl_core.errors, rl_core.graph."."""
    page = ast.get_docstring(parsed(room / "__init__.py")) or ""
    found = re.search(r"^Imports: (.+?)\.$", page, re.MULTILINE | re.DOTALL)
    assert found, f"{short(room)}/__init__.py has no line that begins with 'Imports:'"
    return re.split(r",\s+", found[1])


def test_a_room_imports_only_what_its_first_page_names():
    def others(path: Path) -> list[str]:
        room = room_of(path)
        if room is None:
            return []
        allowed = [module_of(room), *may_import(room)]
        ours = [name for name in imports_of(path) if name.split(".")[0] in OURS]
        return [n for n in ours if not any(f"{n}.".startswith(f"{a}.") for a in allowed)]

    assert offenders(FILES, others) == {}


def test_a_first_page_lists_its_files():
    for room in [*ROOMS, ROOT / "rl_core", ROOT / "envs"]:
        page = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        # Several of one kind may be one line, such as minatar_*.py.
        listed = re.findall(r"[\w*]+\.py", page)
        files = [path for path in FILES if path.parent == room and path.stem[0] != "_"]
        left_out = [of.name for of in files if not any(of.match(name) for name in listed)]
        assert left_out == [], short(room)
        gone = [name for name in listed if not any(of.match(name) for of in files)]
        assert gone == [], short(room)


def test_the_names_by_which_to_look_are_there():
    page = ast.get_docstring(ast.parse((ROOT / "agents/__init__.py").read_text())) or ""
    found = re.findall(r"([\w/]+\.py): (\w+)(?:\.(\w+))?", page)
    assert len(found) >= 10
    for path, name, method in found:
        file = next(of for of in (ROOT / "agents" / path, ROOT / path) if of.exists())
        defined = {getattr(node, "name", ""): node for node in parsed(file).body}
        names = {*defined} | {t.id for t in ast.walk(parsed(file)) if isinstance(t, ast.Name)}
        assert name in names, (path, name)
        inside = {getattr(node, "name", "") for node in getattr(defined.get(name), "body", ())}
        assert not method or method in inside, (path, name, method)


def test_what_a_first_page_names_is_imported():
    for room in ROOMS:
        text = "".join(p.read_text() for p in FILES if room_of(p) == room and p.stem != "__init__")
        assert [name for name in may_import(room) if name not in text] == [], short(room)


def test_rooms_import_one_way():
    """No room, by whatever way, imports one that imports it."""
    below = {
        module_of(room): [
            other
            for other in map(module_of, ROOMS)
            for name in may_import(room)
            if f"{other}.".startswith(f"{name}.") and other != module_of(room)
        ]
        for room in ROOMS
    }
    list(graphlib.TopologicalSorter(below).static_order())  # raises CycleError


# Two of their methods are those of a context manager, or eight those of a mapping.
MORE_METHODS = {"EventWriter": 17, "Steering": 17, "Hyperparameters": 16}


def test_no_class_is_too_large_to_hold_in_mind():
    """At most 200 lines with their docstrings, and 15 methods."""

    def too_large(path: Path) -> dict[str, tuple[int, int]]:
        found = {}
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                lines = node.end_lineno - node.lineno + 1
                methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
                if lines > 200 or methods > MORE_METHODS.get(node.name, 15):
                    found[node.name] = lines, methods
        return found

    assert offenders(FILES, too_large) == {}


def test_the_core_knows_no_gymnasium():
    envs = {"gymnasium", "gym", "ale_py", "minatar", "envpool"}
    assert offenders(filter(in_core, FILES), lambda path: tops(imports_of(path)) & envs) == {}


def test_what_must_start_quickly_never_imports_tensorflow():
    found = offenders(WITHOUT_TENSORFLOW, lambda path: tops(imports_of(path)) & TENSORFLOW)
    assert found == {}


def test_what_must_start_quickly_imports_no_module_of_ours_that_does():
    """Followed through our own modules; what is only for type checkers is not run."""

    def at_run_time(path: Path) -> set[str]:
        class NoTypeChecking(ast.NodeTransformer):
            def visit_If(self, node):
                return None if ast.unparse(node.test) == "TYPE_CHECKING" else node

        tree = NoTypeChecking().visit(ast.parse(path.read_text()))
        return by_folder(imports(tree, module_of(path.parent)))

    by_module = {module_of(path): path for path in FILES}
    waiting, seen = list(WITHOUT_TENSORFLOW), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        names = at_run_time(path)
        assert "tensorflow" not in tops(names), short(path)
        prefixes = {n.rsplit(".", i)[0] for n in names for i in range(3)}
        waiting.extend(by_module[name] for name in prefixes & by_module.keys())


def test_importing_all_of_it_imports_no_tensorflow_through_others():
    names = [f"targetnet.{module_of(p)}" for p in WITHOUT_TENSORFLOW if p.name != "__main__.py"]
    code = f"import sys, {', '.join(names)}; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr


def unsafe_calls(source: ast.AST) -> list[str]:
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(source)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func) in ("eval", "exec", "builtins.eval", "builtins.exec")
            # np.load and np.save pickle objects unless told not to.
            or any(
                word.arg == "allow_pickle" and ast.unparse(word.value) != "False"
                for word in node.keywords
            )
        )
    ]


def test_nothing_is_pickled_and_no_text_is_run_as_code():
    unsafe = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    assert offenders(FILES, lambda path: tops(imports_of(path)) & unsafe) == {}
    assert offenders(FILES, lambda path: unsafe_calls(parsed(path))) == {}


@pytest.mark.parametrize(
    ("source", "unsafe"),
    [("eval(x)", True), ("np.load(f, allow_pickle=True)", True), ("np.load(f)", False),
     ("np.load(f, allow_pickle=False)", False), ("model.eval(x)", False)],
)  # fmt: skip
def test_the_rule_about_unsafe_calls_finds_what_it_should(source, unsafe):
    assert bool(unsafe_calls(ast.parse(source))) is unsafe


# `a == b` on graph tensors is Python's identity, and silently False. Whether an operand is a
# tensor cannot be read from the source, so in a file that builds graph parts one operand of
# == or != must look like a plain value, or the comparison stands below.
OF_PLAIN_VALUES = {
    "agents/dqn/own_network.py": {"variable.dtype.base_dtype != tf.float32"},
    "agents/dqn/acting.py": {"buffer.count == self._most"},
    "agents/dqn/agent.py": {"self.rows() == 0"},
    "agents/dqn/update_batching.py": {"tuple(batched.rows) == _COLUMNS"},
    "agents/dqn/sync_rule.py": {"reading.counts.grown_from == period"},
    "agents/dqn/policy.py": {"COLUMNS != ('action',)", "self.knobs != ('epsilon',)"},
    "agents/dqn/state.py": {"rows.ndim == self._rank - 1", "self._dtype == np.float32"},
    "agents/dqn/population.py": {"one.tobytes() == other.tobytes()"},
    "agents/dqn/weight_resets.py": {
        "block != ALL_BLOCKS", "block == ALL_BLOCKS", "name.split('/')[0] == block",
    },
    "agents/run/process.py": {
        "package == f'{_API}.compat'", "signal.getsignal(signal.SIGHUP) != signal.SIG_IGN",
        "signum != signal.SIGHUP",
    },
    "rl_core/optimizers/freeze.py": {"self._next_arm() != self._arm"},
    "agents/population/truncation.py": {"near == value", "wanted != value"},
    "rl_core/graph/xla_cache.py": {
        "hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]",
        "path.suffix == _TEMPORARY", "status.st_uid != os.getuid()",
    },
    "agents/policy/load.py": {"given == one", "given[1:] != one"},
    "agents/dqn/live_feeds.py": {"k.whole == whole", "self._live.revision != self._revision"},
    "rl_core/graph/engine.py": {"int(_direct_call(session, options)(())[0]) == 0"},
    "rl_core/graph/feeds.py": {"kinds != last"},
    "rl_core/networks/hidden.py": {
        "int(last) % units == 0", "last == tensor.shape[-1]", "last == units",
    },
    "rl_core/optimizers/calls.py": {"i == updates - 1", "updates == 1"},
    "rl_core/graph/members.py": {"member != self.current"},
    "rl_core/graph/weights.py": {"wanted.get(name) != given.get(name)"},
    "rl_core/replay/contents.py": {"end == written"},
}  # fmt: skip


@functools.cache
def graph_files() -> list[Path]:
    """Every file that imports TensorFlow, or a module of the core that does."""
    with_tensorflow = {p for p in FILES if tops(imports_of(p)) & TENSORFLOW}
    core = {module_of(p) for p in with_tensorflow if in_core(p)}

    def builds(path: Path) -> bool:
        names = imports_of(path)
        return path in with_tensorflow or bool({n.rsplit(".", 1)[0] for n in names} & core)

    return [path for path in FILES if builds(path)]


def looks_plain(node: ast.expr) -> bool:
    """A string, None, a shape, dtype or rank, a length, a `num_...` or something of a config."""
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, str)
    if isinstance(node, ast.Attribute):
        of_config = any(isinstance(n, ast.Name | ast.Attribute) and name_of(n) == "config"
                        for n in ast.walk(node.value))  # fmt: skip
        plain = node.attr in ("shape", "dtype", "rank", "name") or node.attr.startswith("num_")
        return of_config or plain
    return isinstance(node, ast.Call) and name_of(node.func) in ("len", "keys", "as_list")


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return getattr(node, "attr", getattr(node, "id", ""))


def risky_comparisons(tree: ast.AST) -> set[str]:
    return {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(
            isinstance(operator, ast.Eq | ast.NotEq) and not any(map(looks_plain, pair))
            for operator, *pair in zip(
                node.ops, [node.left, *node.comparators], node.comparators, strict=False
            )
        )
    }


def test_every_file_that_builds_graph_parts_is_looked_at():
    looked_at = set(map(short, graph_files()))
    named = {"agents/dqn/compiled.py", "agents/dqn/network_scopes.py",
             "envs/in_graph/cartpole.py", "rl_core/exploration.py"}  # fmt: skip
    assert looked_at >= named and len(looked_at) > 45
    # A call of TensorFlow's needs its import, so no other file has one.
    calls = re.compile(r"\btf2?\.\w")
    others = [path for path in FILES if short(path) not in looked_at]
    assert offenders(others, lambda path: calls.findall(ast.unparse(parsed(path)))) == {}


def test_no_double_equals_between_what_may_be_tensors():
    found = offenders(graph_files(), lambda path: risky_comparisons(parsed(path)))
    # One that is listed and not there any more is told, too.
    assert found == OF_PLAIN_VALUES, "tf.equal, if these are tensors"


@pytest.mark.parametrize(
    ("expression", "risky"),
    [
        ("tf.where(tau == 1, a, b)", True),
        ("tf.cast(a != b, tf.float32)", True),
        ("tf.where(0 < a == b, a, b)", True),
        ("tf.cond(lambda: a == b, yes, no)", True),
        ("tau == 1", True),  # wherever it is handed to
        ("tf.where(tf.equal(tau, 1), a, b)", False),
        ("tf.square(a) if mode == 'soft' else a", False),
        ("tf.square(a) if a.shape == b.shape else a", False),
        ("tf.square(a) if self.num_envs == 1 else a", False),
        ("tf.square(a) if self.config.steps != 1 else a", False),
        ("tf.square(a) if len(a) == 1 else a", False),
        ("tf.where(a < b, a, b)", False),
    ],
)
def test_the_rule_about_double_equals_finds_what_it_should(expression, risky):
    for place in ("def f(self, a, b, tau):\n    return {}", "class C:\n    x = {}", "f({})"):
        assert bool(risky_comparisons(ast.parse(place.format(expression)))) is risky


def test_the_rule_about_double_equals_would_find_it_in_the_soft_copy():
    source = (ROOT / "rl_core" / "graph" / "sync.py").read_text()
    assert source.count("tf.equal(tau, 1)") == 1
    found = risky_comparisons(ast.parse(source.replace("tf.equal(tau, 1)", "tau == 1")))
    assert found == {"tau == 1"}
