/*
 * How long registering touched memory takes by size of chunk, and for how long it stalls copies
 * on the device meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common.h"
#include "driver.h"
#include "leads.h"
#include "pages.h"

/* A thread that copies on the device, over and over, and times each copy. */
struct copier {
    pthread_t thread;
    int stop; /* by the __atomic functions alone: two threads use it */
    CUdeviceptr from, to;
    struct series times;
};

enum { COPY_BYTES = 4 << 20 };

static void *copy(void *argument)
{
    struct copier *copier = argument;
    CUstream stream;
    driver_join();
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    do {
        double since = now();
        CU(cuMemcpyDtoDAsync_v2(copier->to, copier->from, COPY_BYTES, stream));
        CU(cuStreamSynchronize(stream));
        series_add(&copier->times, now() - since);
        /* So that the copies are no load of their own. */
        sleep_until(now() + 200e-6);
    } while (!__atomic_load_n(&copier->stop, __ATOMIC_ACQUIRE));
    CU(cuStreamDestroy_v2(stream));
    return NULL;
}

static void copier_start(struct copier *copier)
{
    int status;
    memset(copier, 0, sizeof *copier);
    CU(cuMemAlloc_v2(&copier->from, COPY_BYTES));
    CU(cuMemAlloc_v2(&copier->to, COPY_BYTES));
    status = pthread_create(&copier->thread, NULL, copy, copier);
    if (status != 0)
        fail("starting a thread: %s", strerror(status));
}

static void copier_stop(struct copier *copier)
{
    int status;
    __atomic_store_n(&copier->stop, 1, __ATOMIC_RELEASE);
    status = pthread_join(copier->thread, NULL);
    if (status != 0)
        fail("joining a thread: %s", strerror(status));
    CU(cuMemFree_v2(copier->from));
    CU(cuMemFree_v2(copier->to));
}

/* Registers `total` bytes in chunks, or only waits as long as that might take. */
static void measure(struct json *json, size_t total, size_t chunk, int huge)
{
    char *pages = pages_get(total, huge);
    struct copier copier;
    struct series times;
    size_t at;
    double rate;
    memset(&times, 0, sizeof times);
    pages_touch(pages, total);
    copier_start(&copier);
    sleep_until(now() + 0.02);
    if (chunk == 0)
        sleep_until(now() + 0.5);
    for (at = 0; chunk != 0 && at < total; at += chunk) {
        double since = now();
        CU(cuMemHostRegister_v2(pages + at, chunk, 0));
        series_add(&times, now() - since);
    }
    copier_stop(&copier);
    for (at = 0; chunk != 0 && at < total; at += chunk)
        CU(cuMemHostUnregister(pages + at));
    pages_free(pages, total);

    rate = chunk == 0 ? 0 : (double)total / (double)GIB / series_total(&times);
    json_object(json, NULL);
    json_integer(json, "chunk_bytes", chunk);
    json_boolean(json, "huge_pages_asked_for", huge);
    json_number(json, "gib_per_s", rate);
    json_series(json, "register", &times);
    json_series(json, "copy_of_4_mib_meanwhile", &copier.times);
    json_end_object(json);
    if (chunk == 0)
        printf("%12s", "none");
    else
        printf("%8zu MiB", chunk / MIB);
    printf(" %6s %10.2f %12.3f %14.3f %14.3f\n", huge ? "huge" : "small", rate,
           1e3 * series_quantile(&times, 0.5), 1e3 * series_quantile(&copier.times, 0.5),
           1e3 * series_quantile(&copier.times, 1));
    series_free(&times);
    series_free(&copier.times);
}

void leads_registration(struct json *json, size_t total)
{
    static const size_t chunks[] = {0, 64 << 20, 256 << 20, 1 << 30};
    size_t i;
    int huge;
    puts("registering touched memory, beside copies of 4 MiB on the device");
    printf("%12s %6s %10s %12s %14s %14s\n", "chunk", "pages", "GiB/s", "median ms", "copy: median ms",
           "longest ms");
    json_list(json, "registration");
    for (huge = 1; huge >= 0; huge--)
        for (i = 0; i < sizeof chunks / sizeof *chunks; i++)
            if (chunks[i] <= total)
                measure(json, total, chunks[i], huge);
    json_end_list(json);
}
