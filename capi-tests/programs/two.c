/*
 * Two programs, of which the second reads what the first has left in memory:
 *
 *   two <configuration> forward|adjoint [key=value ...]
 *
 *   steps=N         how many states there are, from version 1 on
 *   size=BYTES      of each
 *   rank=R          the number of this process
 *   device=0|1      whether the states are in device memory
 *   die=V           the forward run ends by SIGKILL behind version V, the adjoint before it reads V
 *   from=V          the adjoint begins with version V [N]
 *   leave=V         the adjoint ends behind version V [1]
 *   drain=0|1       the argument of VELOC_Finalize
 *   again=0|1       the forward run begins with what there is
 *   figures=0|1     the adjoint prints what was restored from files ("file-bytes n")
 *
 * The adjoint prints "restored v" for each version. Without MPI.
 */
#include "check.h"
#include "cuda.h"

#include <signal.h>

static void forward(int argc, char **argv, unsigned char *memory, unsigned char *state, size_t size)
{
    int steps = (int)number(argc, argv, "steps", 8);
    int die = (int)number(argc, argv, "die", 0);
    int version = 1;
    OK(VELOC_Mem_protect(1, state, size, 1));
    if (number(argc, argv, "again", 0)) {
        int newest = VELOC_Restart_test("two", 0);
        if (newest > 0) {
            OK(VELOC_Restart("two", newest));
            version = newest + 1;
        }
        printf("goes on behind %d\n", newest);
    }
    for (; version <= steps; version++) {
        fill(memory, size, 1, version);
        put(state, memory, size);
        OK(VELOC_Checkpoint("two", version));
        printf("taken %d\n", version);
        fflush(stdout);
        if (version == die)
            raise(SIGKILL);
    }
}

static void adjoint(int argc, char **argv, unsigned char *memory, unsigned char *state, size_t size)
{
    int steps = (int)number(argc, argv, "steps", 8);
    int die = (int)number(argc, argv, "die", 0);
    int leave = (int)number(argc, argv, "leave", 1);
    int version = (int)number(argc, argv, "from", steps);
    printf("newest %d\n", VELOC_Restart_test("two", 0));
    OK(VELOC_Mem_protect(1, state, size, 1));
    for (; version >= leave; version--) {
        if (version == die)
            raise(SIGKILL);
        memset(memory, 0, size);
        put(state, memory, size);
        if (VELOC_Restart("two", version) != VELOC_SUCCESS) {
            printf("cannot: %s\n", VELOC_Last_error());
            return;
        }
        get(memory, state, size);
        CONTENT(memory, size, 1, version);
        printf("restored %d\n", version);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    size_t size = (size_t)number(argc, argv, "size", 100000);
    unsigned char *memory = get_memory(size);
    unsigned char *state;
    CHECK(argc > 2);
    state = number(argc, argv, "device", 0) ? get_device_memory(size) : get_memory(size);
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
    if (strcmp(argv[2], "forward") == 0)
        forward(argc, argv, memory, state, size);
    else
        adjoint(argc, argv, memory, state, size);
    if (VELOC_Finalize((int)number(argc, argv, "drain", 1)) != VELOC_SUCCESS)
        printf("not finalized: %s\n", VELOC_Last_error());
    puts("done");
    return 0;
}
