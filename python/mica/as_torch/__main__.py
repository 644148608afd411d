"""python -m mica.as_torch [--report] [--on DEVICE] script.py [arguments…]"""

from __future__ import annotations

import argparse
import sys

from mica import as_torch


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mica.as_torch",
        description="Runs a PyTorch program as it is, with mica in torch's place.",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="runs nothing, and lists what the program names of torch that mica does not have",
    )
    parser.add_argument(
        "--on",
        metavar="DEVICE",
        help="where what the program puts on a CUDA device is to be: --on cpu",
    )
    parser.add_argument("script", help="the program, or with --report also a folder of programs")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    given = parser.parse_args()
    if given.report:
        from mica.as_torch import report

        missing = report.missing_names([given.script, *given.arguments])
        for line in report.describe(missing):
            print(line)
        return 1 if missing else 0
    as_torch.run(given.script, given.arguments, on=given.on)
    return 0


sys.exit(main())
