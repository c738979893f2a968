/*
 * A job that is killed: killed_job <configuration> write|read|go-on [key=value ...]
 *
 *   write   takes checkpoints for ever, of sizes that depend on the version, and prints
 *           "taken v" when VELOC_Checkpoint has returned, and "durable v" when
 *           VELOC_Checkpoint_wait has returned with v as the newest
 *   read    restores every version that there is, newest first, and checks it; prints
 *           "newest v" and "restored v"
 *   bytes=N is the most that a version has [400000]; keep=N: older ones are read, so that their memory is free
 *
 *   go-on   prints "found v" for the newest, restores it and checks it, prints "restored v" (0: there
 *           was none), and writes from the next version on, after the line "goes on"
 */
#include "check.h"

static size_t most_bytes = 400000;
static int keep;

static size_t bytes_of(int version)
{
    return 1 + (size_t)(content_word(77, version, 1) % most_bytes);
}

static void write_for_ever(unsigned char *memory, int first)
{
    int version;
    for (version = first;; version++) {
        size_t bytes = bytes_of(version);
        if (keep > 0 && version > keep) {
            OK(VELOC_Mem_protect(1, memory, most_bytes, 1));
            (void)VELOC_Restart("durable", version - keep);
        }
        fill(memory, bytes, 1, version);
        OK(VELOC_Mem_protect(1, memory, bytes, 1));
        OK(VELOC_Checkpoint("durable", version));
        printf("taken %d\n", version);
        fflush(stdout);
        if (version % 3 == 0) {
            OK(VELOC_Checkpoint_wait());
            printf("durable %d\n", version);
            fflush(stdout);
        }
    }
}

static void restore(unsigned char *memory, int version)
{
    size_t bytes = bytes_of(version);
    memset(memory, 0, most_bytes);
    OK(VELOC_Mem_protect(1, memory, most_bytes, 1));
    EQUAL(VELOC_Recover_ckpt_size("durable", version, 1), bytes);
    OK(VELOC_Restart("durable", version));
    CONTENT(memory, bytes, 1, version);
    printf("restored %d\n", version);
}

static void go_on(unsigned char *memory)
{
    int newest = VELOC_Restart_test("durable", 0);
    if (newest >= 0) {
        printf("found %d\n", newest);
        fflush(stdout);
        restore(memory, newest);
    } else
        printf("restored 0\n");
    printf("goes on\n");
    fflush(stdout);
    write_for_ever(memory, newest >= 0 ? newest + 1 : 1);
}

static void read_all(unsigned char *memory)
{
    int version = VELOC_Restart_test("durable", 0);
    printf("newest %d\n", version);
    while (version >= 0) {
        restore(memory, version);
        /* 0 would ask for the newest again; the writer begins with 1. */
        version = version > 1 ? VELOC_Restart_test("durable", version - 1) : -1;
    }
}

int main(int argc, char **argv)
{
    unsigned char *memory;
    CHECK(argc > 2);
    most_bytes = (size_t)number(argc, argv, "bytes", 400000);
    keep = (int)number(argc, argv, "keep", 0);
    memory = get_memory(most_bytes);
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
    if (strcmp(argv[2], "write") == 0)
        write_for_ever(memory, (int)number(argc, argv, "first", 1));
    if (strcmp(argv[2], "go-on") == 0)
        go_on(memory);
    if (strcmp(argv[2], "read") == 0)
        read_all(memory);
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
