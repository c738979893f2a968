/* What the programs share that have the blocks of the guide in them. */
#include "check.h"

#include <stdatomic.h>
#include <unistd.h>

/* Goes to the folder of the configuration, whose name the blocks have without one. */
static inline void begin(int argc, char **argv)
{
    char folder[4096];
    CHECK(argc > 1 && strlen(argv[1]) < sizeof folder);
    strcpy(folder, argv[1]);
    *strrchr(folder, '/') = 0;
    EQUAL(chdir(folder), 0);
}

/* A block may leave an argument of its callback alone. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
