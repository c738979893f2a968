/*
 * Two programs, of which the second reads what the first has left in memory:
 *
 *   handover <configuration> forward|adjoint [key=value ...]
 *
 *   steps=N         how many states there are, from version 1 on [8]
 *   size=BYTES      of each [100000]
 *   rank=R          the number of this process, without MPI
 *   device=0|1      whether the states are in device memory
 *   die=V           the forward run ends by SIGKILL behind version V, the adjoint before it reads V
 *   from=V          the adjoint begins with version V [N]
 *   leave=V         the adjoint ends behind version V [1]
 *   drain=0|1       the argument of VELOC_Finalize [1]
 *   again=0|1       the forward run begins with what there is
 *   wait=0|1        the forward run waits until the states are in files
 *   hold=0|1        the process waits for its standard input to end before it finalizes
 *
 * The forward run prints "taken v", the adjoint "restored v", and "read n bytes of files". Compiled with
 * MPI, each process is a rank, and rank 0 prints.
 */
#include "cuda.h"

#include <signal.h>
#include <unistd.h>

static size_t size;
static unsigned char *memory;
static CUdeviceptr device;
static int rank;

static void say(const char *what, long long value)
{
    if (rank == 0) {
        printf("%s %lld\n", what, value);
        fflush(stdout);
    }
}

static void forward(int argc, char **argv)
{
    int steps = (int)number(argc, argv, "steps", 8);
    int die = (int)number(argc, argv, "die", 0);
    int version = 1;
    if (number(argc, argv, "again", 0)) {
        int newest = VELOC_Restart_test("two", 0);
        if (newest > 0) {
            OK(VELOC_Restart("two", newest));
            version = newest + 1;
        }
        say("newest", newest);
    }
    for (; version <= steps; version++) {
        if (device != 0)
            fill_device(device, size, rank, version);
        else
            fill(memory, size, rank, version);
        OK(VELOC_Checkpoint("two", version));
        say("taken", version);
        if (version == die)
            raise(SIGKILL);
    }
    if (number(argc, argv, "wait", 0))
        OK(VELOC_Checkpoint_wait());
}

static void adjoint(int argc, char **argv)
{
    int steps = (int)number(argc, argv, "steps", 8);
    int die = (int)number(argc, argv, "die", 0);
    int leave = (int)number(argc, argv, "leave", 1);
    int version = (int)number(argc, argv, "from", steps);
    VELOC_Metrics metrics;
    say("newest", VELOC_Restart_test("two", 0));
    for (; version >= leave; version--) {
        if (version == die)
            raise(SIGKILL);
        if (device != 0)
            clear_device(device, size);
        else
            memset(memory, 0, size);
        if (VELOC_Restart("two", version) != VELOC_SUCCESS) {
            if (rank == 0)
                printf("cannot: %s\n", VELOC_Last_error());
            return;
        }
        if (device != 0)
            DEVICE_CONTENT(device, size, rank, version);
        else
            CONTENT(memory, size, rank, version);
        say("restored", version);
    }
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    say("read", (long long)(metrics.hops[VELOC_HOP_FTOH].bytes + metrics.hops[VELOC_HOP_FTOA].bytes));
}

int main(int argc, char **argv)
{
    char byte;
    size = (size_t)number(argc, argv, "size", 100000);
    memory = get_memory(size);
    CHECK(argc > 2);
    if (number(argc, argv, "device", 0)) {
        cuda_start();
        device = device_memory(size);
    }
#ifdef CHECK_WITH_MPI
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
#else
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
#endif
    OK(VELOC_Mem_protect(1, device != 0 ? as_pointer(device) : memory, size, 1));
    if (strcmp(argv[2], "forward") == 0)
        forward(argc, argv);
    else
        adjoint(argc, argv);
    while (number(argc, argv, "hold", 0) && read(0, &byte, 1) > 0) {
    }
    if (VELOC_Finalize((int)number(argc, argv, "drain", 1)) != VELOC_SUCCESS)
        printf("not finalized: %s\n", VELOC_Last_error());
#ifdef CHECK_WITH_MPI
    MPI_Finalize();
#endif
    if (rank == 0)
        puts("done");
    return 0;
}
