/* Goes in front of fsync(2) and says what it is called for. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int fsync(int file)
{
    static int (*next)(int);
    char link[64], path[4096];
    ssize_t length;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "fsync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path);
    fprintf(stderr, "synced %.*s\n", (int)(length < 0 ? 0 : length), path);
    return next(file);
}
