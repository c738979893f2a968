/*
 * A stand-in for NVTX, of both versions: the library libnvToolsExt.so.1, and what a profiler
 * injects. Counts the ranges by name, and says at the end of the process how many there were, and
 * whether each was ended on its own thread.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[32];
    int count;
} ranges[MOST];
static int threads, unmatched;
static _Thread_local int depth;

int nvtxRangePushA(const char *name)
{
    int i;
    pthread_mutex_lock(&lock);
    for (i = 0; i < MOST - 1 && ranges[i].count > 0 && strcmp(ranges[i].name, name) != 0; i++)
        ;
    snprintf(ranges[i].name, sizeof ranges[i].name, "%s", name);
    ranges[i].count++;
    pthread_mutex_unlock(&lock);
    return depth++;
}

int nvtxRangePop(void)
{
    pthread_mutex_lock(&lock);
    unmatched += depth == 0;
    pthread_mutex_unlock(&lock);
    return --depth;
}

void nvtxNameOsThreadA(uint32_t thread, const char *name)
{
    pthread_mutex_lock(&lock);
    threads += thread != 0 && name[0] != '\0';
    pthread_mutex_unlock(&lock);
}

/* Version 3: a profiler asks for the table of functions and fills in its own. */
typedef void (*function)(void);
struct callbacks {
    size_t struct_size;
    int (*functions)(int module, function ***table, unsigned *size);
};

int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id));
int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id))
{
    const struct callbacks *callbacks = get_export_table(1);
    function **table = NULL;
    unsigned size = 0;
    if (callbacks == NULL || callbacks->struct_size < sizeof *callbacks
        || callbacks->functions(6, &table, &size) != 0 || !callbacks->functions(1, &table, &size)
        || size < 16 || table[0] != NULL)
        return 0;
    *table[9] = (function)nvtxRangePushA;
    *table[11] = (function)nvtxRangePop;
    *table[14] = (function)nvtxNameOsThreadA;
    fprintf(stderr, "nvtx injected\n");
    return 1;
}

__attribute__((destructor)) static void say(void)
{
    int i;
    for (i = 0; i < MOST && ranges[i].count > 0; i++)
        fprintf(stderr, "nvtx %s %d\n", ranges[i].name, ranges[i].count);
    fprintf(stderr, "nvtx threads %d\nnvtx unmatched %d\n", threads, unmatched);
}
