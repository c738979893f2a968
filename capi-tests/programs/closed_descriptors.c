/*
 * An application that closes descriptors which are not its own: closed_descriptors <configuration> [limit=N] [upto=N]
 * [replace=1] [drain=N]
 *
 * After its first checkpoint it closes 3 to `upto`, or with `replace=1` makes every number above 2 its
 * own. It may have `limit` descriptors (RLIMIT_NOFILE). Then it takes, waits and finalizes as if
 * nothing had happened, and what it was told has to be so: prints "taken N", "waited N" and
 * "finalized N", and "restored" if the second checkpoint was said to be kept. What it has put in the
 * place of the library's descriptors must be there in the end, and nobody may have written to it.
 */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 256

static unsigned char memory[200000];
static int numbers[MOST], count, own[2];

static void close_up_to(long end)
{
    long number;
    for (number = 3; number < end; number++)
        close((int)number);
}

/* The system's table has room for the library's numbers before VELOC_Init: to enlarge it takes 5 to 15 ms
 * in a process of several threads. */
static void check_table(rlim_t limit)
{
    char line[256];
    unsigned long size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "FDSize: %lu", &size) == 1)
            break;
    fclose(status);
    CHECK(limit < 2048 || size > 1536);
}

static void replace_all(void)
{
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    int next;
    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        int number = atoi(entry->d_name);
        if (number > 2 && number != dirfd(folder)) {
            CHECK(count < MOST);
            numbers[count++] = number;
        }
    }
    closedir(folder);
    CHECK(count > 0);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, own) == 0);
    for (next = 0; next < count; next++)
        if (numbers[next] != own[0] && numbers[next] != own[1])
            CHECK(dup2(own[0], numbers[next]) == numbers[next]);
}

static void check_replaced(void)
{
    struct stat wanted, found;
    char byte;
    int next;
    CHECK(fstat(own[0], &wanted) == 0);
    for (next = 0; next < count; next++) {
        CHECK(fstat(numbers[next], &found) == 0);
        CHECK(found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev);
    }
    CHECK(recv(own[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

int main(int argc, char **argv)
{
    long drain = number(argc, argv, "drain", 1);
    struct rlimit limit;
    int taken, waited, finalized;
    CHECK(argc > 1);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    check_table(limit.rlim_cur);
    limit.rlim_cur = (rlim_t)number(argc, argv, "limit", (long)limit.rlim_cur);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, memory, sizeof memory, 1));
    fill(memory, sizeof memory, 1, 1);
    OK(VELOC_Checkpoint("closes", 1));
    OK(VELOC_Checkpoint_wait());
    close_up_to(number(argc, argv, "upto", 0));
    if (number(argc, argv, "replace", 0))
        replace_all();
    fill(memory, sizeof memory, 1, 2);
    taken = VELOC_Checkpoint("closes", 2);
    printf("taken %d\n", taken);
    waited = VELOC_Checkpoint_wait();
    printf("waited %d\n", waited);
    finalized = VELOC_Finalize((int)drain);
    printf("finalized %d\n", finalized);
    fflush(stdout);
    if (count > 0)
        check_replaced();
    OK(VELOC_Init_single(0, argv[1]));
    OK(VELOC_Mem_protect(1, memory, sizeof memory, 1));
    if (taken == VELOC_SUCCESS && waited == VELOC_SUCCESS && finalized == VELOC_SUCCESS) {
        memset(memory, 0, sizeof memory);
        OK(VELOC_Restart("closes", 2));
        CONTENT(memory, sizeof memory, 1, 2);
        printf("restored\n");
    }
    OK(VELOC_Finalize(1));
    printf("done\n");
    return 0;
}
