# VELOC's heat distribution in C++, which ends itself by MPI_Abort; SOURCE is ECP-VeloC/VELOC.
program='`heatdis_fault` (C++)'
what="ended by \`MPI_Abort\`, restarted with and without scratch"

run_client() {
    checkout
    mkdir -p "$work/build"
    ln -s "$prefix/include" "$work/build/include"
    check "building heatdis_fault" mpicxx -O2 -I "$work/build" "$work/source/test/heatdis_fault.cpp" -o "$work/build/fault" \
        $(pkg-config --cflags --libs veloc) -lm
    for lost in nothing scratch; do
        local folder=$work/$lost command="mpirun -n 2 $work/build/fault 16 veloc.cfg"
        configure "$folder" "mode = sync" "max_versions = 2" "scratch_versions = 2"
        check "without $lost: it aborts" aborts "$folder" $command
        [ $lost = nothing ] || rm -rf "$folder/scratch"
        check "without $lost: a restart" says "$folder" "Restart from iteration" $command
        check "without $lost: nothing is left in scratch" nothing_left "$folder/scratch"
    done
}

aborts() {
    local folder=$1
    shift
    (cd "$folder" && ! "$@") && compgen -G "$folder/persistent/heatdis-*" > /dev/null
}

nothing_left() {
    ! compgen -G "$1/heatdis-*" > /dev/null
}
