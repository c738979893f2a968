/*
 * Rates of copies between the device and host memory of every kind.
 */
#include <string.h>

#include "common.h"
#include "driver.h"
#include "leads.h"
#include "pages.h"

static CUstream stream;
static CUdeviceptr device;

static double to_host(char *pages, size_t bytes)
{
    double since = now();
    CU(cuMemcpyDtoHAsync_v2(pages, device, bytes, stream));
    CU(cuStreamSynchronize(stream));
    return now() - since;
}

static double to_device(const char *pages, size_t bytes)
{
    double since = now();
    CU(cuMemcpyHtoDAsync_v2(device, pages, bytes, stream));
    CU(cuStreamSynchronize(stream));
    return now() - since;
}

static void report(struct json *json, const char *direction, const char *kind, int huge,
                   size_t bytes, double seconds)
{
    double rate = (double)bytes / (double)GIB / seconds;
    json_object(json, NULL);
    json_text(json, "direction", direction);
    json_text(json, "host_memory", kind);
    json_boolean(json, "huge_pages_asked_for", huge);
    json_integer(json, "bytes", bytes);
    json_number(json, "time_s", seconds);
    json_number(json, "gib_per_s", rate);
    json_end_object(json);
    printf("%-16s %-12s %6s %10.2f\n", direction, kind, huge ? "huge" : "small", rate);
}

static void measure(struct json *json, size_t bytes, int huge)
{
    char *pages = pages_get(bytes, huge);
    report(json, "device to host", "untouched", huge, bytes, to_host(pages, bytes));
    report(json, "device to host", "touched", huge, bytes, to_host(pages, bytes));
    report(json, "host to device", "touched", huge, bytes, to_device(pages, bytes));
    CU(cuMemHostRegister_v2(pages, bytes, 0));
    report(json, "device to host", "registered", huge, bytes, to_host(pages, bytes));
    report(json, "host to device", "registered", huge, bytes, to_device(pages, bytes));
    CU(cuMemHostUnregister(pages));
    pages_free(pages, bytes);
}

void leads_copies(struct json *json, size_t total)
{
    size_t bytes = total < GIB ? total : GIB;
    int huge;
    CU(cuMemAlloc_v2(&device, bytes));
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    CU(cuMemsetD32Async(device, 1, bytes / 4, stream));
    CU(cuStreamSynchronize(stream));
    puts("copies between device and host");
    printf("%-16s %-12s %6s %10s\n", "direction", "host memory", "pages", "GiB/s");
    json_list(json, "copies");
    for (huge = 1; huge >= 0; huge--)
        measure(json, bytes, huge);
    json_end_list(json);
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(device));
}
