/*
 * A process that is none of the job: it calls at the ports that another one has opened, says nothing or too
 * little, and stays on the line until that one has ended.
 */
#ifndef STRANGERS_H
#define STRANGERS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { STRANGERS_PORTS = 64, STRANGERS_AT_ONCE = 400, STRANGERS_THREADS = 16 };

struct strangers {
    int line; /* to the process that calls; -1 without one */
    int known[STRANGERS_PORTS];
    int count;
    int threads; /* of this process before any has called */
};

/* How many files a directory has. */
static int strangers_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = -2; /* itself and the one above */
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* The ports that this process listens on. */
static int strangers_ports(int *ports)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;
    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        const int file = atoi(entry->d_name);
        union {
            struct sockaddr any;
            struct sockaddr_in four;
            struct sockaddr_in6 six;
        } name;
        int listens = 0;
        socklen_t length = sizeof listens;
        if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens)
            continue;
        length = sizeof name;
        if (getsockname(file, &name.any, &length) != 0 || count == STRANGERS_PORTS)
            continue;
        if (name.any.sa_family == AF_INET)
            ports[count++] = ntohs(name.four.sin_port);
        else if (name.any.sa_family == AF_INET6)
            ports[count++] = ntohs(name.six.sin6_port);
    }
    closedir(folder);
    return count;
}

/* Calls so often at each port it is told of. It has a descriptor for some, and hangs up on the first for the next;
   when it has called that often, it says so, and goes on with the rest. */
static void strangers_call(int line, int calls)
{
    struct sockaddr_in to;
    const struct timeval patience = {1, 0};
    int port, i, open[STRANGERS_AT_ONCE];
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (i = 0; i < STRANGERS_AT_ONCE; i++)
        open[i] = -1;
    while (read(line, &port, sizeof port) == sizeof port) {
        to.sin_port = htons((unsigned short)port);
        for (i = 0; i < calls; i++) {
            int *call = &open[i % STRANGERS_AT_ONCE];
            if (*call >= 0)
                close(*call);
            *call = socket(AF_INET, SOCK_STREAM, 0);
            if (*call < 0)
                _exit(1);
            setsockopt(*call, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
            if (connect(*call, (struct sockaddr *)&to, sizeof to) == 0 && i % 2 == 0)
                (void)!send(*call, "x", 1, MSG_NOSIGNAL);
            if (i + 1 == (calls < STRANGERS_AT_ONCE ? calls : STRANGERS_AT_ONCE))
                (void)!write(line, &port, sizeof port);
        }
    }
    _exit(0);
}

/* Before MPI begins. */
static void strangers_begin(struct strangers *strangers, int calls)
{
    int ends[2];
    strangers->line = -1;
    if (calls == 0)
        return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    if (fork() == 0) {
        close(ends[0]);
        strangers_call(ends[1], calls);
    }
    close(ends[1]);
    strangers->line = ends[0];
}

/* Before the library is initialised: these ports are others'. */
static void strangers_look(struct strangers *strangers)
{
    strangers->count = strangers_ports(strangers->known);
}

/* Calls at the ports that were opened since. From here on this process has few descriptors left. */
static void strangers_come(struct strangers *strangers)
{
    int ports[STRANGERS_PORTS];
    const int count = strangers_ports(ports);
    struct rlimit limit;
    int i, j, called = 0;
    strangers->threads = strangers_entries("/proc/self/task");
    if (strangers->line < 0)
        return;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    i = dup(strangers->line);
    CHECK(i >= 0 && close(i) == 0);
    limit.rlim_cur = (rlim_t)i + 60;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (i = 0; i < count; i++) {
        for (j = 0; j < strangers->count && strangers->known[j] != ports[i]; j++)
            ;
        if (j < strangers->count)
            continue;
        CHECK(write(strangers->line, &ports[i], sizeof ports[i]) == sizeof ports[i]);
        CHECK(read(strangers->line, &ports[i], sizeof ports[i]) == sizeof ports[i]);
        called++;
    }
    CHECK(called > 0);
}

/* The application has a descriptor when it needs one, and strangers have no threads of it: those of the library's
   other work are a few more. */
static void strangers_leave_room(const struct strangers *strangers)
{
    const int file = dup(0);
    CHECK(file >= 0 && close(file) == 0);
    CHECK(strangers->line < 0
          || strangers_entries("/proc/self/task") <= strangers->threads + STRANGERS_THREADS);
}

#endif
