"""No command runs a file of the current directory that nobody named."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

# Modules that the standard library and our dependencies look for in vain, as a finder at the end of
# sys.meta_path saw them in all commands, in their child processes and in Ray's.
MISSED = """
_winapi a2wsgi acl aiodns aiohttp amdsmi backports_abc botocore bottleneck brotlicffi chardet
colorful com ctags cython defusedxml dpctl email_validator envwrap fqdn furiosa_smi_py grpc_health
grpc_reflection grpc_tools h2 habana_frameworks isal isoduration jsonpointer kubernetes lz4 lzmaffi
msvcrt nt numexpr opencensus org polars prometheus_client psutil pyarrow pydantic_extra_types
pymxsml pyspark qbruntime rebel rfc3339_validator rfc3986_validator rfc3987 rfc3987_syntax
simplejson snappy socksio ujson uri_template wcwidth webcolors winreg zstandard
"""
OURS = ["agents", "configs", "envs", "rl_core"]
EVERYTHING = {*sys.stdlib_module_names, *packages_distributions(), "targetnet", "sitecustomize"}
# As pip writes it, and as a module, before which Python itself imports some.
INSTALLED = [
    sys.executable, "-P", "-c",
    "import sys; from targetnet.agents.cli.main import main; sys.exit(main(sys.argv[1:]))",
]  # fmt: skip
AS_MODULE = [sys.executable, "-m", "targetnet.agents.cli"]
PROGRAMS = pytest.mark.parametrize("program", [INSTALLED, AS_MODULE], ids=["installed", "module"])
RUN = "env_steps=300 learn_start=100 final_eval_episodes=1 eval_period=1000 checkpoint_steps=200"
COMPARISON = """
title = "When?"
text = "A question."
seeds = {first = 5000, count = 2}
tuning = {first = 0, count = 1}
together = 1
baseline = "hard"
[envs.A]
config = "c.toml"
[groups.hard]
label = "hard copies"
over = "sync_period"
values = [10, 100]
[[sections]]
title = "The curve"
text = "Words."
curves = ["hard"]
axis = "period"
signs = []
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A directory in which each module that is imported says so in the file `ran`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    (tmp_path / "c.toml").write_text('base = "cartpole-plain"\n' + RUN.replace(" ", "\n"))
    return tmp_path


def put_traps(there, names):
    text = f"open({str(there / 'ran')!r}, 'a').write(__name__ + chr(10))\n"
    for name in names:
        (there / f"{name}.py").write_text(text)


def traps_for(program):
    return {*MISSED.split(), *OURS} | (EVERYTHING if program is INSTALLED else set())


def ran(there):
    path = there / "ran"
    return path.read_text().split() if path.exists() else []


def calls(there, program, *commands):
    for command in commands:
        done = subprocess.run([*program, *command.split()], capture_output=True, text=True)
        assert (command, done.returncode, ran(there)) == (command, 0, []), done.stderr


@pytest.mark.cases(0)
@PROGRAMS
def test_a_command_imports_nothing_from_the_current_directory(program, there):
    put_traps(there, traps_for(program))
    calls(there, program, "ls .", "configs", "--version", "train --help")


def test_the_board_imports_nothing_from_the_current_directory(there):
    put_traps(there, traps_for(AS_MODULE))
    board = [sys.executable, "-m", "targetnet.rl_core.board", "c.toml"]
    done = subprocess.run(board, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n"), ran(there)) == (2, 1, [])


@pytest.mark.slow
@PROGRAMS
def test_no_command_nor_a_process_that_it_starts_imports_from_the_current_directory(program, there):
    put_traps(there, traps_for(program))
    (there / "when.toml").write_text(COMPARISON)
    calls(
        there, program,
        "train c.toml --run run",
        "train c.toml --run workers --set vectorization=async --set num_envs=2",
        "train c.toml --run pop --members seed=0,1",
        "train c.toml --run remote --set loop=remote --set actors=1",
        "train c.toml --run told --set log_to=['mlflow','trackio']",
        "resume run --set env_steps=400",
        "eval run --episodes 1",
        "play run --episodes 1 --video video.mp4",
        "export run onnx --to onnx",
        "export run tflite --to tflite",
        "record run data-v0 --episodes 2",
        "train c.toml --run offline --offline data-v0 --set env_steps=50",
        "replay run",
        "digest run",
        "status run",
        "log run",
        "results c.toml --seeds 1 --out results --rows rows.jsonl --page results.md",
        "compare when.toml --rows compared.jsonl --page when.md",
        "sweep c.toml --over learning_rate=0.001,0.002 --sampler grid --trials 2 --seeds 1 "
        "--best 1 --fresh-seeds 1 --dir sweep",
    )  # fmt: skip
