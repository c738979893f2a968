/*
 * A system that grants MAP_SYNC for each file, as for one in persistent memory: for tests of what the library does
 * then, and for timing flushes where there is none.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int granted(int flags)
{
    return flags & MAP_SYNC ? (flags & ~(MAP_SYNC | MAP_SHARED_VALIDATE)) | MAP_SHARED : flags;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, protection, granted(flags), file, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, protection, granted(flags), file, offset);
}
