/*
 * The library that logs messages, if there were none: a part is nothing. Programs in Fortran, which has
 * no weak symbols, are linked with it to run without the library, or with the library preloaded.
 */
#include <stdint.h>
#include <string.h>

#include "veloc-mpi.h"

int VELOC_Part_begin(int id, int flags)
{
    (void)id;
    (void)flags;
    return 0;
}

int VELOC_Part_end(int id)
{
    (void)id;
    return 0;
}

int VELOC_Part_replay_begin(int id)
{
    (void)id;
    return 0;
}

int VELOC_Part_replay_end(int id)
{
    (void)id;
    return 0;
}

int VELOC_Part_free(int id)
{
    (void)id;
    return 0;
}

const char *VELOC_Part_error(void)
{
    return "there is no library";
}

int VELOC_Part_get_figures(VELOC_Part_figures *figures, size_t size)
{
    memset(figures, 0, size);
    return 0;
}

int VELOC_Fortran_refuse_part(const char *call, int64_t number);

int VELOC_Fortran_refuse_part(const char *call, int64_t number)
{
    (void)call;
    (void)number;
    return -1;
}
