"""Puts the library and its programs into the wheel, as cargo builds them in the folder above.

With the variable VELOC_BUILT they are taken from the folder that it names, or, without cargo, from
what cargo has built there before.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Any

from elftools.elf.elffile import ELFFile
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What cargo has made, and the names that it gets beside each other: the library looks for
#: veloc-backend there.
FILES = {"libveloc_client.so": "libveloc-client.so", "veloc-backend": "veloc-backend", "veloc": "veloc"}
#: What goes with them.
NOTICES = ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-NOTICES")
#: Those of CMakeLists.txt: with others, cargo would build what they share once more.
PACKAGES = ("veloc", "daemon", "veloc-cli", "veloc-mpi", "rtm", "softcuda", "veloc-crash")


class CustomBuildHook(BuildHookInterface[Any]):
    """The hook that hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation is the sources, beside a library that is found as others are.
        if version == "editable":
            return
        sources = pathlib.Path(self.root).parent
        built = self._built(sources)
        self.folder = tempfile.TemporaryDirectory()
        inside, needed = build_data["force_include"], (0, 0)
        for name, its_name in FILES.items():
            path = pathlib.Path(self.folder.name, its_name)
            shutil.copy2(built / name, path)
            if strip := shutil.which("strip"):
                subprocess.run([strip, "--strip-unneeded", path], check=True)
            needed = max(needed, glibc_of(path))
            inside[str(path)] = f"veloc/_native/{its_name}"
        for name in NOTICES:
            if (sources / name).is_file():
                inside[str(sources / name)] = f"veloc/_native/{name}"
        machine = sysconfig.get_platform().removeprefix("linux-").replace("-", "_")
        system = "manylinux_{}_{}".format(*needed) if needed > (0, 0) else "linux"
        build_data.update(pure_python=False, tag=f"py3-none-{system}_{machine}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()

    def _built(self, sources: pathlib.Path) -> pathlib.Path:
        """The folder of the files, which are built if they can be."""
        if given := os.environ.get("VELOC_BUILT"):
            self._check(pathlib.Path(given), "as VELOC_BUILT says")
            return pathlib.Path(given)
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", sources / "target"))
        if not target.is_absolute():
            target = sources / target
        built = target / "release"
        # Where it is beside rustup, it need not be on the path.
        home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
        cargo = os.environ.get("CARGO") or shutil.which("cargo") or shutil.which(home / "bin/cargo")
        if not (sources / "Cargo.lock").is_file():
            raise SystemExit(
                f"veloc: {sources} has no Cargo.lock: the library is built from a checkout of all "
                "sources; VELOC_BUILT can name a folder with " + ", ".join(FILES)
            )
        if cargo is None:
            self._check(built, "install a Rust toolchain (1.88 or newer), of which cargo was not found")
            self.app.display_warning(f"cargo was not found: the wheel gets what is in {built}")
            return built
        command = [cargo, "build", "--locked", "--release"]
        command += [word for package in PACKAGES for word in ("--package", package)]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        environment.pop("CARGO_BUILD_TARGET", None)
        if subprocess.run(command, cwd=sources, env=environment).returncode != 0:
            raise SystemExit(f"veloc: {' '.join(map(str, command))} failed in {sources}")
        return built

    @staticmethod
    def _check(folder: pathlib.Path, advice: str) -> None:
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise SystemExit(f"veloc: {folder} has no {', '.join(missing)} ({advice})")


def glibc_of(path: pathlib.Path) -> tuple[int, int]:
    """The newest version of the GNU C library of which the file needs a symbol."""
    with path.open("rb") as file:
        section: Any = ELFFile(file).get_section_by_name(".gnu.version_r")
        names = [one.name for _, of in section.iter_versions() for one in of] if section else []
    found = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name) for name in names]
    return max(((int(match[1]), int(match[2])) for match in found if match), default=(0, 0))
