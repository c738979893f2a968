#include "frame.h"

static float field[100000];
static double other[100000];
static const size_t n = 100000;

int main(int argc, char **argv)
{
    struct VELOC_Metrics metrics;
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    OK(VELOC_Mem_protect(1, other, n, sizeof *other));
    /* BLOCK 1 */
    OK(VELOC_Checkpoint("field", 1));
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    EQUAL(metrics.compress.bytes, n * 12);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
