#!/usr/bin/env python3
"""Edits a copy of SPECFEM2D, and a copy of its example Tromp2005_kernel.

    specfem2d.py veloc DIR MODULE    frames of the forward wavefield as checkpoints; MODULE is the file veloc_2003.f90
    specfem2d.py case FOLDER         a short run with 8 frames
    specfem2d.py adjoint FOLDER      kernels are next: what the receiver has recorded is the adjoint source
"""

import math
import re
import shutil
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path.append(str(here / "../gpu/velocity-bench"))
from relink import Source

FIELDS = "displ_elastic", "veloc_elastic", "accel_elastic"
STEPS, FRAME = 500, 64


def veloc(root, module):
    code = root / "src/specfem2D"
    shutil.copy(module, code / "veloc_2003.f90")
    # The documentation has it: so that is tested, too.
    page = (here / "../docs/existing-codes.md").read_text()
    frames = re.search(r"^module veloc_frames\n.*?\nend module\n", page, re.DOTALL | re.MULTILINE)
    if frames is None:
        sys.exit("specfem2d.py: no module veloc_frames in docs/existing-codes.md")
    (code / "veloc_frames.f90").write_text(frames[0])

    fields = Source(root, "src/specfem2D/specfem2D_par.f90")
    for prefix in "", "b_":
        names = [prefix + name for name in FIELDS]
        fields.insert("target", rf":: {','.join(reversed(names))}\b", f"  target :: {', '.join(names)}\n")

    loop = Source(root, "src/specfem2D/iterate_time_undoatt.F90")
    loop.insert("use", r"\buse specfem_par\b", "  use veloc_frames\n")
    loop.replace("store", r"\bsave_forward_arrays_undoatt\(\)", "store_frame(iteration_on_subset)")
    loop.replace("restore", r"\bread_forward_arrays_undoatt\(\)",
                 "restore_frame(NSUBSET_ITERATIONS - iteration_on_subset + 1)")

    program = Source(root, "src/specfem2D/specfem2D.F90")
    program.insert("use", r"\buse specfem_par\b", "  use veloc_frames\n")
    program.insert("begin", r"\bcall iterate_time_undoatt\(\)", "    call begin_frames()\n", before=True)
    program.insert("end", r"\bcall iterate_time_undoatt\(\)", "    call end_frames()\n")

    rules = Source(root, "src/specfem2D/rules.mk")
    rules.insert("objects", r"\$O/specfem2D_par\.spec_module\.o \\",
                 "\t$O/veloc_2003.spec_module.o \\\n\t$O/veloc_frames.spec.o \\\n")
    rules.insert("order", r"\$O/specfem2D\.spec\.o: ",
                 "$O/veloc_frames.spec.o: $O/veloc_2003.spec_module.o\n"
                 "$O/specfem2D.spec.o $O/iterate_time_undoatt.spec.o: $O/veloc_frames.spec.o\n")
    for source in fields, loop, program, rules:
        source.path.write_text(source.text)


def parameters(folder, **changes):
    path = folder / "DATA/Par_file"
    text = path.read_text()
    for key, value in changes.items():
        text, times = re.subn(rf"^({key} *=).*$", rf"\g<1> {value}", text, flags=re.MULTILINE)
        if times != 1:
            sys.exit(f"specfem2d.py: {times} lines {key} in {path}, expected 1")
    path.write_text(text)


def case(folder):
    parameters(folder, NSTEP=STEPS, UNDO_ATTENUATION_AND_OR_PML=".true.", NT_DUMP_ATTENUATION=FRAME, xdeb="60000.",
               save_ASCII_kernels=".false.", output_color_image=".false.")
    (folder / "OUTPUT_FILES").mkdir()
    (folder / "SEM").mkdir()


def adjoint(folder):
    rows = [line.split() for line in (folder / "OUTPUT_FILES/AA.S0001.BXX.semd").read_text().splitlines()]
    for component in "BXX", "BXY", "BXZ":
        with open(folder / f"SEM/AA.S0001.{component}.adj", "w") as file:
            for step, (time, value) in enumerate(rows):
                taper = math.sin(math.pi * step / len(rows)) if component == "BXX" else 0
                file.write(f"{time} {taper * float(value):.9e}\n")
    parameters(folder, SIMULATION_TYPE=3, SAVE_FORWARD=".false.")


if __name__ == "__main__":
    commands = {"veloc": (veloc, 4), "case": (case, 3), "adjoint": (adjoint, 3)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) != commands[sys.argv[1]][1]:
        sys.exit(__doc__)
    commands[sys.argv[1]][0](*map(Path, sys.argv[2:]))
