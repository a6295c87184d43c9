"""Plays one recorded call against the same bot twice, stock Pipecat and with our processors, and compares them."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fast",
        action="store_true",
        help="in process on a virtual clock, with the same Opus packets, masks and jitter buffer",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        default=Path("demo_report.html"),
        help="where the report goes (default demo_report.html)",
    )
    parser.add_argument(
        "--scenario", type=Path, metavar="FILE", help="another scenario file than the built-in one"
    )


def run(args: argparse.Namespace) -> int:
    from pipecat_voicectx.demo.runner import run_demo

    return run_demo(fast=args.fast, json_path=args.json, report_path=args.report, scenario_path=args.scenario)
