"""The command `python -m veloc COMMAND`: the program `veloc` that belongs to the library."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

from ._library import bundled


def program() -> str | None:
    """Finds the program: in this package, beside the library that VELOC_LIBRARY names, or in PATH."""
    places = [bundled("veloc")]
    if given := os.environ.get("VELOC_LIBRARY"):
        folder = pathlib.Path(given).resolve().parent
        places = [folder / "veloc", folder.parent / "bin/veloc", *places]
    return next((str(path) for path in places if path.is_file()), None) or shutil.which("veloc")


def main() -> None:
    """Becomes the program, with all arguments."""
    found = program()
    if found is None:
        sys.exit(f"error: there is no program veloc: neither {bundled('veloc')}, nor in PATH")
    # By its path: it looks for veloc-backend beside itself.
    os.execv(found, [found, *sys.argv[1:]])


if __name__ == "__main__":
    main()
