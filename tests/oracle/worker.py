"""What each process does: the cases of one operator after another."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
# The processes share the cores: XLA takes one thread in each.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

from check import DisagreementError, run_case
from table import TABLE, uncovered


def run_operator(name, seed, numbers):
    """The disagreements, as text."""
    failures = []
    for number in numbers:
        try:
            run_case(name, TABLE[name], seed, number)
        except DisagreementError as e:
            repeat = f"--seed {seed} --only '{name}' --case {number}"
            failures.append(f"{e}\n    repeat with {repeat}")
    return failures


__all__ = ["TABLE", "run_operator", "uncovered"]
