"""The paper's tables next to ours: one command, as text, CSV, JSON and plots."""

from zstci.reproduce.plan import Plan, make_plan
from zstci.reproduce.report import write_report
from zstci.reproduce.run import run

__all__ = ["Plan", "make_plan", "run", "write_report"]
