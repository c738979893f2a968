#!/usr/bin/env python3
"""Compile kernels from CUDA source to PTX with NVIDIA's run-time compiler; no toolkit is needed.

    python3 -m venv /tmp/nvrtc && /tmp/nvrtc/bin/pip install nvidia-cuda-nvrtc-cu11==11.8.89
    /tmp/nvrtc/bin/python scripts/make_ptx.py crates/device/kernels/compression.cu \\
        examples/rtm/kernels/rtm.cu tools/veloc-bench/kernels/bench.cu

writes a .ptx beside each source. Run it after each change of a .cu and commit both files. A driver
refuses PTX of a version that is newer than itself, so the kernels say the oldest that has all they
use: drivers take it from 384 on. `cargo xtask nvidia` assembles them, and makes them again.
"""

import ctypes
import glob
import importlib.util
import pathlib
import sys

# The oldest architecture that the compiler still knows serves every later GPU.
ARCHITECTURE = "compute_60"

# What the compiler says, and what suffices for these kernels.
OWN_VERSION, VERSION = b".version 7.8\n", b".version 6.0\n"


def compiler() -> ctypes.CDLL:
    """The run-time compiler, from the wheel or from the system."""
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    for folder in spec.submodule_search_locations if spec else ():
        for path in glob.glob(f"{folder}/lib/libnvrtc.so.*"):
            return ctypes.CDLL(path)
    return ctypes.CDLL("libnvrtc.so")


def compile_ptx(source: pathlib.Path) -> bytes:
    nvrtc = compiler()
    program = ctypes.c_void_p()

    def check(code: int, what: str) -> None:
        if code != 0:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"{what} failed with code {code}\n{log.value.decode()}")

    text, name = source.read_bytes(), source.name.encode()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None)
    check(created, "nvrtcCreateProgram")
    flags = [f"--gpu-architecture={ARCHITECTURE}".encode(), b"--std=c++14"]
    options = (ctypes.c_char_p * len(flags))(*flags)
    check(nvrtc.nvrtcCompileProgram(program, len(flags), options), "nvrtcCompileProgram")
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)), "nvrtcGetPTXSize")
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(program, ptx), "nvrtcGetPTX")
    check(ptx.value.count(OWN_VERSION) != 1, "finding the version of the PTX")
    return ptx.value.replace(OWN_VERSION, VERSION)


def main() -> None:
    sources = [pathlib.Path(name) for name in sys.argv[1:]]
    if not sources:
        sys.exit(__doc__)
    for source in sources:
        target = source.with_suffix(".ptx")
        ptx = compile_ptx(source)
        target.write_bytes(ptx)
        entries = ptx.count(b".visible .entry")
        print(f"{target}: {len(ptx)} bytes, {entries} kernels, {ARCHITECTURE}")


if __name__ == "__main__":
    main()
