#include "frame.h"

static float field[100000];
static const size_t n = 100000;
static atomic_int field_is_free;

static
/* BLOCK 1 */

int main(int argc, char **argv)
{
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    /* BLOCK 2 */
    OK(VELOC_Checkpoint("field", 1));
    OK(VELOC_Checkpoint_wait());
    EQUAL(atomic_load(&field_is_free), 1);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
