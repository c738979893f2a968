/*
 * What every part of `measure` uses: failing with a reason, clocks, sizes, series of times.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Ends the program with a message and status 1. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Memory, or the end. */
void *get_memory(size_t bytes);

/* Seconds of a clock that never goes back. */
double now(void);

/* Returns at that time, or at once if it has passed. */
void sleep_until(double time);

/* A number of bytes, with K, M or G; ends the program if the text of `option` is none. */
size_t parse_bytes(const char *option, const char *text);

/* A whole number of at least `least`. */
long parse_number(const char *option, const char *text, long least);

/* Times in seconds, in the order in which they were taken. */
struct series {
    double *values;
    size_t count, room;
};

void series_add(struct series *series, double value);
double series_total(const struct series *series);
/* The value below which the given part of all lies: 0.5 is the median, 1 the largest. */
double series_quantile(const struct series *series, double part);
void series_free(struct series *series);

#endif
