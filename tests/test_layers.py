"""What may import what, and what may not be written at all: read from the source, never run.

`rl_core` <- `envs` <- `agents`; `configs` is data.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rl_core", "envs", "agents")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
# What each package may import beside itself, of ours.
MAY_IMPORT = {"rl_core": set(), "envs": {"rl_core"}, "agents": {"envs", "rl_core"}}
OURS = {"rl_core", "envs", "agents", "configs", "tests", "docs"}
# For `targetnet set`, `status`, `board` and `--help`: TensorFlow costs seconds and 600 MB.
WITHOUT_TENSORFLOW = sorted(
    [
        *(ROOT / "rl_core" / "board").rglob("*.py"),
        *(ROOT / "rl_core" / "control").rglob("*.py"),
        *(
            ROOT / "rl_core" / f"{name}.py"
            for name in ("__init__", "errors", "events", "hyperparameters", "schedules", "tags")
        ),
    ]
)
# Where graphs are built.
GRAPH_FILES = [
    path
    for path in FILES
    if path.parent.name in ("graph", "losses", "replay", "networks") or path.name == "dqn.py"
]


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


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


def imports_of(path: Path) -> set[str]:
    package = module_of(path) if path.name == "__init__.py" else module_of(path.parent)
    return set(imports(ast.parse(path.read_text()), package))


def tops(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_the_source_is_where_these_tests_look():
    assert len(FILES) > 30 and len(GRAPH_FILES) > 12 and len(WITHOUT_TENSORFLOW) > 6
    assert all(path.exists() for path in WITHOUT_TENSORFLOW)


@pytest.mark.parametrize("path", FILES, ids=short)
def test_imports_go_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    assert tops(imports_of(path)) & OURS <= MAY_IMPORT[package] | {package}


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.is_relative_to(ROOT / "rl_core")], ids=short
)
def test_the_core_knows_no_gymnasium(path):
    assert not tops(imports_of(path)) & {"gymnasium", "gym", "ale_py", "minatar", "envpool"}


@pytest.mark.parametrize("path", WITHOUT_TENSORFLOW, ids=short)
def test_what_must_start_quickly_never_imports_tensorflow(path):
    assert not tops(imports_of(path)) & {"tensorflow", "keras", "tf_keras"}


def test_what_must_start_quickly_imports_no_module_of_ours_that_does():
    """Followed through our own modules; what is only for type checkers is not run."""

    def at_run_time(path: Path) -> set[str]:
        class NoTypeChecking(ast.NodeTransformer):
            def visit_If(self, node):
                return None if ast.unparse(node.test) == "TYPE_CHECKING" else node

        tree = NoTypeChecking().visit(ast.parse(path.read_text()))
        return set(imports(tree, module_of(path.parent)))

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
    names = [module_of(p) for p in WITHOUT_TENSORFLOW if p.name != "__main__.py"]
    code = f"import sys, {', '.join(names)}; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("path", FILES, ids=short)
def test_nothing_is_pickled_and_no_text_is_run_as_code(path):
    unsafe = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    assert not tops(imports_of(path)) & unsafe
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in ("eval", "exec", "builtins.eval", "builtins.exec")
            # np.load and np.save pickle objects unless told not to.
            allowed = {word.arg: ast.unparse(word.value) for word in node.keywords}
            assert allowed.get("allow_pickle", "False") == "False"


# `a == b` on graph tensors is Python's identity, and silently False. Whether an operand is a
# tensor cannot be read from the source, so in a function that builds operations one operand of
# == or != must look like a plain value.


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


def builds_operations(function: ast.AST) -> bool:
    """Whether it calls anything of TensorFlow's."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func).split(".")[0] in ("tf", "tf2") for call in calls)


def risky_comparisons(source: str) -> list[str]:
    found = {}
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.Lambda) or not builds_operations(
            function
        ):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
                for operator, *pair in zip(node.ops, operands, operands[1:], strict=False):
                    if isinstance(operator, ast.Eq | ast.NotEq) and not any(map(looks_plain, pair)):
                        found[node.lineno] = f"line {node.lineno}: {ast.unparse(node)}"
    return list(found.values())


@pytest.mark.parametrize("path", GRAPH_FILES, ids=short)
def test_no_double_equals_between_what_may_be_tensors(path):
    assert risky_comparisons(path.read_text()) == [], "tf.equal, if these are tensors"


@pytest.mark.parametrize(
    ("body", "risky"),
    [
        ("return tf.where(tau == 1, a, b)", True),
        ("return tf.cast(a != b, tf.float32)", True),
        ("return tf.where(0 < a == b, a, b)", True),
        ("return tf.cond(lambda: a == b, yes, no)", True),
        ("return tf.where(tf.equal(tau, 1), a, b)", False),
        ("return tf.square(a) if mode == 'soft' else a", False),
        ("return tf.square(a) if a.shape == b.shape else a", False),
        ("return tf.square(a) if self.num_envs == 1 else a", False),
        ("return tf.square(a) if self.config.steps != 1 else a", False),
        ("return tf.square(a) if len(a) == 1 else a", False),
        ("return tau == 1", False),  # builds nothing
    ],
)
def test_the_rule_about_double_equals_finds_what_it_should(body, risky):
    assert bool(risky_comparisons(f"def f(self, a, b, tau):\n    {body}\n")) is risky


def test_the_rule_about_double_equals_would_find_it_in_the_soft_copy():
    source = (ROOT / "rl_core" / "graph" / "sync.py").read_text()
    assert source.count("tf.equal(tau, 1)") == 1
    assert risky_comparisons(source.replace("tf.equal(tau, 1)", "tau == 1"))
