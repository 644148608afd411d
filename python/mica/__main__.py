"""`python -m mica` and the installed `mica`: the native program, beside the extension."""

import os
import sys
from pathlib import Path

from mica import _mica


def main() -> None:
    program = Path(_mica.__file__).parent / "bin" / "mica"
    if not program.exists():
        sys.exit(f"mica: the command was not built ({program} is missing)")
    os.execv(program, ["mica", *sys.argv[1:]])


if __name__ == "__main__":
    main()
