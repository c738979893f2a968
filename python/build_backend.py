"""Builds the package for pip, with the standard library alone (PEP 517 and PEP 660).

So `pip install` needs no network and neither setuptools nor wheel.
"""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "veloc"
# Not by an import: that is for who has installed it.
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / NAME / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE
).group(1)
METADATA = f"""\
Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Checkpoints of NumPy arrays, GPU arrays and Python objects, with the interface of VELOC
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Provides-Extra: mpi
Requires-Dist: mpi4py; extra == "mpi"
Provides-Extra: plot
Requires-Dist: matplotlib>=3.7; extra == "plot"
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: build_backend (veloc)
Root-Is-Purelib: true
Tag: py3-none-any
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel, and gives the name of its file."""
    modules = {path.relative_to(HERE).as_posix(): path.read_bytes() for path in _modules()}
    return _wheel(wheel_directory, modules)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The same for `pip install --editable`: a wheel that points here."""
    return _wheel(wheel_directory, {f"{NAME}.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    """Writes the archive of the sources, and gives the name of its file."""
    folder = f"{NAME}-{VERSION}"
    sources = [HERE / name for name in ("pyproject.toml", "build_backend.py", "README.md")]
    with tarfile.open(pathlib.Path(sdist_directory, f"{folder}.tar.gz"), "w:gz") as archive:
        for path in [*sources, *_modules()]:
            archive.add(path, f"{folder}/{path.relative_to(HERE).as_posix()}")
        info = tarfile.TarInfo(f"{folder}/PKG-INFO")
        info.size = len(_metadata())
        archive.addfile(info, io.BytesIO(_metadata()))
    return f"{folder}.tar.gz"


def _modules():
    return sorted((HERE / "veloc").rglob("*.py"))


def _metadata():
    return (METADATA + (HERE / "README.md").read_text(encoding="utf-8")).encode()


def _wheel(directory, files):
    """Writes a wheel of these files, by their paths in it."""
    about = f"{NAME}-{VERSION}.dist-info"
    files = {**files, f"{about}/METADATA": _metadata(), f"{about}/WHEEL": WHEEL.encode()}
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    wheel = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            # With one time and mode for all, equal sources make equal wheels.
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return wheel


def _digest(text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest())
    return "sha256=" + digest.decode().rstrip("=")
