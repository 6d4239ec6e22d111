"""Measurements, always as ratios inside one run: `python -m benchmarks --help`.

`measure.py` takes times, `report.py` shows them against the goals, `child.py` measures in fresh processes. `storage/`
and `query/` hold the two parts, `social.py` makes the graph that the query part asks. Never imported by `src/`.
"""
