# The programs of VELOC's branch `final_tests`, in the order of its scripts; SOURCE is ECP-VeloC/VELOC with that branch.
program="programs of VELOC's branch \`final_tests\`"
what="1 and 2 processes, a directory or a version lost in between"

run_client() {
    checkout 78a0894
    mkdir -p "$work/build"
    ln -s "$prefix/include" "$work/build/include"
    # After a restart the programs return without MPI_Finalize, for which Open MPI's mpirun fails.
    cat > "$work/build/main.c" <<'END'
#include <mpi.h>
#undef main

int program_main(int argc, char **argv);

int main(int argc, char **argv)
{
    int status = program_main(argc, argv), finalized;

    MPI_Finalized(&finalized);
    if (!finalized)
        MPI_Finalize();
    return status;
}
END
    for name in chkpt_{mem,file} 2chkpt_{mem,file} chkpt_{mem,file}_multilevel_corruption performance_mem; do
        prepare "building $name" mpicc -O2 -w -Dmain=program_main -I "$work/build" "$work/build/main.c" \
            "$work/source/test/veloc_${name}_test.c" -o "$work/build/$name" $(pkg-config --cflags --libs veloc) -lm
    done
    for processes in 1 2; do
        for way in mem file; do
            lose chkpt_$way nothing
            lose chkpt_$way scratch
            lose chkpt_${way}_multilevel_corruption nothing
            lose 2chkpt_$way version
        done
        check "performance_mem, $processes" performance "$work/performance-$processes"
    done
    for way in mem file; do
        skip parallel_veloc_chkpt_${way}_test_xor_simulate_scratch_and_persistent_loss "it needs several nodes"
    done
}

lose() {
    check "$1, $processes, without $2" restarts "$1" "$2" "$work/$1-$2-$processes"
}

# Whether a program that has lost $2 in between finds its first version, and the data in it.
restarts() {
    local folder=$3 command="timeout 300 mpirun -n $processes $work/build/$1 256 veloc.cfg"
    configure "$folder" "threaded = true" "mode = async" "log_prefix = $folder"
    (cd "$folder" && $command 0) || return
    case $2 in
        scratch) rm -rf "$folder"/scratch/* ;;
        version) rm -r "$folder/scratch" "$folder"/persistent/*1.dat ;;
    esac
    says "$folder" "Previous checkpoint found at iteration 0," $command 1 &&
        ! grep -E "FAILED|Could not" "$folder/output"
}

performance() {
    local folder=$1
    configure "$folder" "threaded = true" "mode = async" "log_prefix = $folder"
    # It adds its times to a file below /dev/shm.
    (cd "$folder" && timeout 300 mpirun -n $processes "$work/build/performance_mem" 256 veloc.cfg 128 $processes \
        "../..$folder/results.csv") && grep "^,$processes," "$folder/results.csv" &&
        rm -r "$folder"/{scratch,persistent}
}
