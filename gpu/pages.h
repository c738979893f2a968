/*
 * Host memory straight from the kernel.
 */
#ifndef PAGES_H
#define PAGES_H

#include <stddef.h>

/* Untouched memory, aligned to 1 GiB so that no chunk is at a disadvantage, for huge pages or for
 * small ones. */
char *pages_get(size_t bytes, int huge);

/* Writes to each page. */
void pages_touch(char *pages, size_t bytes);

void pages_free(char *pages, size_t bytes);

#endif
