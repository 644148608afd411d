"""`python -m mica` and the installed `mica`: the native program, beside the extension."""

import os
import sys
from pathlib import Path

from mica import _mica


def list_ops(words: list[str]) -> None:
    """`mica ops` with the operators of Python files, which the native program cannot read."""
    import argparse
    import runpy

    parser = argparse.ArgumentParser(prog="mica ops")
    parser.add_argument("--load", nargs="+", action="extend", default=[])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    for file in given.load:
        if file.endswith(".py"):
            runpy.run_path(file)
        else:
            _mica._load_ops(file)
    print(_mica._describe_ops(given.json), end="")


def main() -> None:
    if sys.argv[1:2] == ["ops"] and any(word.endswith(".py") for word in sys.argv):
        list_ops(sys.argv[2:])
        return
    program = Path(_mica.__file__).parent / "bin" / "mica"
    if not program.exists():
        sys.exit(f"mica: the command was not built ({program} is missing)")
    os.execv(program, ["mica", *sys.argv[1:]])


if __name__ == "__main__":
    main()
