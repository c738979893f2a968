/*
 * What the application's buffer holds: another content for every version, which tells a wrong or
 * shifted part from the right one.
 */
#ifndef CONTENT_H
#define CONTENT_H

#include <stddef.h>

#include "driver.h"

/* Fills the buffer for a version, in the stream. */
void content_fill(CUdeviceptr buffer, size_t bytes, int version, CUstream stream);

/* Overwrites the buffer, in the stream, so that nothing but a restore can bring a version back. */
void content_spoil(CUdeviceptr buffer, size_t bytes, CUstream stream);

/* Looks at windows at both ends of each part of the buffer and says, on stderr, where one is
 * wrong. Returns how many parts are. */
int content_check_windows(CUdeviceptr buffer, size_t bytes, int version, CUstream stream);

/* Looks at every byte, with `room` (`bytes` of host memory) to copy to. */
int content_check_whole(CUdeviceptr buffer, size_t bytes, int version, CUstream stream,
                        void *room);

#endif
