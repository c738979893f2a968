/*
 * What every program of these tests shares: checks that say where they failed and why, and
 * contents that tell which region, version and offset a byte belongs to.
 */
#ifndef CHECK_H
#define CHECK_H

/* These programs need POSIX, and of the library what does without MPI, unless they say otherwise. */
#define _POSIX_C_SOURCE 200809L
#ifndef CHECK_WITH_MPI
#define VELOC_NO_MPI
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "veloc.h"

/* The program ends at once, without finalizing: a test that failed has nothing to clean up. */
static void check_failed(const char *file, int line, const char *what, const char *detail)
{
    printf("%s:%d: %s\n  %s\n  VELOC_Last_error: %s\n", file, line, what, detail,
           VELOC_Last_error());
    fflush(stdout);
    _Exit(1);
}

#define CHECK(expression) \
    ((expression) ? (void)0 : check_failed(__FILE__, __LINE__, #expression, "is not so"))

#define OK(call) \
    ((call) == VELOC_SUCCESS ? (void)0 : check_failed(__FILE__, __LINE__, #call, "did not succeed"))

static inline void check_equal(const char *file, int line, const char *what, long long got,
                               long long wanted)
{
    char detail[96];
    if (got != wanted) {
        snprintf(detail, sizeof detail, "is %lld, not %lld", got, wanted);
        check_failed(file, line, what, detail);
    }
}

#define EQUAL(got, wanted) check_equal(__FILE__, __LINE__, #got, (long long)(got), (long long)(wanted))

/* `words`: parts that the error text must have, separated by '|'. */
static inline void check_refused(const char *file, int line, const char *what, int status,
                                 const char *words)
{
    char list[512];
    char detail[640];
    char *word, *rest;
    if (status != VELOC_FAILURE) {
        snprintf(detail, sizeof detail, "returned %d, not -1", status);
        check_failed(file, line, what, detail);
    }
    snprintf(list, sizeof list, "%s", words);
    /* Not strtok: its place in the list is one for all threads. */
    for (word = strtok_r(list, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        if (strstr(VELOC_Last_error(), word) == NULL) {
            snprintf(detail, sizeof detail, "failed as it should, but without \"%s\"", word);
            check_failed(file, line, what, detail);
        }
    }
}

#define REFUSED(call, words) check_refused(__FILE__, __LINE__, #call, (call), words)

/* The 8 bytes number `index` of a region: another value for every region, version and index. */
static inline uint64_t content_word(int id, int version, uint64_t index)
{
    uint64_t x = (uint64_t)(uint32_t)id * UINT64_C(0x9e3779b97f4a7c15)
                 ^ (uint64_t)(uint32_t)version << 40 ^ index;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Little-endian, as everything that this library runs on. */
static inline void fill(void *at, size_t bytes, int id, int version)
{
    unsigned char *to = at;
    size_t done;
    for (done = 0; done < bytes; done += 8) {
        uint64_t word = content_word(id, version, done / 8);
        memcpy(to + done, &word, bytes - done < 8 ? bytes - done : 8);
    }
}

static inline void check_content(const char *file, int line, const void *at, size_t bytes, int id,
                                 int version)
{
    const unsigned char *from = at;
    char detail[128];
    size_t done;
    for (done = 0; done < bytes; done += 8) {
        uint64_t word = content_word(id, version, done / 8);
        if (memcmp(from + done, &word, bytes - done < 8 ? bytes - done : 8) != 0) {
            snprintf(detail, sizeof detail,
                     "region %d, version %d: wrong content in the 8 bytes at %zu of %zu", id,
                     version, done, bytes);
            check_failed(file, line, "the content", detail);
        }
    }
}

#define CONTENT(at, bytes, id, version) \
    check_content(__FILE__, __LINE__, (at), (bytes), (id), (version))

static inline void *get_memory(size_t bytes)
{
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    CHECK(memory != NULL);
    return memory;
}

/* The value of the argument `key=value`, or `otherwise`. */
static inline const char *option(int argc, char **argv, const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    int i;
    for (i = 1; i < argc; i++)
        if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    return otherwise;
}

static inline long number(int argc, char **argv, const char *key, long otherwise)
{
    const char *text = option(argc, argv, key, NULL);
    return text == NULL ? otherwise : strtol(text, NULL, 10);
}

/* A small generator with a seed, so that every run can be repeated. */
static inline uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return content_word(1, 1, *state);
}

#endif
