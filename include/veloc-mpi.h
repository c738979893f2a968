/*
 * Messages of checkpointed parts of adjoint codes, logged and replayed.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef VELOC_MPI_H
#define VELOC_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VELOC_PART_RESEND 1
#define VELOC_PART_KEEP 2

typedef struct VELOC_Part_figures {
    uint64_t logged, peak, dropped, resent;
    uint64_t events, parts;
} VELOC_Part_figures;

int VELOC_Part_begin(int id, int flags);
int VELOC_Part_end(int id);
int VELOC_Part_replay_begin(int id);
int VELOC_Part_replay_end(int id);
int VELOC_Part_free(int id);
const char *VELOC_Part_error(void);
int VELOC_Part_get_figures(VELOC_Part_figures *figures, size_t size);

#ifdef __cplusplus
}
#endif

#endif
