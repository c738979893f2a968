/*
 * Memory that the library which logs messages does not get, and nobody else lacks: `starve(bytes)` has
 * its requests for so many bytes or more fail from then on, until `starve(0)`. `starved()` says how many
 * have failed since.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static size_t least;
static long failures;

void starve(size_t bytes)
{
    least = bytes;
    failures = 0;
}

long starved(void)
{
    return failures;
}

static int is_refused(size_t bytes, const void *caller)
{
    static const void *library;
    Dl_info info;
    if (least == 0 || bytes < least)
        return 0;
    if (library == NULL) {
        const void *begin = dlsym(RTLD_DEFAULT, "VELOC_Part_begin");
        if (begin != NULL && dladdr(begin, &info) != 0)
            library = info.dli_fbase;
    }
    if (library == NULL || dladdr(caller, &info) == 0 || info.dli_fbase != library)
        return 0;
    failures++;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return is_refused(bytes, __builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return is_refused(count * bytes, __builtin_return_address(0)) ? NULL
                                                                  : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return is_refused(bytes, __builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}
