"""What is measured: who does which work, and what is wanted of the ratios. Data, nothing else.

Files, in reading order: kinds (what a comparison is), sides (workers of several scenarios),
training, updates, atari, runs.
"""

from tests.benchmarks.scenarios.atari import ATARI
from tests.benchmarks.scenarios.runs import RUNS
from tests.benchmarks.scenarios.training import TRAINING
from tests.benchmarks.scenarios.updates import UPDATES

SCENARIOS = {scenario.name: scenario for scenario in (*TRAINING, *UPDATES, *ATARI, *RUNS)}
