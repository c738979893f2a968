# DENISE Black Edition in C, an elastic full waveform inversion whose stored time steps become checkpoints; SOURCE is
# daniel-koehn/DENISE-Black-Edition.
program="DENISE Black Edition"
what="gradients of 2 iterations over 4 shots in 2 processes, in memory and spilled"

run_client() {
    checkout b07d81d src include libcseife par/DENISE_marm_OBC.inp par/FWI_workflow_marmousi.inp
    mkdir -p "$work/build"
    check "building libcseife" make -C "$work/source/libcseife"
    check "building the original" build original
    check "the edits" python3 "$here/denise.py" veloc "$work/source"
    check "building with VELOC" build changed "$(pkg-config --cflags veloc)" "$(pkg-config --libs veloc)"
    check "the case" python3 "$here/denise.py" case "$work/source" "$work/case"
    check "the data" denise "$work/case" original forward
    for run in original memory spilled; do
        cp -R "$work/case" "$work/$run"
    done
    configure "$work/memory" "mode = async" "ephemeral = true"
    # 200 steps of 60 KB each are stored in each process.
    configure "$work/spilled" "mode = async" "ephemeral = true" "host_cache_size = 4M"
    check "an inversion by the original" denise "$work/original" original inversion
    check "its gradients are numbers, and not all the same" varied "$work/original"/jacobian/gradient_p*.old
    for run in memory spilled; do
        check "$run: an inversion" denise "$work/$run" changed inversion
        check "$run: the gradients" same_files "$work/original" "$work/$run" "jacobian/gradient_p*.old"
        check "$run: models and misfits" same_files "$work/original" "$work/$run" "out/m*"
    done
    check "spilled: states were in scratch" grep -q '"name":"write","cat"' "$work/spilled/trace.json"
}

# Their makefile knows no dependencies: what has changed is compiled again by its time.
build() {
    make -C "$work/source/src" -j 2 denise EXEC="$work/build" \
        CFLAGS="-O2 -w -fcommon ${2-}" LFLAGS="-lm -lcseife -lfftw3 -lstdc++ ${3-}" &&
        mv "$work/build/denise" "$work/build/$1"
}

denise() {
    cd "$1" && VELOC_TRACE=trace.json OMPI_MCA_mpi_yield_when_idle=1 mpirun -n 2 "$work/build/$2" "$3.inp" workflow.inp
}
