#include "common.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void fail(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fputs("measure: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void *get_memory(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        fail("no memory for %zu bytes", bytes);
    return memory;
}

double now(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0)
        fail("clock_gettime: %s", strerror(errno));
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void sleep_until(double time)
{
    struct timespec until;
    int status;
    until.tv_sec = (time_t)time;
    until.tv_nsec = (long)((time - (double)until.tv_sec) * 1e9);
    do
        status = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    while (status == EINTR);
    if (status != 0)
        fail("clock_nanosleep: %s", strerror(status));
}

size_t parse_bytes(const char *option, const char *text)
{
    char *end;
    unsigned long long number;
    int shift = 0;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (*end == 'K')
        shift = 10;
    else if (*end == 'M')
        shift = 20;
    else if (*end == 'G')
        shift = 30;
    if (end == text || errno != 0 || number == 0 || number > (SIZE_MAX >> shift)
        || (shift != 0 ? end[1] : *end) != '\0')
        fail("%s %s: a number of bytes is wanted, with K, M or G", option, text);
    return (size_t)number << shift;
}

long parse_number(const char *option, const char *text, long least)
{
    char *end;
    long number;
    errno = 0;
    number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < least)
        fail("%s %s: a whole number from %ld on is wanted", option, text, least);
    return number;
}

void series_add(struct series *series, double value)
{
    if (series->count == series->room) {
        size_t room = series->room == 0 ? 64 : 2 * series->room;
        double *values = realloc(series->values, room * sizeof *values);
        if (values == NULL)
            fail("no memory for %zu times", room);
        series->values = values;
        series->room = room;
    }
    series->values[series->count++] = value;
}

double series_total(const struct series *series)
{
    double total = 0;
    size_t i;
    for (i = 0; i < series->count; i++)
        total += series->values[i];
    return total;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double series_quantile(const struct series *series, double part)
{
    double *sorted, value;
    if (series->count == 0)
        return 0;
    sorted = get_memory(series->count * sizeof *sorted);
    memcpy(sorted, series->values, series->count * sizeof *sorted);
    qsort(sorted, series->count, sizeof *sorted, by_value);
    value = sorted[(size_t)(part * (double)(series->count - 1) + 0.5)];
    free(sorted);
    return value;
}

void series_free(struct series *series)
{
    free(series->values);
    memset(series, 0, sizeof *series);
}
