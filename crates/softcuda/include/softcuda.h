/* Steering the software device that stands in for the CUDA driver.
 *
 * The library exports the driver's own functions as <cuda.h> declares them,
 * and these beside them. A real driver has none of them: look them up with
 * dlsym, and take their absence to mean that the device is real.
 *
 * All may be called from any thread and before cuInit. None counts as a call
 * of the driver.
 */
#ifndef SOFTCUDA_H
#define SOFTCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The launch of a native kernel. */
struct softcuda_launch {
    uint32_t grid[3];         /* blocks in each dimension */
    uint32_t block[3];        /* threads of a block in each dimension */
    uint32_t shared_bytes;    /* dynamic shared memory asked for */
    uint32_t parameter_count; /* number of params */
    void **params;            /* pointers to the values as they were at launch */
};

/* Returns 1. */
int softcuda_is_software(void);

/* Changes a setting, named as its environment variable is, with or without
 * SOFTCUDA_. The number of devices is fixed once cuInit has been called.
 * Returns 0, or -1 and a line on stderr. */
int softcuda_configure(const char *key, const char *value);

/* Replaces the failures to inject; the empty string clears them. The form is that of
 * SOFTCUDA_FAIL: "cuMemMap:3=2" lets the third call return 2,
 * "cuMemMap:3+=2" that and all later ones, and "cuLaunchKernel:1~700" lets
 * the first call succeed and the device fail with 700 when it carries it out.
 * Returns 0, or -1 and a line on stderr, in which case nothing changes. */
int softcuda_inject(const char *specification);

/* How often the driver function of this name was called since the start or
 * the last softcuda_reset_counts, calls that failed among them. */
uint64_t softcuda_call_count(const char *name);

/* Writes every driver function called so far and how often as lines
 * "name count", cut to fit. Returns the room it takes in full, with the
 * terminator; the buffer may be NULL to ask for that. */
size_t softcuda_calls(char *buffer, size_t size);

/* How often something was done that the driver does not refuse but a program
 * must never do, such as unmapping memory that a queued copy will touch. */
uint64_t softcuda_misuse_count(void);

/* Writes what that was, one case to a line, as softcuda_calls does. At most
 * 256 cases are kept. */
size_t softcuda_misuse_log(char *buffer, size_t size);

/* How many copies in streams made their caller wait until they were done, as
 * their host memory was not page-locked. */
uint64_t softcuda_staged_count(void);

/* How many waits for unfinished work would spin in a driver: all but those for
 * an event made with CU_EVENT_BLOCKING_SYNC. */
uint64_t softcuda_spun_count(void);

/* How many bytes of managed memory have moved to a device and back to the host
 * since the start, in blocks of 2 MiB: each block that a device worked on while
 * it was on the host, and the other way round. Either pointer may be NULL. */
void softcuda_migrated(uint64_t *to_device, uint64_t *to_host);

/* Resets the counts of calls, misuse, staged copies and waits to zero. Failures
 * that are set stay set and go by the new numbers. */
void softcuda_reset_counts(void);

/* Makes `function` the kernel of this name for any module. It is called once
 * per launch on the stream's thread, with `count` parameters of the given
 * sizes, each of one to eight bytes. Returns 0, or -1. */
int softcuda_register_kernel(const char *name, unsigned count, const size_t *sizes,
                             void (*function)(const struct softcuda_launch *));

/* Where a native kernel reads and writes `size` bytes at a device address.
 * NULL if its device may not touch them all; the context then fails with
 * CUDA_ERROR_ILLEGAL_ADDRESS when the kernel returns. Only a kernel may call
 * this, on the thread it was called on, and use the result until it returns.
 * What its device may only read must not be written there. */
void *softcuda_host_alias(unsigned long long address, size_t size);

#ifdef __cplusplus
}
#endif

#endif
