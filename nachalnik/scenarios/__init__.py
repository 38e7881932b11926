"""Scenario scripts: a session told as a story, run, and compared with the trace it left.

`README.md` beside this file is the format on one page; `runner.run_files` runs scripts.
"""
