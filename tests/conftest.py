"""Hypothesis profiles; choose one with HYPOTHESIS_PROFILE."""

import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

ROOT = Path(__file__).resolve().parent.parent
FOUND = DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples")
BUSY_MACHINE = [HealthCheck.too_slow]

settings.register_profile("dev", max_examples=60, deadline=None, database=FOUND)
settings.register_profile(
    "ci",
    max_examples=500,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=BUSY_MACHINE,
)
settings.register_profile(
    "deep",
    max_examples=2000,
    deadline=None,
    database=FOUND,
    print_blob=True,
    suppress_health_check=BUSY_MACHINE,
)
# Mutation testing runs the suite once a mutant: it wants a verdict, not the smallest example.
settings.register_profile(
    "mutate",
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=BUSY_MACHINE,
)
# A shell starts what is to run in the background with Ctrl-C ignored, and children inherit that:
# those that tests send one would never hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "dev")
