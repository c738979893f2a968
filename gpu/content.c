#include "content.h"

#include <stdint.h>
#include <stdio.h>

#include "common.h"

enum {
    PARTS = 64,
    WINDOW = 64 /* words */
};

static uint32_t word_of(int version, size_t part)
{
    uint32_t x = (uint32_t)version * 0x9e3779b9u ^ (uint32_t)part * 0x85ebca6bu ^ 0x5bd1e995u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* The first word of a part; that of part number PARTS is the end. */
static size_t part_begin(size_t bytes, size_t part)
{
    return bytes / 4 * part / PARTS;
}

void content_fill(CUdeviceptr buffer, size_t bytes, int version, CUstream stream)
{
    size_t part;
    for (part = 0; part < PARTS; part++) {
        size_t begin = part_begin(bytes, part), end = part_begin(bytes, part + 1);
        if (begin < end)
            CU(cuMemsetD32Async(buffer + 4 * begin, word_of(version, part), end - begin, stream));
    }
}

void content_spoil(CUdeviceptr buffer, size_t bytes, CUstream stream)
{
    CU(cuMemsetD32Async(buffer, 0xdeadbeefu, bytes / 4, stream));
}

/* Whether `count` words are all `word`; says where not. `first` is the number of the first. */
static int is_all(const uint32_t *words, size_t count, uint32_t word, int version, size_t first)
{
    size_t i;
    for (i = 0; i < count; i++) {
        if (words[i] == word)
            continue;
        fprintf(stderr, "measure: version %d: byte %zu begins the word %08x, not %08x\n", version,
                4 * (first + i), words[i], word);
        return 0;
    }
    return 1;
}

int content_check_windows(CUdeviceptr buffer, size_t bytes, int version, CUstream stream)
{
    uint32_t words[WINDOW];
    size_t part;
    int wrong = 0;
    for (part = 0; part < PARTS; part++) {
        size_t begin = part_begin(bytes, part), end = part_begin(bytes, part + 1);
        size_t count = end - begin < WINDOW ? end - begin : WINDOW;
        size_t places[2];
        int right = 1, i;
        places[0] = begin;
        places[1] = end - count;
        for (i = 0; i < 2 && count > 0 && right; i++) {
            CU(cuMemcpyDtoHAsync_v2(words, buffer + 4 * places[i], 4 * count, stream));
            CU(cuStreamSynchronize(stream));
            right = is_all(words, count, word_of(version, part), version, places[i]);
        }
        wrong += !right;
    }
    return wrong;
}

int content_check_whole(CUdeviceptr buffer, size_t bytes, int version, CUstream stream, void *room)
{
    const uint32_t *words = room;
    size_t part;
    int wrong = 0;
    CU(cuMemcpyDtoHAsync_v2(room, buffer, bytes, stream));
    CU(cuStreamSynchronize(stream));
    for (part = 0; part < PARTS; part++) {
        size_t begin = part_begin(bytes, part), end = part_begin(bytes, part + 1);
        wrong += !is_all(words + begin, end - begin, word_of(version, part), version, begin);
    }
    return wrong;
}
