/*
 * An array that the processes share, each a block of it: decompose <configuration> <command>...
 *
 * The array has 12 x 10 x 14 doubles, of the last dimensions=N. Beside it there is a region that is alike on all
 * processes. Commands, in their order, each on all processes:
 *
 *   large          ten times as many elements in the last two dimensions; before the cut
 *   keep=V         from here on, elements whose index in the second dimension is not 0 are as in version V
 *   dimensions=N   how many the array has [3]; before the next cut
 *   cut=A,B,C      blocks in each dimension; the processes are counted with the last one fastest. Protects them
 *   strip=N        cuts the first dimension into N strips, however many processes there are; the last have none
 *   whole          as cut, without saying which part it is (VELOC_Mem_decompose is not called)
 *   shift=R        the block of process R lies one element before its place in the last dimension
 *   short=R        the block of process R lacks its last element there
 *   longer         from here on, the array is longer by one in the first dimension
 *   unlike         from here on, the region that is alike differs
 *   device         from here on, the block is in device memory; before the cut
 *   lossless=1     the blocks are compressed without loss; 0: they are not
 *   take=V         a checkpoint
 *   wait           for it to be in persistent
 *   newest=V       what VELOC_Restart_test finds
 *   restore=V      by VELOC_Restart, and looks at every element
 *   parts=V        the same by VELOC_Restart_begin, VELOC_Recover_size and VELOC_Recover_selective
 *   refuse=V:TEXT  VELOC_Restart fails on all processes, with these words ('|' between them, '_' for a blank)
 *   salt=S         from here on, other values than with another salt
 *   late=V:A,B,C   VELOC_Restart_begin, then the cut, which is too late: VELOC_Recover_mem fails
 *   open=V         a checkpoint that has a region already: VELOC_Mem_decompose fails, and it is given up
 *   gone=V:FOLDER  VELOC_Restart_begin; then the files in that folder go, and VELOC_Recover_mem succeeds
 *   kill=R         once all are here, process R kills itself, and the others with it
 */
#include "../programs/cuda.h"

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

enum { ARRAY = 1, ALIKE = 2, BYTES = 13 * 100 * 140 * (int)sizeof(double) };

static size_t sizes_of[3] = {12, 10, 14};
static int rank, ranks, dimensions = 3, unlike, salt, keep;
static size_t offsets[3], sizes[3];
static double *block; /* on the heap: writes to it can be noted */
static int alike[4];
/* Where the block is protected, if not in `block`. */
static CUdeviceptr there;

static double value(const size_t *at, int version)
{
    size_t index = (at[0] * 1000 + at[1]) * 1000 + at[2];
    if (keep != 0 && at[1] != 0)
        version = keep;
    return (double)index + 1e8 * version + 1e10 * salt + 0.125;
}

/* Calls for each element of the own block, in C's order. */
static void each(void (*call)(double *, double), int version)
{
    size_t at[3], *n = sizes;
    double *element = block;
    for (at[0] = offsets[0]; at[0] < offsets[0] + n[0]; at[0]++)
        for (at[1] = offsets[1]; at[1] < offsets[1] + n[1]; at[1]++)
            for (at[2] = offsets[2]; at[2] < offsets[2] + n[2]; at[2]++)
                call(element++, value(at, version));
}

/* The host's bytes to the device, or back. */
static void upload(void)
{
    if (there != 0)
        CU(cuMemcpyHtoD_v2(there, block, BYTES));
}

static void download(void)
{
    if (there != 0)
        CU(cuMemcpyDtoH_v2(block, there, BYTES));
}

static void set(double *element, double wanted)
{
    /* What is the same is not written: a delta lacks it. */
    if (*element != wanted)
        *element = wanted;
}

static void compare(double *element, double wanted)
{
    CHECK(*element == wanted);
}

static size_t count(void)
{
    return sizes[0] * sizes[1] * sizes[2];
}

static void protect(int says)
{
    size_t *none = NULL;
    const int first = 3 - dimensions;
    OK(VELOC_Mem_protect(ARRAY, there == 0 ? (void *)block : (void *)(uintptr_t)there, count(), sizeof *block));
    OK(VELOC_Mem_protect(ALIKE, alike, 4, sizeof *alike));
    OK(VELOC_Mem_decompose(ARRAY, 0, none, none, none, 0));
    if (says)
        OK(VELOC_Mem_decompose(ARRAY, dimensions, sizes_of + first, offsets + first, sizes + first, sizeof *block));
}

static void cut(const char *text, int says)
{
    int blocks[3] = {1, 1, 1}, place = rank, axis;
    CHECK(sscanf(text, "%d,%d,%d", blocks, blocks + 1, blocks + 2) == 3);
    for (axis = 2; axis >= 0; axis--) {
        const size_t n = axis < 3 - dimensions ? 1 : sizes_of[axis];
        const size_t nth = (size_t)(place % blocks[axis]), of = (size_t)blocks[axis];
        offsets[axis] = n * nth / of;
        sizes[axis] = n * (nth + 1) / of - offsets[axis];
        place /= blocks[axis];
    }
    CHECK(place == 0);
    protect(says);
}

static void strip(int number)
{
    const int own = rank < number ? rank : number;
    const size_t n = sizes_of[0], end = rank < number ? (size_t)own + 1 : (size_t)own;
    offsets[0] = n * (size_t)own / (size_t)number;
    sizes[0] = n * end / (size_t)number - offsets[0];
    offsets[1] = offsets[2] = 0;
    sizes[1] = sizes_of[1];
    sizes[2] = sizes_of[2];
    protect(1);
}

static void clear(void)
{
    memset(block, 0xff, BYTES);
    memset(alike, 0xff, sizeof alike);
    upload();
}

static void look(int version)
{
    download();
    each(compare, version);
    EQUAL(alike[0], version);
    EQUAL(alike[3], 3);
}

static void refuse(const char *argument)
{
    char words[300];
    size_t i;
    const char *colon = strchr(argument, ':');
    CHECK(colon != NULL);
    snprintf(words, sizeof words, "%s", colon + 1);
    for (i = 0; words[i] != '\0'; i++)
        if (words[i] == '_')
            words[i] = ' ';
    clear();
    REFUSED(VELOC_Restart("cut", atoi(argument)), words);
    download();
    for (i = 0; i < BYTES; i++)
        CHECK(((unsigned char *)block)[i] == 0xff);
}

static void command(const char *name, const char *argument)
{
    const int number = atoi(argument);
    int id = ALIKE;
    if (strcmp(name, "dimensions") == 0) {
        dimensions = number;
    } else if (strcmp(name, "cut") == 0) {
        cut(argument, 1);
    } else if (strcmp(name, "whole") == 0) {
        cut(argument, 0);
    } else if (strcmp(name, "strip") == 0) {
        strip(number);
    } else if (strcmp(name, "shift") == 0) {
        if (rank == number)
            offsets[2]--;
        protect(1);
    } else if (strcmp(name, "short") == 0) {
        if (rank == number)
            sizes[2]--;
        protect(1);
    } else if (strcmp(name, "longer") == 0) {
        sizes_of[0]++;
    } else if (strcmp(name, "unlike") == 0) {
        unlike = 1;
    } else if (strcmp(name, "large") == 0) {
        sizes_of[1] *= 10;
        sizes_of[2] *= 10;
    } else if (strcmp(name, "keep") == 0) {
        keep = number;
    } else if (strcmp(name, "device") == 0) {
        EQUAL(cuda_load(), 0);
        cuda_context(0);
        CU(cuMemAlloc_v2(&there, BYTES));
    } else if (strcmp(name, "lossless") == 0) {
        OK(VELOC_Mem_compress(ARRAY, number ? VELOC_COMPRESS_LOSSLESS : VELOC_COMPRESS_NONE, 0));
    } else if (strcmp(name, "take") == 0) {
        each(set, number);
        upload();
        alike[0] = number;
        alike[1] = unlike ? rank : 0;
        alike[2] = 0;
        alike[3] = 3;
        OK(VELOC_Checkpoint("cut", number));
    } else if (strcmp(name, "wait") == 0) {
        OK(VELOC_Checkpoint_wait());
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(name, "newest") == 0) {
        EQUAL(VELOC_Restart_test("cut", 0), number);
    } else if (strcmp(name, "restore") == 0) {
        clear();
        OK(VELOC_Restart("cut", number));
        look(number);
    } else if (strcmp(name, "parts") == 0) {
        clear();
        OK(VELOC_Restart_begin("cut", number));
        EQUAL(VELOC_Recover_size(ARRAY), count() * sizeof *block);
        EQUAL(VELOC_Recover_size(ALIKE), sizeof alike);
        OK(VELOC_Recover_selective(VELOC_RECOVER_SOME, &id, 1));
        EQUAL(alike[0], number);
        EQUAL(((unsigned char *)block)[0], 0xff);
        OK(VELOC_Recover_selective(VELOC_RECOVER_REST, &id, 1));
        OK(VELOC_Restart_end(1));
        look(number);
    } else if (strcmp(name, "refuse") == 0) {
        refuse(argument);
    } else if (strcmp(name, "salt") == 0) {
        salt = number;
    } else if (strcmp(name, "late") == 0) {
        clear();
        OK(VELOC_Restart_begin("cut", number));
        cut(strchr(argument, ':') + 1, 1);
        REFUSED(VELOC_Recover_mem(), "which VELOC_Restart_begin has to know");
        EQUAL(((unsigned char *)block)[0], 0xff);
        OK(VELOC_Restart_end(0));
    } else if (strcmp(name, "open") == 0) {
        size_t one = 1, none = 0;
        OK(VELOC_Checkpoint_begin("cut", number));
        OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &id, 1));
        REFUSED(VELOC_Mem_decompose(ARRAY, 1, &one, &none, &one, sizeof *block), "is open and has regions");
        OK(VELOC_Checkpoint_end(VELOC_FAILURE));
    } else if (strcmp(name, "gone") == 0) {
        clear();
        OK(VELOC_Restart_begin("cut", number));
        MPI_Barrier(MPI_COMM_WORLD);
        for (id = 0; rank == 0 && id < 16; id++) {
            char path[400];
            snprintf(path, sizeof path, "%s/cut-%d-%d.dat", strchr(argument, ':') + 1, id, number);
            unlink(path);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        OK(VELOC_Recover_mem());
        OK(VELOC_Restart_end(1));
        look(number);
    } else if (strcmp(name, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == number)
            kill(getpid(), SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        printf("no command: %s\n", name);
        _Exit(1);
    }
}

int main(int argc, char **argv)
{
    int i;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(argc > 1);
    block = (double *)malloc(BYTES);
    CHECK(block != NULL);
    memset(block, 0, BYTES);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    for (i = 2; i < argc; i++) {
        char name[32];
        const char *equals = strchr(argv[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i], "="), argv[i]);
        command(name, equals == NULL ? "" : equals + 1);
    }
    OK(VELOC_Finalize(1));
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
