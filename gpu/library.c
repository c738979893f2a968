#include "library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shot.h"

#define VELOC_NO_MPI
#include "veloc.h"

#define NAME "shot"

static VELOC_Metrics metrics;

static const char *const hops[] = {"AtoD", "AtoH", "AtoF", "DtoH", "DtoF", "HtoF", "FtoP",
                                   "PtoF", "FtoH", "HtoD", "DtoA", "HtoA", "FtoA"};

static const char *const causes[] = {"own_copy",         "own_queued_work", "mapping",
                                     "room_on_device",   "room_on_host",    "fetching",
                                     "files",            "draining"};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != VELOC_SUCCESS)                                                               \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, VELOC_Last_error());                  \
    } while (0)

/* Writes a configuration file and gives its path, which lives until the next call. */
static const char *configuration(const struct plan *plan)
{
    static char path[4096];
    const char *folder = getenv("TMPDIR");
    FILE *file;
    int descriptor;
    snprintf(path, sizeof path, "%s/measure-XXXXXX", folder == NULL ? "/tmp" : folder);
    descriptor = mkstemp(path);
    file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (file == NULL)
        fail("writing %s: %s", path, strerror(errno));
    fprintf(file,
            "mode = async\n"
            "ephemeral = true\n"
            "restore_order = reverse\n"
            "gpu_cache_size = %zuB\n"
            "host_cache_size = %zuB\n"
            "%s",
            plan->device_cache, plan->host_cache, plan->settings);
    if (fclose(file) != 0)
        fail("writing %s: %s", path, strerror(errno));
    return path;
}

static void start(const struct plan *plan)
{
    const char *path = configuration(plan);
    OK(VELOC_Init_single(0, path));
    if (unlink(path) != 0)
        fail("removing %s: %s", path, strerror(errno));
    OK(VELOC_Set_stream(plan->stream));
    OK(VELOC_Mem_protect(0, (void *)(uintptr_t)plan->buffer, plan->bytes, 1));
}

static void keep(const struct plan *plan, int version)
{
    (void)plan;
    OK(VELOC_Checkpoint(NAME, version));
}

static void bring_back(const struct plan *plan, int version)
{
    (void)plan;
    OK(VELOC_Restart(NAME, version));
}

static void finish(const struct plan *plan)
{
    (void)plan;
    OK(VELOC_Get_metrics(&metrics, sizeof metrics));
    OK(VELOC_Finalize(0));
}

const struct keeper library_keeper = {start, keep, bring_back, finish};

static void write_sum(struct json *json, const char *name, const VELOC_Sum *sum)
{
    json_object(json, name);
    json_integer(json, "bytes", sum->bytes);
    json_number(json, "time_s", 1e-9 * (double)sum->nanoseconds);
    json_integer(json, "count", sum->count);
    json_end_object(json);
}

void library_metrics(struct json *json)
{
    static const char *const rates[] = {"touch_alone", "touch_beside_flush", "flush_touched",
                                        "flush_untouched", "flush_beside_touch"};
    size_t i;
    json_object(json, "hops");
    for (i = 0; i < LENGTH(hops); i++)
        write_sum(json, hops[i], &metrics.hops[i]);
    json_end_object(json);
    json_object(json, "blocked");
    for (i = 0; i < LENGTH(causes); i++)
        write_sum(json, causes[i], &metrics.blocked[i]);
    json_end_object(json);
    write_sum(json, "map", &metrics.map);
    write_sum(json, "touch", &metrics.touch);
    write_sum(json, "registration", &metrics.registration);
    write_sum(json, "turn", &metrics.turn);
    write_sum(json, "init", &metrics.init);
#define INTEGER(name) json_integer(json, #name, metrics.name)
    INTEGER(device_capacity);
    INTEGER(device_free);
    INTEGER(host_capacity);
    INTEGER(host_free);
    INTEGER(host_touched);
    INTEGER(host_registered);
    INTEGER(checkpoints);
    INTEGER(restores);
    INTEGER(live);
    INTEGER(device_evictions);
    INTEGER(host_evictions);
    INTEGER(discards);
    INTEGER(spills);
    INTEGER(fetches);
    INTEGER(device_hits);
    INTEGER(device_misses);
    INTEGER(touch_mode);
    INTEGER(touch_changes);
#undef INTEGER
    json_object(json, "touch_rates_bytes_per_s");
    for (i = 0; i < LENGTH(rates); i++)
        json_number(json, rates[i], metrics.touch_rates[i]);
    json_end_object(json);
    json_number(json, "touch_checkpoint_bytes", metrics.touch_checkpoint_bytes);
    json_number(json, "touch_interval_s", metrics.touch_interval);
    json_number(json, "touch_prediction_sequential_s", metrics.touch_predictions[0]);
    json_number(json, "touch_prediction_concurrent_s", metrics.touch_predictions[1]);
}

static void print_sum(const char *name, const VELOC_Sum *sum)
{
    double seconds = 1e-9 * (double)sum->nanoseconds;
    if (sum->count == 0)
        return;
    printf("  %-18s %8llu x %10.3f ms", name, (unsigned long long)sum->count, 1e3 * seconds);
    if (sum->bytes != 0)
        printf(" %10.3f GiB %9.2f GiB/s", (double)sum->bytes / (double)GIB,
               seconds > 0 ? (double)sum->bytes / (double)GIB / seconds : 0);
    putchar('\n');
}

void library_print_metrics(void)
{
    size_t i;
    puts("the library's own figures: bytes moved per hop, waits per cause, work in the background");
    for (i = 0; i < LENGTH(hops); i++)
        print_sum(hops[i], &metrics.hops[i]);
    for (i = 0; i < LENGTH(causes); i++)
        print_sum(causes[i], &metrics.blocked[i]);
    print_sum("map", &metrics.map);
    print_sum("touch", &metrics.touch);
    print_sum("registration", &metrics.registration);
    print_sum("turn", &metrics.turn);
}
