# VELOC's heat distribution in C, with memory regions and with files of its own; SOURCE is ECP-VeloC/VELOC.
program="VELOC's heatdis, memory and files"
what="2 processes, killed and restarted, sync and async"

run_client() {
    checkout
    # Its programs include "include/veloc.h": ours.
    mkdir -p "$work/build"
    ln -s "$prefix/include" "$work/build/include"
    for way in mem file; do
        check "building heatdis_$way" mpicc -O2 -I "$work/build" "$work/source/test/heatdis_$way.c" \
            -o "$work/build/$way" $(pkg-config --cflags --libs veloc) -lm
        for mode in sync async; do
            heat "$way" "$mode"
        done
    done
}

# A run to the end, one that is killed and restarted, and their last versions.
heat() {
    local folder=$work/$1-$2 command="mpirun -n 2 $work/build/$1 16 veloc.cfg"
    for run in whole killed; do
        configure "$folder/$run" "mode = $2" "max_versions = 2" "scratch_versions = 2"
    done
    check "$1, $2: a whole run" says "$folder/whole" "Execution finished" $command
    check "$1, $2: a kill" kill_once "$folder/killed" "$folder/killed/*/*400*" $command
    check "$1, $2: a restart" says "$folder/killed" "Previous checkpoint found" $command
    check "$1, $2: the last versions" same_files "$folder/whole" "$folder/killed" "persistent/*600*"
}
