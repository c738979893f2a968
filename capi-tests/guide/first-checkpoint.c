#include "frame.h"

static float wavefield[1000];
static const size_t n = 1000;
static const int steps = 5;
static int seen;

static void step(float *field)
{
    field[0] += 1;
}

static void correlate(const float *field)
{
    seen = seen * 10 + (int)field[0];
}

static int options_in_the_call(void)
{
    /* BLOCK 1 */
    return VELOC_Finalize(0);
}

static int forward_and_backward(void)
{
    /* BLOCK 2 */
    return 0;
}

static int a_list(void)
{
    static double u[1000], v[1000];
    static int t;
    OK(VELOC_Init_single(0, "veloc.cfg"));
    /* BLOCK 3 */
    OK(VELOC_Checkpoint("list", 1));
    return VELOC_Finalize(0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    OK(options_in_the_call());
    OK(forward_and_backward());
    EQUAL(seen, 54321);
    OK(a_list());
    puts("done");
    return 0;
}
