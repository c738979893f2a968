#include "frame.h"

static double memory[400 * 300];

int main(int argc, char **argv)
{
    int step = 7;
    double *u = memory;
    const size_t first = 0, columns = 300;
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    /* BLOCK 1 */
    memory[5] = 5;
    OK(VELOC_Checkpoint("plate", step));
    memory[5] = 0;
    EQUAL(VELOC_Restart_test("plate", 0), 7);
    OK(VELOC_Restart("plate", 7));
    CHECK(memory[5] == 5);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
