/* Has the file MEMINFO tell how much memory the machine has, in place of /proc/meminfo. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int open64(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    const char *instead = getenv("MEMINFO");
    va_list more;
    int mode;
    va_start(more, flags);
    mode = va_arg(more, int);
    va_end(more);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "open64");
    if (instead != NULL && strcmp(path, "/proc/meminfo") == 0)
        path = instead;
    return next(path, flags, mode);
}
