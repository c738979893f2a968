#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static void next(struct json *json, const char *name)
{
    fprintf(json->file, "%s\n%*s", json->first ? "" : ",", 2 * json->depth, "");
    json->first = 0;
    if (name != NULL)
        fprintf(json->file, "\"%s\": ", name);
}

static void begin(struct json *json, const char *name, char bracket)
{
    next(json, name);
    fputc(bracket, json->file);
    json->depth++;
    json->first = 1;
}

static void end(struct json *json, char bracket)
{
    json->depth--;
    fprintf(json->file, "\n%*s%c", 2 * json->depth, "", bracket);
    json->first = 0;
}

void json_open(struct json *json, const char *path)
{
    size_t length = strlen(path);
    json->path = path;
    json->part = get_memory(length + sizeof ".part");
    memcpy(json->part, path, length);
    memcpy(json->part + length, ".part", sizeof ".part");
    json->file = fopen(json->part, "w");
    if (json->file == NULL)
        fail("writing %s: %s", json->part, strerror(errno));
    fputc('{', json->file);
    json->depth = 1;
    json->first = 1;
}

void json_object(struct json *json, const char *name)
{
    begin(json, name, '{');
}

void json_list(struct json *json, const char *name)
{
    begin(json, name, '[');
}

void json_end_object(struct json *json)
{
    end(json, '}');
}

void json_end_list(struct json *json)
{
    end(json, ']');
}

void json_text(struct json *json, const char *name, const char *text)
{
    next(json, name);
    fputc('"', json->file);
    for (; *text != '\0'; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\')
            fprintf(json->file, "\\%c", letter);
        else if (letter < ' ')
            fprintf(json->file, "\\u%04x", letter);
        else
            fputc(letter, json->file);
    }
    fputc('"', json->file);
}

void json_number(struct json *json, const char *name, double number)
{
    next(json, name);
    fprintf(json->file, "%.9g", number);
}

void json_integer(struct json *json, const char *name, uint64_t number)
{
    next(json, name);
    fprintf(json->file, "%llu", (unsigned long long)number);
}

void json_boolean(struct json *json, const char *name, int value)
{
    next(json, name);
    fputs(value ? "true" : "false", json->file);
}

void json_series(struct json *json, const char *name, const struct series *series)
{
    size_t i;
    json_object(json, name);
    json_integer(json, "count", series->count);
    json_number(json, "total_s", series_total(series));
    json_number(json, "median_s", series_quantile(series, 0.5));
    json_number(json, "p95_s", series_quantile(series, 0.95));
    json_number(json, "largest_s", series_quantile(series, 1));
    next(json, "values_s");
    fputc('[', json->file);
    for (i = 0; i < series->count; i++)
        fprintf(json->file, "%s%.7g", i == 0 ? "" : ", ", series->values[i]);
    fputc(']', json->file);
    json_end_object(json);
}

void json_close(struct json *json)
{
    int failed;
    fputs("\n}\n", json->file);
    failed = ferror(json->file);
    if (fclose(json->file) != 0 || failed || rename(json->part, json->path) != 0)
        fail("writing %s: %s", json->path, strerror(errno));
    free(json->part);
}
