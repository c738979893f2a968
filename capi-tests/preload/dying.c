/*
 * A process that is killed right after it has given a file a certain name: the first one whose path
 * ends with DIES_AT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int rename(const char *from, const char *to)
{
    static int (*the_systems)(const char *, const char *);
    const char *end = getenv("DIES_AT");
    int renamed;
    if (the_systems == NULL)
        *(void **)&the_systems = dlsym(RTLD_NEXT, "rename");
    renamed = the_systems(from, to);
    if (renamed == 0 && end != NULL && strlen(to) >= strlen(end)
        && strcmp(to + strlen(to) - strlen(end), end) == 0)
        raise(SIGKILL);
    return renamed;
}
