# The reverse time migration of Brightskies in C++, whose rings of forward wavefields become checkpoints; SOURCE is
# brightskiesinc/Reverse_Time_Migration. ../gpu/velocity-bench has the same for its CUDA port.
program="RTM of Brightskies"
what="images of 2 shots, one thread, in memory and spilled to scratch"

run_client() {
    checkout 5873002
    # More threads than processors spin.
    export OMP_NUM_THREADS=1
    # Both programs are linked with the library, so that the second build compiles one file.
    check "shots and build" python3 "$here/rtm.py" prepare "$work/source"
    # It is for an older spdlog than distributions have, and for compilers whose headers include more of each other.
    check "configuring" cmake -S "$work/source" -B "$work/build" -Wno-dev -DUSE_OMP=ON -DCMAKE_BUILD_TYPE=NOMODE \
        -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_CXX_FLAGS="-O2 -DNDEBUG -fopenmp -include string -include cstdint -include limits \
-I $here/../gpu/velocity-bench"
    check "building the original" build
    cp "$work/build/Engine" "$work/original-engine"
    check "the traces" migrate "$work/build/Modeller" traces
    # The filtered image has memory that nobody has written: only the raw one is the same from run to run.
    check "a migration by the original" migrate "$work/original-engine" original
    check "its image is numbers, and not all the same" varied "$work/original/raw_migration.bin"

    check "the edits" python3 "$here/rtm.py" veloc "$work/source"
    check "building with VELOC" build
    configure "$work/memory" "mode = async" "ephemeral = true"
    # A third of a shot's states.
    configure "$work/spilled" "mode = async" "ephemeral = true" "host_cache_size = 128M"
    for run in memory spilled; do
        check "$run: a migration" migrate "$work/build/Engine" "$run"
        check "$run: it stores checkpoints" grep -q "checkpoints [1-9]" "$work/$run/output"
        check "$run: the image" same_files "$work/original" "$work/$run" "raw_migration.bin"
    done
    check "spilled: states were in scratch" grep -q "spills [1-9]" "$work/spilled/output"
}

build() {
    cmake --build "$work/build" --parallel 2 --target Engine Modeller
}

# Runs a program from the folder that its parameters name files in; $2 gets the results.
migrate() {
    mkdir -p "$work/$2" "$work/source/data" "$work/source/results"
    (cd "$work/source" && VELOC_FIGURES=1 VELOC_CFG="$work/$2/veloc.cfg" "$1" -m workloads/synthetic_model \
        -w "$work/$2") > "$work/$2/output" 2>&1 || {
        tail -n 20 "$work/$2/output"
        return 1
    }
}
