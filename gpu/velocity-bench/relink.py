#!/usr/bin/env python3
"""Edits a copy of Velocity-Bench's reverse time migration.

    relink.py common DIR     what both programs of the comparison get
    relink.py veloc DIR      forward wavefields as checkpoints of VELOC (behind common)

A place is found by identifiers, inside the function named, and has to be there exactly once (or as often as said):
otherwise nothing is written, and the message names the edit.
"""

import re
import sys
from pathlib import Path


class Source:
    def __init__(self, root, suffix):
        found = [root / suffix] if (root / suffix).is_file() else sorted(root.glob("**/" + suffix))
        if len(found) != 1:
            sys.exit(f"relink.py: {suffix}: {len(found)} files of this name, expected 1")
        self.path = found[0]
        self.text = self.path.read_text()

    def closing(self, start, opening, closing):
        """The position behind the bracket that closes the first one at or behind `start`."""
        at = self.text.index(opening, start)
        depth = 0
        while True:
            depth += {opening: 1, closing: -1}.get(self.text[at], 0)
            at += 1
            if depth == 0:
                return at

    def span(self, edit, function):
        """From the head of a function to its end; of the file, if none is named."""
        if function is None:
            return 0, len(self.text)
        heads = list(re.finditer(rf"^(?=\S)[^;\n]*(?<!\w){function}\s*\(", self.text, re.MULTILINE))
        if len(heads) != 1:
            sys.exit(f"relink.py: {edit}: {len(heads)} functions {function} in {self.path.name}, expected 1")
        start = heads[0].start()
        return start, self.closing(self.closing(start, "(", ")"), "{", "}")

    def find(self, edit, pattern, function=None, times=1):
        start, end = self.span(edit, function)
        places = [m for m in re.compile(pattern).finditer(self.text, start, end)]
        if len(places) != times:
            where = f"{function} of {self.path.name}" if function else self.path.name
            sys.exit(f"relink.py: {edit}: {len(places)} places like {pattern} in {where}, expected {times}")
        return places

    def cut(self, start, end, text=""):
        self.text = self.text[:start] + text + self.text[end:]

    def line(self, position):
        """Bounds of the line around a position, its end behind the newline."""
        return self.text.rfind("\n", 0, position) + 1, self.text.index("\n", position) + 1

    def insert(self, edit, pattern, text, function=None, times=1, before=False):
        """Lines in front of, or behind, the lines in which statements that match end."""
        for place in reversed(self.find(edit, pattern, function, times)):
            at = self.line(place.start())[0] if before else self.line(place.end())[1]
            self.cut(at, at, text)

    def replace(self, edit, pattern, text, function=None, times=1):
        for place in reversed(self.find(edit, pattern, function, times)):
            self.cut(*place.span(), text)

    def remove_lines(self, edit, pattern, times=1):
        for place in reversed(self.find(edit, pattern, times=times)):
            self.cut(*self.line(place.start()))

    def replace_statement(self, edit, pattern, text, function):
        """A statement from what matches to its semicolon."""
        place = self.find(edit, pattern, function)[0]
        self.cut(place.start(), self.text.index(";", place.end()) + 1, text)

    def replace_block(self, edit, pattern, text, function):
        """An `if` whose condition matches, with its block and its `else`, if there is one."""
        place = self.find(edit, pattern, function)[0]
        end = self.closing(place.end(), "{", "}")
        other = re.compile(r"\s*else\s*\{").match(self.text, end)
        if other:
            end = self.closing(end, "{", "}")
        self.cut(place.start(), end, text)


def common(root):
    # CUDA 13 has no clock rate among the properties any more: two lines that print it go.
    properties = Source(root, "computation-parameters/cuda/computation_parameters_generator.cpp")
    properties.remove_lines("clock rate", r"\bmemoryClockRate\b", times=2)

    # The kernel writes the shared row of the next depth while other warps of the block may still read this one.
    kernel = Source(root, "cuda/computation-kernels/isotropic/SecondOrderComputationKernel.cu")
    kernel.insert("barrier", r"\bidx \+= nx;", "        __syncthreads();\n", before=True)

    # Borders of wavefields are read and never written.
    buffers = Source(root, "cuda/data-units/FrameBuffer.cpp")
    buffers.insert("zero", r"checkCUDA\(cudaMalloc\([^;]*;",
                   "    checkCUDA(cudaMemset(mpDataPointer, 0, mAllocatedBytes));\n", times=2)

    # What it writes at the end is taken from a frame without padding as if it had padding, so that the image is
    # sheared, and what lies behind the frame gets into it; borders of the image are memory that nobody has written.
    image = Source(root, "independents/migration-accommodators/CrossCorrelationKernel.cpp")
    image.replace("no padding", r"\bGetActualGridSize\(\)", "GetLogicalGridSize()", "GetMigrationData")
    image.replace("borders", r"(?<=\])(?=;)", "()", "GetMigrationData")
    return [properties, kernel, buffers, image]


def veloc(root):
    build = Source(root, "CMakeLists.txt")
    build.insert("library", r"include_directories\(\$\{CMAKE_CURRENT_SOURCE_DIR\}/prerequisites\)",
                 "include_directories(${STATES_INCLUDE} ${VELOC_ROOT}/include)\n"
                 "link_libraries(${VELOC_ROOT}/lib/libveloc-client.so)\n", before=True)

    collector = Source(root, "forward-collectors/TwoPropagation.cpp")
    host = r"this->mpForwardPressureHostMemory"
    whole_run = r"if \(\(this->mTimeCounter \+ 1\) % this->mMaxNT == 0\)"
    collector.insert("header", r"#include <operations/[^>]*/TwoPropagation\.hpp>", "#include <veloc_states.hpp>\n")
    collector.insert("init", r"mpInternalGridBox = new GridBox\(\);", "    veloc_states::init();\n",
                     "TwoPropagation::TwoPropagation")
    collector.replace_block("end", rf"if \({host} != nullptr\)", "veloc_states::end();",
                            "~TwoPropagation")

    reset = "TwoPropagation::ResetGrid"
    collector.replace_block("memory fits", rf"if \({host} != nullptr\)", "this->mIsMemoryFit = true;", reset)
    collector.replace_statement("host memory", rf"{host} = [^;]*\bmem_allocate\(", "", reset)
    collector.replace("first shot", rf"if \({host} == nullptr\)", "if (this->mpForwardPressure == nullptr)", reset)
    collector.insert("begin", r"this->mpTempCurr = this->mpMainGridBox->Get\(",
                     "        veloc_states::begin(this->mpForwardPressure->GetNativePointer(),\n"
                     "                            this->mMaxDeviceNT * window_size * sizeof(float),\n"
                     "                            this->mpMainGridBox->GetNT() / this->mMaxDeviceNT);\n", reset,
                     before=True)
    collector.insert("backward", r"Device::MemSet\(this->mpTempCurr\b", "        veloc_states::backward();\n", reset,
                     before=True)

    for function, call in ("SaveForward", "store"), ("FetchForward", "restore"):
        function = "TwoPropagation::" + function
        collector.replace_block("file, " + call, whole_run, "", function)
        collector.replace_statement(call, r"Device::MemCpy\(", f"veloc_states::{call}(host_index);", function)
    return [build, collector]


if __name__ == "__main__":
    edits = {"common": common, "veloc": veloc}
    if len(sys.argv) != 3 or sys.argv[1] not in edits:
        sys.exit(__doc__)
    for source in edits[sys.argv[1]](Path(sys.argv[2]).resolve()):
        source.path.write_text(source.text)
        print(f"relink.py: {sys.argv[1]}: {source.path.name}")
