#include "frame.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    /* BLOCK 1 */
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
