#include "pages.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

static void unmap(char *at, size_t bytes)
{
    if (bytes != 0 && munmap(at, bytes) != 0)
        fail("munmap of %zu bytes: %s", bytes, strerror(errno));
}

char *pages_get(size_t bytes, int huge)
{
    size_t room = bytes + GIB;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;
    if (at == MAP_FAILED)
        fail("mmap of %zu bytes: %s", room, strerror(errno));
    before = (GIB - (uintptr_t)at % GIB) % GIB;
    unmap(at, before);
    unmap(at + before + bytes, room - before - bytes);
    /* A kernel without huge pages refuses; then there are small ones alone. */
    (void)madvise(at + before, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return at + before;
}

void pages_touch(char *pages, size_t bytes)
{
    size_t at;
    for (at = 0; at < bytes; at += 4 * KIB)
        ((volatile char *)pages)[at] = 1;
}

void pages_free(char *pages, size_t bytes)
{
    unmap(pages, bytes);
}
