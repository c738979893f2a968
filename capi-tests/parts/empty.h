/*
 * The functions of a generalized request that receives nothing: MPI calls them when it is looked at,
 * freed and cancelled.
 */
#ifndef EMPTY_H
#define EMPTY_H

#include "parts.h"

static inline int empty_query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI(MPI_Status_set_elements(status, MPI_BYTE, 0));
    MPI(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

static inline int empty_free(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static inline int empty_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

#endif
