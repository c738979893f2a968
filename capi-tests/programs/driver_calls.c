/*
 * How many calls of the driver a checkpoint and a restart of device memory make on the application's thread:
 * driver_calls <configuration> [stream=0|1] [regions=] [most=] [most_restart=]
 *
 *   stream=0  no stream is given: each waits for the context
 *   stream=1  a stream is given
 *
 * Nothing leaves the device cache, so that no other thread calls the driver meanwhile; but the one that waits for ordered
 * copies (stream_ordered), once a call.
 */
#include "cuda.h"

enum { BYTES = 100000 };

static unsigned long total(int print)
{
    char text[4096], name[64];
    unsigned long sum = 0, count;
    int used;
    CHECK(softcuda.calls(text, sizeof text) < sizeof text);
    for (const char *at = text; sscanf(at, "%63s %lu%n", name, &count, &used) == 2; at += used) {
        sum += count;
        if (print)
            printf("  %s %lu\n", name, count);
    }
    return sum;
}

int main(int argc, char **argv)
{
    int with_stream = (int)number(argc, argv, "stream", 1);
    int regions = (int)number(argc, argv, "regions", 1);
    unsigned long most = (unsigned long)number(argc, argv, "most", 1000);
    unsigned long most_restart = (unsigned long)number(argc, argv, "most_restart", 1000);
    CUdeviceptr device[16];
    CUstream stream;
    CHECK(cuda_load() == 0 && softcuda.calls != NULL);
    cuda_context(0);
    CU(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    OK(VELOC_Init_single(0, argv[1]));
    for (int region = 0; region < regions; region++) {
        CU(cuMemAlloc_v2(&device[region], BYTES));
        OK(VELOC_Mem_protect(region, (void *)device[region], BYTES, 1));
    }
    if (with_stream)
        OK(VELOC_Set_stream(stream));
    for (int version = 0; version < 3; version++)
        OK(VELOC_Checkpoint("calls", version));
    OK(VELOC_Checkpoint_wait());
    softcuda.reset_counts();
    OK(VELOC_Checkpoint("calls", 3));
    unsigned long made = total(0);
    printf("checkpoint %lu\n", made);
    total(1);
    OK(VELOC_Checkpoint_wait());
    softcuda.reset_counts();
    OK(VELOC_Restart("calls", 3));
    unsigned long restored = total(0);
    printf("restart %lu\n", restored);
    total(1);
    CHECK(made <= most && restored <= most_restart);
    OK(VELOC_Finalize(1));
    puts("done");
    return 0;
}
