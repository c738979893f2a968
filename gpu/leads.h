/*
 * What decides the library's defaults: registration, mapping and copies, by size and kind.
 */
#ifndef LEADS_H
#define LEADS_H

#include <stddef.h>

#include "json.h"

/* Measures with `total` bytes of host and of device memory; prints tables, and writes members of
 * the object that is open. */
void leads_registration(struct json *json, size_t total);
void leads_mapping(struct json *json, size_t total);
void leads_copies(struct json *json, size_t total);

#endif
