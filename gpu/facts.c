#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common.h"
#include "driver.h"

static const struct {
    const char *name;
    int number;
} attributes[] = {{"multiprocessors", 16},
                  {"async_engines", 40},
                  {"compute_capability_major", 75},
                  {"compute_capability_minor", 76},
                  {"managed_memory", 83},
                  {"pageable_memory_access", 88},
                  {"host_register_supported", 99},
                  {"pageable_access_uses_host_page_tables", 100},
                  {"virtual_memory_management", 102}};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

/* The text behind `key` in a file of `key : value` lines, or "". */
static const char *line_of(const char *path, const char *key, char *line, int room)
{
    FILE *file = fopen(path, "r");
    size_t length = strlen(key);
    const char *found = "";
    if (file == NULL)
        return "";
    while (fgets(line, room, file) != NULL) {
        char *value = line + length;
        if (strncmp(line, key, length) != 0)
            continue;
        value += strspn(value, " \t:");
        value[strcspn(value, "\n")] = '\0';
        found = value;
        break;
    }
    fclose(file);
    return found;
}

static size_t memory_line(const char *key)
{
    char line[256];
    return (size_t)strtoull(line_of("/proc/meminfo", key, line, sizeof line), NULL, 10) * KIB;
}

size_t facts_available_memory(void)
{
    return memory_line("MemAvailable");
}

static const char *huge_pages(char *line, int room)
{
    return line_of("/sys/kernel/mm/transparent_hugepage/enabled", "", line, room);
}

static int attribute(int number)
{
    int value = 0;
    /* An older driver does not know them all. */
    return driver.cuDeviceGetAttribute(&value, number, driver_device()) == 0 ? value : -1;
}

static const char *device_name(char *name, int room)
{
    CU(cuDeviceGetName(name, room, driver_device()));
    return name;
}

static size_t device_memory(void)
{
    size_t bytes;
    CU(cuDeviceTotalMem_v2(&bytes, driver_device()));
    return bytes;
}

static int driver_version(void)
{
    int version;
    CU(cuDriverGetVersion(&version));
    return version;
}

static size_t granularity(void)
{
    struct allocation_properties properties;
    size_t bytes;
    memset(&properties, 0, sizeof properties);
    properties.type = 1;
    properties.location.type = 1;
    properties.location.id = driver_device();
    CU(cuMemGetAllocationGranularity(&bytes, &properties, 0));
    return bytes;
}

void facts_write(struct json *json)
{
    struct utsname system;
    char text[256];
    size_t free_bytes, total;
    int i;
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    json_boolean(json, "software_device", driver_is_software());
    json_text(json, "device", device_name(text, sizeof text));
    json_integer(json, "cuda_driver_api", (uint64_t)driver_version());
    json_text(json, "kernel_driver", line_of("/proc/driver/nvidia/version", "NVRM version:", text,
                                             sizeof text));
    json_integer(json, "device_memory_bytes", device_memory());
    json_integer(json, "device_memory_free_bytes", free_bytes);
    json_integer(json, "mapping_granularity_bytes", granularity());
    for (i = 0; i < ATTRIBUTES; i++)
        json_number(json, attributes[i].name, attribute(attributes[i].number));
    if (uname(&system) == 0) {
        json_text(json, "kernel", system.release);
        json_text(json, "architecture", system.machine);
    }
    json_text(json, "processor", line_of("/proc/cpuinfo", "model name", text, sizeof text));
    json_integer(json, "processor_cores", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_integer(json, "memory_bytes", memory_line("MemTotal"));
    json_integer(json, "memory_available_bytes", memory_line("MemAvailable"));
    json_text(json, "transparent_huge_pages", huge_pages(text, sizeof text));
}

void facts_print(void)
{
    char text[256];
    if (driver_is_software())
        puts("This is the software device: its times say nothing about any GPU.");
    printf("device            %s, %.1f GiB\n", device_name(text, sizeof text),
           (double)device_memory() / (double)GIB);
    printf("CUDA driver       interface %d.%d; %s\n", driver_version() / 1000,
           driver_version() % 1000 / 10,
           line_of("/proc/driver/nvidia/version", "NVRM version:", text, sizeof text));
    printf("processor         %s, %ld cores\n",
           line_of("/proc/cpuinfo", "model name", text, sizeof text),
           sysconf(_SC_NPROCESSORS_ONLN));
    printf("memory            %.1f GiB, %.1f GiB of it available; huge pages: ",
           (double)memory_line("MemTotal") / (double)GIB,
           (double)memory_line("MemAvailable") / (double)GIB);
    printf("%s\n", huge_pages(text, sizeof text));
}
