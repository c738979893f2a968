# Kokkos Resilience; SOURCE is kokkos/kokkos-resilience, and KOKKOS in the environment is kokkos/kokkos.
program="Kokkos Resilience"
what="its own tests"
kokkos_version=4.6.01

run_client() {
    checkout c0b5ab6
    revision="$revision, Kokkos $kokkos_version (Serial, OpenMP)"
    unpack "${KOKKOS:?has to be a checkout of kokkos/kokkos, or a bare git directory}" kokkos $kokkos_version
    # Kokkos Resilience takes the views' hooks from Kokkos, and its C++ standard.
    build kokkos kokkos-build -DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_OPENMP=ON -DCMAKE_CXX_STANDARD=17 || return
    # It would download googletest, and CLI11, which only its examples use. With C++17 Kokkos warns.
    mkdir "$work/nothing"
    build source tests -DKR_WARNINGS_AS_ERRORS=OFF -DKR_ENABLE_VELOC_BACKEND=ON -DKR_ENABLE_EXAMPLES=OFF \
        -DFETCHCONTENT_SOURCE_DIR_GOOGLETEST="${GOOGLETEST:-/usr/src/googletest}" \
        -DFETCHCONTENT_SOURCE_DIR_CLI11="$work/nothing" || return
    count_tests tests
}
