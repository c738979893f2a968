/*
 * The library under measurement.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "json.h"

/* The library's own figures of the shot that ran last. */
void library_metrics(struct json *json);

/* The same in lines, for people. */
void library_print_metrics(void);

#endif
