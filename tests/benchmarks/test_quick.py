"""The benchmark runs, and says what it must. How fast it is, no test asks."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {
    "turn_in_memory": 12,
    "turn_durable": 2,
    "turn_growth": 1.25,
    "log_bytes": 3,
    "log_linear": 5,
    "read_verify_fold": 4,
    "open_with_cache": 0.12,
    "version": 6,
}


def test_it_prints_a_line_for_each_figure():
    told = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--quick", "--json"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert all(set(row) == {"name", "value", "limit", "unit", "note"} for row in rows)
    assert {row["name"]: row["limit"] for row in rows if row["limit"] is not None} == LIMITS
    assert all(row["value"] > 0 for row in rows)
