"""What pip gets from build_backend.py, which lies beside this folder."""

import base64
import csv
import email
import hashlib
import importlib.util
import pathlib
import tarfile
import tempfile
import unittest
import zipfile

SOURCES = pathlib.Path(__file__).resolve().parent.parent


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        found = importlib.util.spec_from_file_location("build", SOURCES / "build_backend.py")
        self.backend = importlib.util.module_from_spec(found)
        found.loader.exec_module(self.backend)

    def contents(self, make):
        with zipfile.ZipFile(self.folder / make(self.folder)) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}

    def test_a_wheel_has_the_package_and_a_true_record(self):
        """Catches a module that is left out, and a record that an installer refuses."""
        for make in (self.backend.build_wheel, self.backend.build_editable):
            files = self.contents(make)
            (record,) = (name for name in files if name.endswith("/RECORD"))
            rows = list(csv.reader(files[record].decode().splitlines()))
            self.assertEqual([row[0] for row in rows], list(files))
            for name, digest, length in rows:
                if name != record:
                    expected = hashlib.sha256(files[name]).digest()
                    found = base64.urlsafe_b64decode(digest.split("=", 1)[1] + "==")
                    self.assertEqual((found, int(length)), (expected, len(files[name])), name)
        modules = {
            path.relative_to(SOURCES).as_posix() for path in (SOURCES / "veloc").rglob("*.py")
        }
        self.assertIn("veloc/plot/__main__.py", modules)
        files = self.contents(self.backend.build_wheel)
        self.assertEqual({name for name in files if name.startswith("veloc/")}, modules)
        (metadata,) = (text for name, text in files.items() if name.endswith("/METADATA"))
        message = email.message_from_bytes(metadata)
        self.assertEqual((message["Name"], message["Requires-Python"]), ("veloc", ">=3.8"))
        self.assertIn("veloc.Ckpt", message.get_payload())
        version = f'__version__ = "{message["Version"]}"\n'
        self.assertIn(version, files["veloc/__init__.py"].decode())
        first = (self.folder / self.backend.build_wheel(self.folder)).read_bytes()
        second = (self.folder / self.backend.build_wheel(self.folder)).read_bytes()
        self.assertEqual(first, second)

    def test_the_sources_can_be_built_again(self):
        with tarfile.open(self.folder / self.backend.build_sdist(self.folder)) as archive:
            names = {name.split("/", 1)[1] for name in archive.getnames()}
        self.assertLessEqual({"pyproject.toml", "build_backend.py", "README.md"}, names)
        self.assertLessEqual({"PKG-INFO", "veloc/__init__.py", "veloc/_ckpt.py"}, names)


if __name__ == "__main__":
    unittest.main()
