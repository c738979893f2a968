# SPDX-License-Identifier: MIT OR Apache-2.0

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Veloc(CMakePackage):
    """Checkpoints for adjoint computations on GPUs: the interfaces of VELOC, with caches in the
    memory of GPU and host that are made usable in the background."""

    # For Spack 1.0 or newer. This file goes to packages/veloc of a repository of your own (spack repo
    # create, spack repo add), which comes before Spack's own, where veloc is VELOC. Write the path of
    # your clone here, and `spack install veloc` takes its branch main.
    git = "file:///usr/src/veloc"

    version("develop", branch="main")

    license("MIT OR Apache-2.0")

    variant("cxx", default=True, description="Build the C++ interface")

    # Cargo compiles the library, and gets the crates in Cargo.lock (Spack's rust gives it a CARGO_HOME
    # in the stage). Neither MPI nor CUDA is needed to build: both are found in the process of the
    # application.
    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cxx")
    depends_on("rust@1.88:", type="build")
    depends_on("cmake@3.20:", type="build")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def cmake_args(self):
        return [
            self.define_from_variant("VELOC_CXX", "cxx"),
            self.define("VELOC_CARGO", self.spec["rust"].prefix.bin.cargo),
        ]
