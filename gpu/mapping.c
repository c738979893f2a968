/*
 * How long it takes to create, map and open device memory by size of chunk.
 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "driver.h"
#include "leads.h"

struct times {
    struct series create, map, open;
};

static void measure(struct json *json, size_t total, size_t chunk)
{
    size_t count = total / chunk, i;
    CUmemGenericAllocationHandle *handles = get_memory(count * sizeof *handles);
    struct allocation_properties properties;
    struct access access;
    struct times times;
    CUdeviceptr range;
    double all;
    memset(&times, 0, sizeof times);
    memset(&properties, 0, sizeof properties);
    properties.type = 1;
    properties.location.type = 1;
    properties.location.id = driver_device();
    access.location = properties.location;
    access.flags = 3;
    CU(cuMemAddressReserve(&range, count * chunk, 0, 0, 0));
    for (i = 0; i < count; i++) {
        CUdeviceptr at = range + i * chunk;
        double begin = now(), created, mapped;
        CU(cuMemCreate(&handles[i], chunk, &properties, 0));
        created = now();
        CU(cuMemMap(at, chunk, 0, handles[i], 0));
        mapped = now();
        CU(cuMemSetAccess(at, chunk, &access, 1));
        series_add(&times.open, now() - mapped);
        series_add(&times.map, mapped - created);
        series_add(&times.create, created - begin);
    }
    for (i = 0; i < count; i++) {
        CU(cuMemUnmap(range + i * chunk, chunk));
        CU(cuMemRelease(handles[i]));
    }
    CU(cuMemAddressFree(range, count * chunk));
    free(handles);

    all = series_total(&times.create) + series_total(&times.map) + series_total(&times.open);
    json_object(json, NULL);
    json_integer(json, "chunk_bytes", chunk);
    json_number(json, "gib_per_s", (double)(count * chunk) / (double)GIB / all);
    json_series(json, "create", &times.create);
    json_series(json, "map", &times.map);
    json_series(json, "set_access", &times.open);
    json_end_object(json);
    printf("%8zu MiB %10.1f %12.1f %12.1f %12.1f\n", chunk / MIB,
           (double)(count * chunk) / (double)GIB / all,
           1e6 * series_quantile(&times.create, 0.5), 1e6 * series_quantile(&times.map, 0.5),
           1e6 * series_quantile(&times.open, 0.5));
    series_free(&times.create);
    series_free(&times.map);
    series_free(&times.open);
}

void leads_mapping(struct json *json, size_t total)
{
    size_t chunk;
    puts("mapping device memory: medians in microseconds");
    printf("%12s %10s %12s %12s %12s\n", "chunk", "GiB/s", "create", "map", "set access");
    json_list(json, "mapping");
    for (chunk = 2 * MIB; chunk <= GIB && chunk <= total; chunk *= 2)
        measure(json, total < 512 * chunk ? total : 512 * chunk, chunk);
    json_end_list(json);
}
