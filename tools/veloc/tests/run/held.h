/* How the programs of these tests wait for their end. */
#include <unistd.h>

/* Until the test lets it end, or for ten minutes. */
static void wait_while_held(void)
{
    for (int i = 0; i < 600000 && access("held", F_OK) == 0; i++)
        usleep(1000);
}
