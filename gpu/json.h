/*
 * Writing JSON. The file appears under its name when it is complete.
 */
#ifndef JSON_H
#define JSON_H

#include <stdint.h>
#include <stdio.h>

struct series;

struct json {
    FILE *file;
    const char *path;
    char *part; /* the name until it is complete */
    int depth, first;
};

/* `name` is NULL inside a list. */
void json_open(struct json *json, const char *path);
void json_object(struct json *json, const char *name);
void json_list(struct json *json, const char *name);
void json_end_object(struct json *json);
void json_end_list(struct json *json);
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, double number);
void json_integer(struct json *json, const char *name, uint64_t number);
void json_boolean(struct json *json, const char *name, int value);
/* Count, total, quantiles and every value, in seconds. */
void json_series(struct json *json, const char *name, const struct series *series);
void json_close(struct json *json);

#endif
