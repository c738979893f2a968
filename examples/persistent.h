/*
 * What the examples with arrays in persistent memory share: arguments, arrays that are in a file or, for comparison, are
 * not, and what a search is reported as.
 */
#ifndef PERSISTENT_H
#define PERSISTENT_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime: include this header first */
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <veloc.h>

/* Ends the program with the library's words if a call has failed. */
static inline void must(int status)
{
    if (status == VELOC_FAILURE) {
        fprintf(stderr, "%s\n", VELOC_Last_error());
        exit(1);
    }
}

static inline void refuse(const char *what, const char *about)
{
    fprintf(stderr, "%s: %s\n", about, what);
    exit(2);
}

static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Memory that is touched, so that no page is missing later. */
static inline void *memory(size_t count, size_t size)
{
    void *all = calloc(count, size);
    size_t byte;
    if (all == NULL)
        refuse("no memory", "calloc");
    for (byte = 0; byte < count * size; byte += 4096)
        ((volatile char *)all)[byte] = 0; /* compilers leave out a memset() here */
    return all;
}

/* An option, "--name value" or, without a number and a text to put it, "--name". */
struct option {
    const char *name;
    int64_t *number;
    const char **text;
    int *is_set;
};

static inline void read_options(int argc, char **argv, const struct option *options)
{
    int i;
    for (i = 1; i < argc; i++) {
        const struct option *option = options;
        char *end = "";
        while (option->name != NULL && strcmp(option->name, argv[i]) != 0)
            option++;
        if (option->name == NULL)
            refuse("no such option", argv[i]);
        if (option->is_set != NULL)
            *option->is_set = 1;
        if (option->number == NULL && option->text == NULL)
            continue;
        if (++i == argc)
            refuse("needs a value", option->name);
        if (option->text != NULL)
            *option->text = argv[i];
        else
            *option->number = strtoll(argv[i], &end, 10);
        if (*end != '\0' || (option->number != NULL && *option->number < 1))
            refuse("not a number of 1 or more", argv[i]);
    }
}

/* The crash that a name stands for. */
static inline int crash_named(const char *name)
{
    if (strcmp(name, "process") == 0)
        return VELOC_CRASH_PROCESS;
    if (strcmp(name, "power") == 0)
        return VELOC_CRASH_POWER;
    if (strcmp(name, "page") == 0)
        return VELOC_CRASH_PAGE;
    refuse("neither process nor power nor page", name);
    return VELOC_FAILURE;
}

/* The bytes that the slots of an array take in a file. */
static inline size_t room(size_t count, size_t size, size_t slots)
{
    return (count * size + 4095) / 4096 * 4096 * slots;
}

/* An array of a file, or one of one slot in ordinary memory. */
struct array {
    VELOC_Array *kept;
    void *plain;
};

static inline void *at(const struct array *array, int64_t iteration)
{
    return array->kept != NULL ? VELOC_Pmem_at(array->kept, iteration) : array->plain;
}

/* An array of this name in the file, or in ordinary memory if there is none. */
static inline struct array array_of(VELOC_Pmem *pmem, const char *name, size_t count, size_t size,
                                    int slots)
{
    struct array array = {NULL, NULL};
    size_t byte;
    int slot;
    if (pmem == NULL) {
        array.plain = memory(count, size);
        return array;
    }
    must(VELOC_Pmem_array(pmem, name, size, count, slots, &array.kept));
    /* As memory(): pages that are mapped now take no time later. */
    for (slot = 0; slot < slots; slot++)
        for (byte = 0; byte < count * size; byte += 4096)
            (void)((volatile const char *)at(&array, slot))[byte];
    return array;
}

/* An array of a file ends with the file. */
static inline void free_array(struct array *array)
{
    free(array->plain);
    array->plain = NULL;
}

/* The iteration to go on behind, and on standard error what was tried; -1: begin. */
static inline int64_t recover(VELOC_Pmem *pmem)
{
    VELOC_Tried tried[64];
    double began = seconds();
    int64_t found = -1;
    int status = VELOC_Pmem_recover(pmem, &found), i;
    int number = VELOC_Pmem_report(pmem, tried, 64);
    for (i = 0; i < number; i++) {
        int unknown = tried[i].answer == VELOC_INVARIANT_UNKNOWN;
        int holds = tried[i].answer == VELOC_INVARIANT_HOLDS;
        fprintf(stderr, "iteration %lld: %s%s\n", (long long)tried[i].iteration,
                holds ? "consistent" : tried[i].invariant,
                holds ? "" : unknown ? " cannot be told" : " does not hold");
    }
    if (number <= 0)
        must(status);
    if (number > 0 && status != VELOC_SUCCESS) {
        must(VELOC_Pmem_forget(pmem));
        fprintf(stderr, "none of %d is consistent: from the beginning\n", number);
    } else if (found >= 0) {
        fprintf(stderr, "recovered %lld, %d tried, in %.6f s\n", (long long)found, number,
                seconds() - began);
    }
    return found;
}

#endif
