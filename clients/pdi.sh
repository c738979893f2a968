# The plugin `veloc` of PDI; SOURCE is pdidev/pdi with its pull request 661, which has the plugin.
program="PDI, plugin \`veloc\`"
what="its own tests, with Open MPI and with MPICH"

run_client() {
    # PDI with what it brings along, and without its other plugins.
    checkout d823b2ed CMakeLists.txt VERSION cmake pdi plugins/veloc \
        'vendor/googletest-*' 'vendor/libyaml-*' 'vendor/paraconf-*' 'vendor/spdlog-*' 'vendor/zpp-*'
    local without=()
    for part in BENCHMARKING DECL_HDF5_PLUGIN DECL_NETCDF_PLUGIN FORTRAN HDF5_PARALLEL MPI_PLUGIN NETCDF_PARALLEL \
        PYCALL_PLUGIN PYTHON SERIALIZE_PLUGIN SET_VALUE_PLUGIN TRACE_PLUGIN USER_CODE_PLUGIN VELOC_PLUGIN; do
        without+=("-DBUILD_$part=OFF")
    done
    build source pdi "${without[@]}" || return
    for mpi in openmpi mpich; do
        if command -v mpicc.$mpi > /dev/null; then
            build source/plugins/veloc $mpi -DMPI_C_COMPILER=mpicc.$mpi -DMPI_CXX_COMPILER=mpicxx.$mpi \
                -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.$mpi)" && count_tests $mpi
        else
            skip "with $mpi" "it is not installed"
        fi
    done
}
