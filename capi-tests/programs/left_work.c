/*
 * A job that leaves work behind: left_work <configuration> <how> [rank=N] [versions=N] [bytes=N]
 *
 * Takes its checkpoints as fast as it can, and then
 *
 *   kill       kills itself
 *   exit       exits without VELOC_Finalize
 *   finalize   ends with VELOC_Finalize(0)
 *   fork       leaves a child that keeps everything open, and kills itself
 *   exec       becomes a program that does "read"
 *   stay       prints "taken", takes more checkpoints when there is a line on standard input, and
 *              prints "more"; ends with VELOC_Finalize(1) at the next line
 *   again      ends with VELOC_Finalize(0), starts once more, and restores all
 *   read       takes none: restores all that the one before has taken, and prints "restored N"
 *
 * Prints "descriptors N" if VELOC_Init_single and VELOC_Finalize have left N of them open.
 */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

static long bytes, versions;
static unsigned char *memory;

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void take(long from)
{
    long version;
    for (version = from; version < from + versions; version++) {
        fill(memory, (size_t)bytes, 1, (int)version);
        OK(VELOC_Checkpoint("left", (int)version));
    }
}

static void read_all(void)
{
    long version;
    EQUAL(VELOC_Restart_test("left", 0), versions - 1);
    for (version = versions - 1; version >= 0; version--) {
        memset(memory, 0, (size_t)bytes);
        OK(VELOC_Restart("left", (int)version));
        CONTENT(memory, (size_t)bytes, 1, (int)version);
    }
    printf("restored %ld\n", versions);
}

static void wait_for_line(void)
{
    char line[16];
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static void die(void)
{
    fflush(stdout);
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    int before = open_descriptors();
    const char *how;
    CHECK(argc > 2);
    how = argv[2];
    bytes = number(argc, argv, "bytes", 1000000);
    versions = number(argc, argv, "versions", 40);
    memory = get_memory((size_t)bytes);
    /* Whoever waits for the end of this output must not wait for the backend's end. */
    if (strcmp(how, "stay") == 0)
        CHECK(dup(1) > 2);
    OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
    OK(VELOC_Mem_protect(1, memory, (size_t)bytes, 1));
    if (strcmp(how, "read") == 0)
        read_all();
    else
        take(0);
    if (strcmp(how, "kill") == 0)
        die();
    if (strcmp(how, "exit") == 0) {
        puts("done");
        exit(0);
    }
    if (strcmp(how, "fork") == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* Out of the way of whoever waits for the output. */
            fclose(stdout);
            fclose(stderr);
            close(1);
            close(2);
            for (;;)
                pause();
        }
        printf("child %d\n", (int)child);
        die();
    }
    if (strcmp(how, "exec") == 0) {
        argv[2] = "read";
        fflush(stdout);
        execv("/proc/self/exe", argv);
        CHECK(0);
    }
    if (strcmp(how, "again") == 0) {
        OK(VELOC_Finalize(0));
        OK(VELOC_Init_single((unsigned)number(argc, argv, "rank", 0), argv[1]));
        OK(VELOC_Mem_protect(1, memory, (size_t)bytes, 1));
        read_all();
    }
    if (strcmp(how, "stay") == 0) {
        puts("taken");
        wait_for_line();
        take(versions);
        puts("more");
        wait_for_line();
    }
    OK(VELOC_Finalize(strcmp(how, "finalize") != 0));
    printf("descriptors %d\n", open_descriptors() - before - (strcmp(how, "stay") == 0));
    puts("done");
    return 0;
}
