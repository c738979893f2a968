/*
 * What the Rust library offers to this layer beyond veloc.h, which does without MPI here.
 * src/capi/cxx.rs has the comments.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VELOC_CXX_ABI_H
#define VELOC_CXX_ABI_H

#include <cstddef>

#include "veloc.h"

extern "C" {

/* As in veloc.h, but for a communicator of any MPI. */
int VELOC_Init(void *comm, const char *cfg_file);
int VELOC_Init_options(void *comm, const VELOC_Option *options, size_t n);

typedef struct VELOC_Cxx_written {
    void *buffer;
    const void *bytes;
    size_t len;
} VELOC_Cxx_written;

/* No function may throw. Those that return an int give 0, or -1 and a reason of at most `room`
 * bytes, the final NUL included. A reason beside 0 is a warning. */
typedef struct VELOC_Cxx_object {
    void *context;
    int (*write)(void *context, VELOC_Cxx_written *written, char *reason, size_t room);
    void (*forget)(void *buffer);
    int (*read)(void *context, const void *bytes, size_t len, char *reason, size_t room);
    void (*destroy)(void *context);
} VELOC_Cxx_object;

int VELOC_Cxx_protect(int id, const VELOC_Cxx_object *object, const char *name);
int VELOC_Cxx_restart_test(const char *name, int version, int target_rank);
int VELOC_Cxx_restart(const char *name, int version, int target_rank);
int VELOC_Cxx_restart_begin(const char *name, int version, int target_rank);
size_t VELOC_Cxx_recover_size(int id);
int VELOC_Cxx_has_job(void);
void VELOC_Cxx_report(const char *call, const char *text);
int VELOC_Cxx_scratch(const char *cfg_file, char *directory, size_t room);
void VELOC_Cxx_observe(void (*observer)(const char *name, int version));
}

#endif /* VELOC_CXX_ABI_H */
