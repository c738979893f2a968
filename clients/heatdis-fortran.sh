# The same in Fortran, of VELOC's branch `fortran`; SOURCE is ECP-VeloC/VELOC.
program="heatdis in Fortran"
what="2 processes, killed and restarted, sync and async"

run_client() {
    checkout fortran
    mkdir -p "$work/build"
    local modules
    modules=$(pkg-config --variable=fortrandir veloc)
    check "building fheatdis" in_build mpifort -O2 "$modules/veloc.f90" "$work/source/test/fheatdis.f90" \
        "$modules/descriptor.c" -o heat $(pkg-config --libs veloc)
    for mode in sync async; do
        local folder=$work/$mode command="mpirun -n 2 $work/build/heat"
        for run in whole killed; do
            configure "$folder/$run" "mode = $mode" "max_versions = 2" "scratch_versions = 2"
            mv "$folder/$run/veloc.cfg" "$folder/$run/fheatdis.cfg"
        done
        check "$mode: a whole run" says "$folder/whole" "Execution finished" $command
        check "$mode: a kill" kill_once "$folder/killed" "$folder/killed/*/*-120.dat" $command
        check "$mode: a restart" says "$folder/killed" "Previous checkpoint found" $command
        check "$mode: the last versions" same_files "$folder/whole" "$folder/killed" "persistent/*-200.dat"
    done
}

in_build() {
    cd "$work/build" && "$@"
}
