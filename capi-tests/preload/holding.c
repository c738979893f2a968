/*
 * A process that gives no file a name that ends with HOLDS_AT before the file HELD_UNTIL is there. That it
 * is about to do so shows a file beside that one: its name, and behind a dot that of the program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void hold(void)
{
    const char *until = getenv("HELD_UNTIL");
    const struct timespec moment = {0, 5000000};
    char path[4096];
    FILE *sign;
    if (until == NULL)
        return;
    snprintf(path, sizeof path, "%s.%s", until, program_invocation_short_name);
    sign = fopen(path, "w");
    if (sign != NULL)
        fclose(sign);
    while (access(until, F_OK) != 0)
        nanosleep(&moment, NULL);
}

int rename(const char *from, const char *to)
{
    static int (*the_systems)(const char *, const char *);
    const char *end = getenv("HOLDS_AT");
    if (the_systems == NULL)
        *(void **)&the_systems = dlsym(RTLD_NEXT, "rename");
    if (end != NULL && strlen(to) >= strlen(end) && strcmp(to + strlen(to) - strlen(end), end) == 0)
        hold();
    return the_systems(from, to);
}
