/*
 * Protected memory that was given back: unmapped_region <configuration> [lent=1]
 *
 * A page in the middle of region 7 is unmapped. With lent=1 it is unmapped after the call that has taken
 * it, before a worker fetches it.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

static int releases;

static int released(void)
{
    return ++releases;
}

static unsigned char *mapped(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

int main(int argc, char **argv)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 5 * page;
    static unsigned char other[10000];
    unsigned char *memory = mapped(bytes);
    int lent;
    CHECK(argc > 1);
    lent = (int)number(argc, argv, "lent", 0);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, other, sizeof other, 1));
    /* Neither end of it is the end of a page. */
    if (lent)
        OK(VELOC_Mem_protect_flags(7, memory + 8, bytes - 16, 1, VELOC_READ_ONLY, released));
    else
        OK(VELOC_Mem_protect(7, memory + 8, bytes - 16, 1));
    fill(other, sizeof other, 1, 1);
    fill(memory + 8, bytes - 16, 7, 1);
    OK(VELOC_Checkpoint("freed", 1));
    OK(VELOC_Checkpoint_wait());
    if (lent) {
        OK(VELOC_Checkpoint_begin("freed", 2));
        OK(VELOC_Checkpoint_mem());
        CHECK(munmap(memory + 2 * page, page) == 0);
        OK(VELOC_Checkpoint_end(1));
        REFUSED(VELOC_Checkpoint_wait(), "region 7|freed|version 2");
        EQUAL(releases, 2);
    } else {
        CHECK(munmap(memory + 2 * page, page) == 0);
        REFUSED(VELOC_Checkpoint("freed", 2), "region 7|freed");
        OK(VELOC_Checkpoint_wait());
    }
    /* Nothing else is lost by it, and the job goes on. */
    memory = mapped(bytes);
    OK(VELOC_Mem_protect(7, memory + 8, bytes - 16, 1));
    EQUAL(VELOC_Restart_test("freed", 0), 1);
    OK(VELOC_Restart("freed", 1));
    CONTENT(other, sizeof other, 1, 1);
    CONTENT(memory + 8, bytes - 16, 7, 1);
    OK(VELOC_Checkpoint("freed", 3));
    OK(VELOC_Finalize(1));
    printf("done\n");
    return 0;
}
