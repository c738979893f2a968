#!/usr/bin/env python3
"""Edits a copy of DENISE Black Edition, and writes a small inversion for it.

    denise.py veloc DIR             forward wavefields as checkpoints of VELOC
    denise.py case DIR FOLDER       a model, shots and parameters, in FOLDER
"""

import re
import sys
from array import array
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "../gpu/velocity-bench"))
from relink import Source

FIELDS = "forward_prop_x", "forward_prop_y", "forward_prop_rho_x", "forward_prop_rho_y", "forward_prop_u"
HEADER = r'#include "fd\.h"'


def call(text):
    name = text.split("(")[0]
    return f'if ({text} != VELOC_SUCCESS)\n    err("{name}");\n'


def veloc(root):
    program = Source(root, "src/denise.c")
    program.insert("header", HEADER, "#include <veloc.h>\n")
    program.insert("init", r"MPI_Comm_rank\(MPI_COMM_WORLD", call('VELOC_Init_single(MYID, "veloc.cfg")'), "main")
    program.insert("finalize", r"MPI_Finalize\(", call("VELOC_Finalize(0)"), "main", before=True)

    vectors = Source(root, "src/PSV/alloc_fwiPSV.c")
    vectors.insert("header", HEADER, "#include <veloc.h>\n")
    vectors.replace("one step", r"(?<=vector\()1,\s*NXNYI\*\(NTDTINV\)", "1, NXNYI", times=len(FIELDS))
    regions = "".join(f"    {{{at}, &fwiPSV->{field}[1], NXNYI, sizeof(float)}},\n" for at, field in enumerate(FIELDS))
    vectors.insert("regions", rf"\b{FIELDS[-1]}\b[^;]*;",
                   f"VELOC_Region step[] = {{\n{regions}}};\n" + call(f"VELOC_Mem_protect_list(step, {len(FIELDS)})"))

    steps = Source(root, "src/PSV/psv.c")
    steps.insert("header", HEADER, "#include <veloc.h>\n")
    steps.insert("step begins", r"if \(\(nt == hin1\)[^{]*\{", "imat = imat1 = imat2 = 1;\n")
    steps.insert("store", r"\bhin\+\+;\s*hin1 =", call('VELOC_Checkpoint("psv", hin)'), before=True)
    steps.replace("restore", r"\bimat = \(\(NXNYI[^;]*;",
                  call('VELOC_Restart("psv", NTDTINV - hin + 1)') + "imat = 1;")
    return [program, vectors, steps]


NX, NY, CELL = 100, 60, 20.0  # the processes share NX
SHOTS, RECEIVERS = (400, 800, 1200, 1600), range(240, 1780, 40)


def model(path, anomaly):
    """Layers, and an anomaly that is not in the model from which the inversion starts."""
    speeds = {"vp": (1800, 15, 250), "vs": (1000, 9, 150), "rho": (1900, 4, 80)}
    for parameter, (top, rise, more) in speeds.items():
        values = array("f", (top + rise * z + (more if anomaly and abs(x - 50) < 12 and abs(z - 30) < 6 else 0)
                             for x in range(NX) for z in range(NY)))
        path.with_name(f"{path.name}.{parameter}").write_bytes(values.tobytes())


def parameters(source, path, changes):
    """Their example with other values; a key is what its line has in front of the sign, or a name in parentheses."""
    text = source.read_text()
    for key, value in changes.items():
        text, times = re.subn(rf"^([^#\n]*\({key}\)[^=\n]*=|{key} =).*$", rf"\g<1> {value}", text, flags=re.MULTILINE)
        if times != 1:
            sys.exit(f"denise.py: {times} lines with {key} in {source.name}, expected 1")
    path.write_text(text)


def case(root, folder):
    for name in "model", "su", "jacobian", "log", "out":
        (folder / name).mkdir(parents=True, exist_ok=True)
    model(folder / "model/true", True)
    model(folder / "model/start", False)
    (folder / "shots.dat").write_text(
        f"{len(SHOTS)}\n" + "".join(f"{x}.0 0.0 60.0 0.0 8.0 1.0 0.0 1\n" for x in SHOTS))
    (folder / "receivers.dat").write_text("".join(f"{x}.0 80.0\n" for x in RECEIVERS))

    common = {
        "NPROCX": 2, "NPROCY": 1, "NX": NX, "NY": NY, "DH": CELL, "TIME": 1.2, "DT": "2.0e-3", "QUELLART": 1,
        "SOURCE_FILE": "shots.dat", "REC_FILE": "receivers", "WRITE_STF": 0, "WRITEMOD": 0, "LOG_FILE": "log/log",
        "DATA_DIR": "su/data",
        "JACOBIAN": "jacobian/gradient", "INV_MODELFILE": "out/model", "MISFIT_LOG_FILE": "out/misfit.dat",
        "ITERMAX": 2, "SWS_TAPER_GRAD_HOR": 0, "TESTSHOT_START,TESTSHOT_END,TESTSHOT_INCR": "1, 4, 1",
    }
    example = root / "par/DENISE_marm_OBC.inp"
    for name, mode, begin, seismograms in ("forward", 0, "true", "su/data"), ("inversion", 1, "start", "out/residual"):
        parameters(example, folder / f"{name}.inp", common | {
            "MODE": mode, "MFILE": f"model/{begin}", "SEIS_FILE_VX": f"{seismograms}_x.su",
            "SEIS_FILE_VY": f"{seismograms}_y.su"})

    names, first = (line.split() for line in (root / "par/FWI_workflow_marmousi.inp").read_text().splitlines()[:2])
    stage = dict(zip(names, first), TIME_FILT="0")
    (folder / "workflow.inp").write_text(" ".join(names) + "\n" + " ".join(stage.values()) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "case":
        case(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 3 and sys.argv[1] == "veloc":
        for source in veloc(Path(sys.argv[2]).resolve()):
            source.path.write_text(source.text)
    else:
        sys.exit(__doc__)
