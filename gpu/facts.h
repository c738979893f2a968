/*
 * What the machine, the driver and the device are.
 */
#ifndef FACTS_H
#define FACTS_H

#include <stddef.h>

#include "json.h"

/* Members of the object that is open. */
void facts_write(struct json *json);

/* The same in lines, for people. */
void facts_print(void);

/* Bytes of memory that programs can still get. */
size_t facts_available_memory(void);

#endif
