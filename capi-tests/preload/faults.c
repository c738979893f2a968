/*
 * Goes in front of the calls that change files, for machines where no file system can be mounted.
 * In the directory FAULTS_IN and the folders of routed files in it (and nowhere else below it)
 *
 *   there is room for FAULTS_ROOM bytes of files; unset: for any number;
 *   while there is the file FAULTS_READ_ONLY, nothing can be changed, once this process has written as
 *   many bytes more as the file says;
 *   while there is the file FAULTS_CLOSE, the quota is exceeded, which is said when a file is closed;
 *   each time that it is listed, a byte is added to the file FAULTS_LISTED;
 *   with FAULTS_NO_ATTRIBUTES files can have no extended attributes, for the reason of this errno;
 *   with FAULTS_NO_SYNC the storage fails, which is said when a file is synced; with this errno if it is above 1;
 *   with FAULTS_NO_LOCKS no byte of a file can be locked;
 *   while there is the file FAULTS_BROKEN, the byte of a file that it says cannot be read;
 *   while there is the file FAULTS_HOLD, no write begins that ends behind as many bytes of a file as it says, but
 *   for hidden files that say who is at work.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static long written;

/* The function that would be called without this. */
#define NEXT(function) \
    static __typeof__(function) *next; \
    if (next == NULL) \
        *(void **)&next = dlsym(RTLD_NEXT, #function)

/* Whether a path begins with the folder of a file that is routed. */
static int is_of_routed(const char *path)
{
    const char *mark = strstr(path, ".tmp-");
    return path[0] == '.' && mark != NULL && memchr(path, '/', (size_t)(mark - path)) == NULL;
}

static int concerns(const char *path)
{
    const char *directory = getenv("FAULTS_IN");
    size_t length = directory == NULL ? 0 : strlen(directory);
    const char *below;
    if (length == 0 || path == NULL || strncmp(path, directory, length) != 0 || path[length] != '/')
        return 0;
    below = strchr(path + length + 1, '/');
    return below == NULL || (is_of_routed(path + length + 1) && strchr(below + 1, '/') == NULL);
}

/* The path of an open file; empty if it has none. */
static const char *path_of(int file, char path[4096])
{
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, 4095);
    path[length < 0 ? 0 : length] = '\0';
    return path;
}

static int concerns_file(int file)
{
    char path[4096];
    return concerns(path_of(file, path));
}

/* Whether a file says who is at work in its directory. */
static int says_who(int file)
{
    char path[4096];
    return strstr(path_of(file, path), "/.veloc-live-") != NULL;
}

/* Bytes that can still be written before the directory becomes read-only; -1: any number. */
static long before_read_only(void)
{
    const char *path = getenv("FAULTS_READ_ONLY");
    FILE *control = path == NULL ? NULL : fopen(path, "r");
    long bytes = 0;
    if (control == NULL) {
        written = 0;
        return -1;
    }
    if (fscanf(control, "%ld", &bytes) != 1)
        bytes = 0;
    fclose(control);
    return bytes > written ? bytes - written : 0;
}

static int read_only(void)
{
    if (before_read_only() != 0)
        return 0;
    errno = EROFS;
    return 1;
}

int fcntl(int file, int command, ...)
{
    NEXT(fcntl);
    va_list rest;
    void *argument;
    va_start(rest, command);
    argument = va_arg(rest, void *);
    va_end(rest);
    if (command != F_OFD_SETLK || getenv("FAULTS_NO_LOCKS") == NULL || !concerns_file(file))
        return next(file, command, argument);
    errno = ENOLCK;
    return -1;
}

int fsync(int file)
{
    NEXT(fsync);
    if (getenv("FAULTS_NO_SYNC") == NULL || !concerns_file(file))
        return next(file);
    errno = atoi(getenv("FAULTS_NO_SYNC")) > 1 ? atoi(getenv("FAULTS_NO_SYNC")) : EIO;
    return -1;
}

/* opendir, of which nobody takes note. */
static DIR *open_directory(const char *path)
{
    NEXT(opendir);
    return next(path);
}

/* The bytes of the files in a directory; -1: it cannot be opened. */
static long bytes_in(const char *path)
{
    DIR *directory = open_directory(path);
    struct dirent *entry;
    struct stat stat;
    char folder[8192];
    long bytes = 0, more;
    if (directory == NULL)
        return -1;
    while ((entry = readdir(directory)) != NULL)
        if (fstatat(dirfd(directory), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        } else if (S_ISREG(stat.st_mode)) {
            bytes += stat.st_size;
        } else if (S_ISDIR(stat.st_mode) && is_of_routed(entry->d_name)) {
            snprintf(folder, sizeof folder, "%s/%s", path, entry->d_name);
            more = bytes_in(folder);
            bytes += more > 0 ? more : 0;
        }
    closedir(directory);
    return bytes;
}

static long room(void)
{
    const char *room = getenv("FAULTS_ROOM");
    long taken = room == NULL ? -1 : bytes_in(getenv("FAULTS_IN"));
    long left = taken < 0 ? -1 : atol(room) - taken;
    return taken < 0 ? -1 : left > 0 ? left : 0;
}

/* Keeps all other writers of the directory away, those of other processes too: between the count of the
 * room and the write, another one would take the same room. -1 where `file` is none of the directory. */
static int others_out(int file)
{
    int directory = -1;
    if (concerns_file(file))
        directory = open(getenv("FAULTS_IN"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        while (flock(directory, LOCK_EX) != 0 && errno == EINTR)
            continue;
    return directory;
}

/* Lets them in again; leaves errno as it is. Not by closing alone: a child that was forked in between has
 * the directory open as well. */
static void others_in(int directory)
{
    int found = errno;
    if (directory >= 0) {
        flock(directory, LOCK_UN);
        close(directory);
    }
    errno = found;
}

/* How many of `length` bytes at `offset` of a file can be written, as a file system would write them;
 * -1, with errno, for none. */
static ssize_t allowed(int file, size_t length, off_t offset)
{
    struct stat stat;
    long most;
    if (length == 0 || !concerns_file(file))
        return (ssize_t)length;
    most = before_read_only();
    if (most == 0) {
        errno = EROFS;
        return -1;
    }
    if (most > 0 && (size_t)most < length)
        length = (size_t)most;
    most = room();
    if (most >= 0 && fstat(file, &stat) == 0) {
        long there = stat.st_size > offset ? stat.st_size - offset : 0;
        if (most + there == 0) {
            errno = ENOSPC;
            return -1;
        }
        if ((size_t)(most + there) < length)
            length = (size_t)(most + there);
    }
    written += (long)length;
    return (ssize_t)length;
}

/* Waits until a file can be written up to there. */
static void hold(int file, off_t end)
{
    const char *path = getenv("FAULTS_HOLD");
    if (path == NULL || !concerns_file(file) || says_who(file))
        return;
    for (;;) {
        FILE *control = fopen(path, "r");
        long most = 0;
        int held = control != NULL && (fscanf(control, "%ld", &most) != 1 || end > most);
        if (control != NULL)
            fclose(control);
        if (!held)
            return;
        usleep(1000);
    }
}

/* Whether there is a byte that cannot be read. */
static int is_broken(int file, size_t length, off_t offset)
{
    const char *path = getenv("FAULTS_BROKEN");
    FILE *control = path == NULL || !concerns_file(file) ? NULL : fopen(path, "r");
    long at = -1;
    int said;
    if (control == NULL)
        return 0;
    said = fscanf(control, "%ld", &at);
    fclose(control);
    if (said != 1 || at < offset || at >= offset + (off_t)length)
        return 0;
    errno = EIO;
    return 1;
}

int fallocate64(int file, int mode, off64_t offset, off64_t length)
{
    NEXT(fallocate64);
    long most = concerns_file(file) ? room() : -1;
    if (most < 0 || length <= most)
        return next(file, mode, offset, length);
    errno = ENOSPC;
    return -1;
}

ssize_t pread64(int file, void *bytes, size_t length, off64_t offset)
{
    NEXT(pread64);
    return is_broken(file, length, offset) ? -1 : next(file, bytes, length, offset);
}

int statvfs(const char *path, struct statvfs *found)
{
    NEXT(statvfs);
    const char *directory = getenv("FAULTS_IN");
    int result = next(path, found);
    long left = room();
    if (result == 0 && left >= 0 && directory != NULL && strcmp(path, directory) == 0)
        found->f_bavail = (fsblkcnt_t)left / found->f_frsize;
    return result;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    NEXT(write);
    int directory = others_out(file);
    ssize_t most = allowed(file, length, lseek(file, 0, SEEK_CUR));
    ssize_t result = most < 0 ? -1 : next(file, bytes, (size_t)most);
    others_in(directory);
    return result;
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset)
{
    NEXT(pwrite64);
    int directory;
    ssize_t most, result;
    hold(file, offset + (off_t)length);
    directory = others_out(file);
    most = allowed(file, length, offset);
    result = most < 0 ? -1 : next(file, bytes, (size_t)most, offset);
    others_in(directory);
    return result;
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *into, size_t length,
                        unsigned flags)
{
    NEXT(copy_file_range);
    struct stat stat;
    ssize_t most, result;
    int directory;
    /* Behind the end of the source there is nothing to be written. */
    if (at == NULL && into == NULL && fstat(from, &stat) == 0) {
        off_t left = stat.st_size - lseek(from, 0, SEEK_CUR);
        if ((off_t)length > left)
            length = (size_t)(left > 0 ? left : 0);
    }
    directory = others_out(to);
    most = allowed(to, length, into == NULL ? lseek(to, 0, SEEK_CUR) : *into);
    result = most < 0 ? -1 : next(from, at, to, into, (size_t)most, flags);
    others_in(directory);
    return result;
}

int open64(const char *path, int flags, ...)
{
    NEXT(open64);
    va_list more;
    mode_t mode;
    va_start(more, flags);
    mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0;
    va_end(more);
    if ((flags & (O_ACCMODE | O_CREAT)) != O_RDONLY && concerns(path) && read_only())
        return -1;
    return next(path, flags, mode);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);
    return concerns(to) && read_only() ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    return concerns(path) && read_only() ? -1 : next(path, mode);
}

int unlink(const char *path)
{
    NEXT(unlink);
    return concerns(path) && read_only() ? -1 : next(path);
}

int faccessat(int from, const char *path, int mode, int flags)
{
    NEXT(faccessat);
    const char *directory = getenv("FAULTS_IN");
    char *plain = realpath(path, NULL);
    int is_it = directory != NULL && plain != NULL && strcmp(plain, directory) == 0;
    free(plain);
    return (mode & W_OK) != 0 && is_it && read_only() ? -1 : next(from, path, mode, flags);
}

int symlink(const char *target, const char *path)
{
    NEXT(symlink);
    return concerns(path) && read_only() ? -1 : next(target, path);
}

int fsetxattr(int file, const char *name, const void *value, size_t length, int flags)
{
    NEXT(fsetxattr);
    if (getenv("FAULTS_NO_ATTRIBUTES") == NULL || !concerns_file(file))
        return next(file, name, value, length, flags);
    errno = atoi(getenv("FAULTS_NO_ATTRIBUTES"));
    return -1;
}

int close(int file)
{
    NEXT(close);
    const char *control = getenv("FAULTS_CLOSE");
    struct stat stat;
    int found = errno, mode = control == NULL ? O_RDONLY : fcntl(file, F_GETFL) & O_ACCMODE;
    int fails = mode != O_RDONLY && lstat(control, &stat) == 0 && concerns_file(file);
    int result;
    errno = found;
    result = next(file);
    if (result != 0 || !fails)
        return result;
    errno = EDQUOT;
    return -1;
}

DIR *opendir(const char *path)
{
    const char *directory = getenv("FAULTS_IN"), *listed = getenv("FAULTS_LISTED");
    if (listed != NULL && directory != NULL && strcmp(path, directory) == 0) {
        FILE *notes = fopen(listed, "a");
        if (notes != NULL) {
            fputc('1', notes);
            fclose(notes);
        }
    }
    return open_directory(path);
}
