/*
 * Measurements on the device at hand:
 *
 *   measure facts FILE        what machine, driver and device are
 *   measure shot FILE [...]   the library beside bare copies and beside pinning up front
 *   measure leads FILE [...]  registration, mapping and copies by size and kind
 *
 * FILE gets the figures as JSON; tables go to the standard output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "driver.h"
#include "facts.h"
#include "json.h"
#include "leads.h"
#include "library.h"
#include "shot.h"

static const char usage[] =
    "usage: measure facts FILE\n"
    "       measure shot FILE [--versions N] [--size BYTES] [--interval MILLISECONDS]\n"
    "                         [--device-cache BYTES] [--host-cache BYTES]\n"
    "                         [--set \"key = value\"]... (of the library's configuration)\n"
    "       measure leads FILE [--total BYTES]\n";

/* What stays free on the device and, as a part, on the host. */
static const size_t spare_on_device = (size_t)2 << 30;

struct results {
    struct plan plan;
    struct series bare; /* copies on the device, of the same bytes */
    struct figures library, direct;
};

static void write_figures(struct json *json, const char *name, const struct figures *figures)
{
    json_object(json, name);
    json_number(json, "init_s", figures->init);
    json_number(json, "forward_s", figures->forward);
    json_number(json, "backward_s", figures->backward);
    json_series(json, "checkpoint_blocked", &figures->keep);
    json_series(json, "restore_blocked", &figures->bring_back);
    json_integer(json, "versions_wrong", (uint64_t)figures->wrong);
    json_text(json, "compared", figures->whole ? "every byte" : "windows");
    json_end_object(json);
}

/* Called after each part, so that a run which is cut short leaves what it has. */
static void write_results(const char *path, const struct results *results)
{
    const struct plan *plan = &results->plan;
    struct json json;
    json_open(&json, path);
    json_object(&json, "machine");
    facts_write(&json);
    json_end_object(&json);
    json_integer(&json, "versions", (uint64_t)plan->versions);
    json_integer(&json, "version_bytes", plan->bytes);
    json_number(&json, "interval_s", plan->interval);
    json_integer(&json, "device_cache_bytes", plan->device_cache);
    json_integer(&json, "host_cache_bytes", plan->host_cache);
    json_text(&json, "settings", plan->settings);
    json_series(&json, "bare_copies", &results->bare);
    if (results->library.present) {
        write_figures(&json, "library", &results->library);
        json_object(&json, "library_metrics");
        library_metrics(&json);
        json_end_object(&json);
    }
    if (results->direct.present)
        write_figures(&json, "pinning_up_front", &results->direct);
    json_close(&json);
}

static void row(const char *name, double library, double direct, double bare)
{
    printf("%-24s %12.3f %12.3f", name, 1e3 * library, 1e3 * direct);
    if (bare > 0)
        printf(" %12.3f %10.2f", 1e3 * bare, library / bare);
    else
        printf(" %12s %10s", "-", "-");
    printf(" %10.2f\n", library > 0 ? direct / library : 0);
}

static void print_results(const struct results *results)
{
    const struct figures *library = &results->library, *direct = &results->direct;
    const struct series *bare = &results->bare;
    double ours = library->init + series_total(&library->keep) + series_total(&library->bring_back);
    double theirs = direct->init + series_total(&direct->keep) + series_total(&direct->bring_back);
    printf("%d versions of %zu MiB, one every %.3g ms; device cache %zu MiB, host %zu MiB\n",
           results->plan.versions, results->plan.bytes / MIB, 1e3 * results->plan.interval,
           results->plan.device_cache / MIB, results->plan.host_cache / MIB);
    if (driver_is_software())
        puts("The software device: these times say nothing about any GPU.");
    printf("%-24s %12s %12s %12s %10s %10s\n", "blocked, ms", "library", "pinning", "bare copy",
           "library/", "pinning/");
    printf("%-24s %12s %12s %12s %10s %10s\n", "", "", "up front", "on device", "bare", "library");
    row("initialisation", library->init, direct->init, 0);
    row("checkpoint, median", series_quantile(&library->keep, 0.5),
        series_quantile(&direct->keep, 0.5), series_quantile(bare, 0.5));
    row("checkpoint, 95 %", series_quantile(&library->keep, 0.95),
        series_quantile(&direct->keep, 0.95), series_quantile(bare, 0.95));
    row("checkpoint, longest", series_quantile(&library->keep, 1),
        series_quantile(&direct->keep, 1), series_quantile(bare, 1));
    row("checkpoint, total", series_total(&library->keep), series_total(&direct->keep),
        series_total(bare));
    row("restore, median", series_quantile(&library->bring_back, 0.5),
        series_quantile(&direct->bring_back, 0.5), series_quantile(bare, 0.5));
    row("restore, longest", series_quantile(&library->bring_back, 1),
        series_quantile(&direct->bring_back, 1), series_quantile(bare, 1));
    row("restore, total", series_total(&library->bring_back), series_total(&direct->bring_back),
        series_total(bare));
    row("all", ours, theirs, 2 * series_total(bare));
    printf("compared: %s; wrong versions: library %d, pinning up front %d\n",
           library->whole ? "every byte of every version" : "windows of every version",
           library->wrong, direct->wrong);
    library_print_metrics();
}

/* As many copies of a version on the device as there are versions. */
static void measure_bare_copies(struct results *results)
{
    const struct plan *plan = &results->plan;
    CUdeviceptr other;
    int version;
    CU(cuMemAlloc_v2(&other, plan->bytes));
    for (version = -2; version < plan->versions; version++) {
        double since = now();
        CU(cuMemcpyDtoDAsync_v2(other, plan->buffer, plan->bytes, plan->stream));
        CU(cuStreamSynchronize(plan->stream));
        if (version >= 0)
            series_add(&results->bare, now() - since);
    }
    CU(cuMemFree_v2(other));
}

/* Ends the program if the sizes do not fit each other or the machine. */
static void check(const struct plan *plan)
{
    size_t available = facts_available_memory(), free_bytes, total;
    size_t all = (size_t)plan->versions * plan->bytes;
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    if (plan->bytes % 4 != 0)
        fail("--size %zu: a multiple of 4 is wanted", plan->bytes);
    if (plan->device_cache < plan->bytes)
        fail("--device-cache %zu: less than one version", plan->device_cache);
    if (plan->host_cache < all)
        fail("--host-cache %zu: the versions come to %zu bytes", plan->host_cache, all);
    if (plan->host_cache > available / 10 * 8)
        fail("--host-cache %zu: this machine has %zu bytes available", plan->host_cache,
             available);
    if (plan->device_cache + 2 * plan->bytes > free_bytes)
        fail("--device-cache %zu: this device has %zu bytes free", plan->device_cache, free_bytes);
}

/* Device memory for every version, if there is enough; else 0. */
static CUdeviceptr get_audit(const struct plan *plan)
{
    size_t free_bytes, total, all = (size_t)plan->versions * plan->bytes;
    CUdeviceptr audit = 0;
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    if (!driver_is_software() && free_bytes < all + plan->device_cache + spare_on_device)
        return 0;
    return driver.cuMemAlloc_v2(&audit, all) == 0 ? audit : 0;
}

static int shots(const char *path, int argc, char **argv)
{
    static char settings[4096];
    struct results results;
    struct plan *plan = &results.plan;
    CUdeviceptr audit;
    int i;
    memset(&results, 0, sizeof results);
    plan->versions = 256;
    plan->bytes = 128 * MIB;
    plan->interval = 20e-3;
    plan->device_cache = 4 * GIB;
    plan->host_cache = 32 * GIB;
    plan->settings = settings;
    for (i = 0; i < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        if (i + 1 == argc)
            fail("%s: a value is missing\n%s", option, usage);
        if (strcmp(option, "--versions") == 0)
            plan->versions = (int)parse_number(option, value, 1);
        else if (strcmp(option, "--size") == 0)
            plan->bytes = parse_bytes(option, value);
        else if (strcmp(option, "--interval") == 0)
            plan->interval = 1e-3 * (double)parse_number(option, value, 0);
        else if (strcmp(option, "--device-cache") == 0)
            plan->device_cache = parse_bytes(option, value);
        else if (strcmp(option, "--host-cache") == 0)
            plan->host_cache = parse_bytes(option, value);
        else if (strcmp(option, "--set") != 0)
            fail("%s: there is no such option\n%s", option, usage);
        else if (strlen(settings) + strlen(value) + 2 > sizeof settings)
            fail("%s %s: too many settings", option, value);
        else
            strcat(strcat(settings, value), "\n");
    }
    check(plan);
    CU(cuStreamCreate(&plan->stream, STREAM_NON_BLOCKING));
    CU(cuMemAlloc_v2(&plan->buffer, plan->bytes));
    measure_bare_copies(&results);
    write_results(path, &results);
    audit = get_audit(plan);
    shot(plan, &library_keeper, audit, &results.library);
    write_results(path, &results);
    shot(plan, &direct_keeper, audit, &results.direct);
    write_results(path, &results);
    print_results(&results);
    return results.library.wrong != 0 || results.direct.wrong != 0;
}

static int leads(const char *path, int argc, char **argv)
{
    size_t total = 4 * GIB;
    struct json json;
    if (argc == 2 && strcmp(argv[0], "--total") == 0)
        total = parse_bytes(argv[0], argv[1]);
    else if (argc != 0)
        fail("%s: there is no such option\n%s", argv[0], usage);
    if (driver_is_software())
        puts("The software device: these figures say nothing about any GPU.");
    json_open(&json, path);
    json_object(&json, "machine");
    facts_write(&json);
    json_end_object(&json);
    leads_mapping(&json, total);
    leads_copies(&json, total);
    leads_registration(&json, total);
    json_close(&json);
    return 0;
}

static int facts(const char *path)
{
    struct json json;
    json_open(&json, path);
    facts_write(&json);
    json_close(&json);
    facts_print();
    return 0;
}

int main(int argc, char **argv)
{
    /* What has been measured is shown at once, also in a log. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc < 3) {
        fputs(usage, stderr);
        return 2;
    }
    driver_start();
    if (strcmp(argv[1], "facts") == 0 && argc == 3)
        return facts(argv[2]);
    if (strcmp(argv[1], "shot") == 0)
        return shots(argv[2], argc - 3, argv + 3);
    if (strcmp(argv[1], "leads") == 0)
        return leads(argv[2], argc - 3, argv + 3);
    fputs(usage, stderr);
    return 2;
}
