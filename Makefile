# `make train` and `make test` are all a newcomer needs; both make .venv once and share it.
PYTHON ?= python3.11
PYTHON := $(shell command -v $(PYTHON) || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Test processes at once: one more than the cores, because some tests wait for other processes.
# Each imports TensorFlow, so still more only cost memory.
JOBS ?= $(shell n=$$(nproc); [ $$n -gt 3 ] && echo 4 || echo $$((n + 1)))

# For `make results`: which envs, how many seeds, and the first of them; nothing was tuned on these.
ENVS ?= cartpole acrobot mountaincar lunarlander
SEEDS ?= 10
FIRST_SEED ?= 3000

# Tests start the command hundreds of times, which takes less where Python keeps what it compiled.
export PYTHONDONTWRITEBYTECODE =

.PHONY: train test test-slow bench performance wall-clock results defaults variants reach check format hooks docs site dist clean

train: $(VENV)/.ready
	$(BIN)/targetnet train cartpole --seed 1 --board

# `make test` makes a few cases of each test, and `make check` all.
# A file's tests go to one process, so that what they share is made once; the agents' files, which
# take longest, come first. Every skip is told with its reason, and the slowest tests with their
# times.
# Tests make thousands of small files and sync them: in memory, where there is room for them.
ROOM := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo TMPDIR=/dev/shm)
TESTS := $(ROOM) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -rfEs --durations=20

test: $(VENV)/.ready
	$(TESTS)

test-slow: $(VENV)/.ready
	$(ROOM) $(BIN)/python -m pytest -m slow --timeout 3600 -rfEs $(SLOW)

bench: $(VENV)/.ready
	$(BIN)/python -m pytest -m benchmark -s

performance: $(VENV)/.ready
	$(BIN)/python -m tests.benchmarks.performance --page docs/results/performance.md

# What was measured is a line of docs/rows/wall_clock.jsonl, and is not measured again. Second, as many processes
# at once as there are cores, and then all ten.
wall-clock: $(VENV)/.ready
	$(BIN)/python -m tests.benchmarks.wall_clock
	$(BIN)/python -m tests.benchmarks.wall_clock --envs CartPole-v1 --only ours sb3 --jobs $$(nproc)
	$(BIN)/python -m tests.benchmarks.wall_clock --envs CartPole-v1 --only ours sb3 --jobs 10

# A finished seed is a line of a file in docs/rows, and is not trained again. The second page has plain DQN at
# the peer's own settings.
RESULTS := --seeds $(SEEDS) --first-seed $(FIRST_SEED) --peer sb3 --rows docs/rows/learning.jsonl
results: $(VENV)/.ready
	$(BIN)/targetnet results $(ENVS) $(RESULTS) --page docs/results/shipped.md \
	  --title "The shipped configs beside Stable-Baselines3"
	$(BIN)/targetnet results $(ENVS:%=docs/variants/zoo-%.toml) $(RESULTS) --page docs/results/zoo_settings.md \
	  --title "Plain DQN with the settings of rl-baselines3-zoo, beside Stable-Baselines3"
	$(BIN)/targetnet results $(patsubst configs/%.toml,%,$(wildcard configs/minatar-*.toml)) \
	  --seeds 5 --first-seed $(FIRST_SEED) --rows docs/rows/learning.jsonl --training --page docs/results/minatar.md \
	  --title "MinAtar, five games"

# The defaults, those of version 0.2 and Stable-Baselines3's. The envs of two packages need minigrid
# and highway-env, here and in PEER, the path of a Python that has stable-baselines3 and minatar too.
HIGHWAY := $(wildcard docs/defaults/highway*.toml)
DEFAULTS ?= $(filter-out $(HIGHWAY),$(wildcard docs/defaults/*.toml))
OF_DEFAULTS := --seeds 10 --first-seed 9000 --rows docs/rows/defaults.jsonl
defaults: $(VENV)/.ready
	$(BIN)/targetnet results $(DEFAULTS) $(OF_DEFAULTS) --peer sb3-defaults $(PEER:%=--peer-python %) \
	  --page docs/results/defaults.md --title "The defaults beside those of 0.2 and of Stable-Baselines3"
	$(BIN)/targetnet results $(HIGHWAY) $(OF_DEFAULTS) --page docs/results/defaults_highway.md \
	  --title "The defaults on highway-fast, beside those of 0.2"

# Plain DQN and one ingredient, or all of Rainbow, where they differ; CartPole is a ceiling.
variants: $(VENV)/.ready
	$(BIN)/targetnet results docs/variants/zoo-lunarlander.toml docs/variants/lunarlander-*.toml \
	  docs/variants/minatar-breakout-*.toml --seeds 3 --first-seed $(FIRST_SEED) \
	  --rows docs/rows/learning.jsonl --training --page docs/results/variants.md --title "Plain DQN with one ingredient each"
	$(BIN)/targetnet results docs/bfloat16/breakout-float32.toml docs/bfloat16/breakout-bfloat16.toml \
	  --seeds 3 --first-seed $(FIRST_SEED) --rows docs/rows/learning.jsonl --training \
	  --page docs/results/bfloat16.md --title "Convolutions in bfloat16 and in float32"

# What is beyond one number an action, and one observation.
reach: $(VENV)/.ready
	$(BIN)/targetnet results docs/branching/lunarlander-branches.toml --seeds 10 --first-seed 8020 \
	  --rows docs/rows/learning.jsonl --page docs/results/branching.md --title "LunarLander with two engines"
	$(BIN)/targetnet results cartpole-memory docs/memory/cartpole-no-memory.toml \
	  docs/memory/cartpole-frames.toml --seeds 10 --first-seed 7000 --rows docs/rows/memory.jsonl \
	  --page docs/results/memory.md --title "CartPole without velocities"

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TESTS) -m 'not slow and not benchmark'

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/.ready
	$(BIN)/pre-commit install

docs: $(VENV)/.ready
	$(BIN)/python -m targetnet.rl_core.board.events > docs/reference/tags.md
	$(BIN)/python -m targetnet.agents.config.live_values > docs/reference/live_values.md
	$(BIN)/python -m targetnet.agents.config.keys > docs/reference/config.md
	$(BIN)/python -m targetnet.agents.config.synonyms > docs/guides/from_other_libraries.md

# Warnings fail. Sphinx and what it needs are the extra `docs`, installed here if they are missing.
site: $(VENV)/.ready
	$(BIN)/python -c 'import furo, myst_nb' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees . build/site
	@echo "build/site/index.html"

# The source distribution and the wheel, made from it, below dist.
dist: $(VENV)/.ready
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf dist $(VENV) build/site build/doctrees .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml
	@echo "Setting up $(VENV) (once; TensorFlow is a large download) ..."
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "targetnet needs Python 3.11 to 3.13, found $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
