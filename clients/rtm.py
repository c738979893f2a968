#!/usr/bin/env python3
"""Edits a copy of the reverse time migration of Brightskies.

    rtm.py prepare DIR   two shots of its synthetic model, with the forward wavefields stored; the library in its build
    rtm.py veloc DIR     these wavefields as checkpoints of VELOC, by the edits of ../gpu/velocity-bench
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "../gpu/velocity-bench"))
import relink


def prepare(root):
    def change(name, edit):
        path = root / "workloads/synthetic_model" / name
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content, indent=1))

    def engine(content):
        content["models"] = {"velocity": content["models"]["velocity"]}
        content["components"]["forward-collector"] = {"type": "two", "properties": {}}

    def shots(content):
        source = content["meta-data"]["source"]
        source["end"]["x-index"] = source["increment"]["x-index"] = 200

    change("engine_configuration.json", engine)
    change("synthetic_traces.json", shots)

    library = relink.Source(root, "libs/SeismicOperations/src/CMakeLists.txt")
    library.insert("package", r"target_link_libraries\(SEISMIC-OPERATIONS\b",
                   "find_package(veloc 1.8 REQUIRED)\ntarget_link_libraries(SEISMIC-OPERATIONS veloc::client)\n")
    return [library]


def veloc(root):
    _, collector = relink.veloc(root)  # the other one is the build of the CUDA port
    return [collector]


if __name__ == "__main__":
    edits = {"prepare": prepare, "veloc": veloc}
    if len(sys.argv) != 3 or sys.argv[1] not in edits:
        sys.exit(__doc__)
    for source in edits[sys.argv[1]](Path(sys.argv[2]).resolve()):
        source.path.write_text(source.text)
