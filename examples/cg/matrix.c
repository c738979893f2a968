#include "../persistent.h"
#include "matrix.h"

#include <errno.h>
#include <math.h>

static const struct class classes[] = {
    {'S', 1400, 7, 15, 10, 8.5971775078648},
    {'W', 7000, 8, 15, 12, 10.362595087124},
    {'A', 14000, 11, 15, 20, 17.130235054029},
    {'B', 75000, 13, 75, 60, 22.712745482631},
    {'C', 150000, 15, 75, 110, 28.973605592845},
};

const struct class *class_named(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (name[0] == classes[i].name && name[1] == '\0')
            return &classes[i];
    return NULL;
}

static struct matrix matrix_of(int64_t n)
{
    struct matrix matrix = {n, NULL, NULL, NULL};
    matrix.start = memory((size_t)n + 1, sizeof *matrix.start);
    return matrix;
}

/* Has the numbers of entries of the rows, which are in start[1..n], become the begins of the rows, and makes room. */
static void make_room(struct matrix *matrix)
{
    int64_t i;
    for (i = 0; i < matrix->n; i++)
        matrix->start[i + 1] += matrix->start[i];
    matrix->column = memory((size_t)matrix->start[matrix->n], sizeof *matrix->column);
    matrix->value = memory((size_t)matrix->start[matrix->n], sizeof *matrix->value);
}

/* The benchmark's random numbers in (0, 1): multiples of 2^-46. */
static double randlc(uint64_t *seed)
{
    *seed = *seed * 1220703125 & ((UINT64_C(1) << 46) - 1);
    return (double)*seed / (double)(UINT64_C(1) << 46);
}

/* The vectors that the matrix is made of: vector i has value[e] in place[e] for i * most <= e < i * most + length[i]. */
struct vectors {
    int n, most;
    int *length, *place;
    double *value;
};

static int *find(struct vectors *v, int i, int place)
{
    int *all = v->place + (size_t)i * v->most, e;
    for (e = 0; e < v->length[i]; e++)
        if (all[e] == place)
            return &all[e];
    return NULL;
}

static void append(struct vectors *v, int i, int place, double value)
{
    size_t e = (size_t)i * v->most + v->length[i]++;
    v->place[e] = place;
    v->value[e] = value;
}

/* Each has `nonzero` random places with random values, and 1/2 in its own. */
static struct vectors make_vectors(const struct class *class)
{
    struct vectors v = {class->n, class->nonzero + 1, NULL, NULL, NULL};
    size_t entries = (size_t)v.n * v.most;
    uint64_t seed = 314159265;
    int power = 1, i;
    v.length = memory((size_t)v.n, sizeof *v.length);
    v.place = memory(entries, sizeof *v.place);
    v.value = memory(entries, sizeof *v.value);
    while (power < v.n)
        power *= 2;
    randlc(&seed); /* The benchmark takes one before. */
    for (i = 0; i < v.n; i++) {
        int *own;
        while (v.length[i] < class->nonzero) {
            double value = randlc(&seed);
            int place = (int)(power * randlc(&seed));
            if (place < v.n && find(&v, i, place) == NULL)
                append(&v, i, place, value);
        }
        own = find(&v, i, i);
        if (own != NULL)
            v.value[own - v.place] = 0.5;
        else
            append(&v, i, i, 0.5);
    }
    return v;
}

/*
 * The sum of w_i x_i x_i' over the vectors x_i, with w_i from 1 down to 0.1, and 0.1 - shift in the diagonal. It is
 * computed column by column. As it is symmetric, column j's entry of row i is appended to row i: so rows are sorted.
 */
struct matrix make_matrix(const struct class *class)
{
    const double least = 0.1, ratio = pow(least, 1.0 / class->n);
    struct vectors v = make_vectors(class);
    struct matrix matrix = matrix_of(v.n);
    int *touched = memory((size_t)v.n, sizeof *touched), *seen = memory((size_t)v.n, sizeof *seen);
    double *sum = memory((size_t)v.n, sizeof *sum), *weight = memory((size_t)v.n, sizeof *weight);
    /* The vectors that have a place: which[first[place] .. first[place + 1]], as entries. */
    int64_t *first = memory((size_t)v.n + 2, sizeof *first), *end = NULL, e;
    int64_t entries = (int64_t)v.n * v.most;
    int64_t *which = memory((size_t)entries, sizeof *which);
    int i, j, filling;

    for (i = 0; i < v.n; i++)
        weight[i] = i == 0 ? 1 : weight[i - 1] * ratio;
    for (e = 0; e < entries; e++)
        if (e % v.most < v.length[e / v.most])
            first[v.place[e] + 2]++;
    for (i = 0; i < v.n; i++)
        first[i + 2] += first[i + 1];
    for (e = 0; e < entries; e++)
        if (e % v.most < v.length[e / v.most])
            which[first[v.place[e] + 1]++] = e;

    /* Once to count, and once to fill. */
    for (filling = 0; filling < 2; filling++) {
        if (filling) {
            make_room(&matrix);
            end = memory((size_t)v.n, sizeof *end);
            memcpy(end, matrix.start, (size_t)v.n * sizeof *end);
        }
        for (j = 0; j < v.n; j++) {
            int count = 0, mark = 2 * j + 1 + filling;
            for (e = first[j]; e < first[j + 1]; e++) {
                int vector = (int)(which[e] / v.most), of;
                double scale = weight[vector] * v.value[which[e]];
                for (of = 0; of < v.length[vector]; of++) {
                    size_t other = (size_t)vector * v.most + of;
                    int row = v.place[other];
                    if (seen[row] != mark) {
                        seen[row] = mark;
                        sum[row] = row == j ? least - class->shift : 0;
                        touched[count++] = row;
                    }
                    sum[row] += scale * v.value[other];
                }
            }
            for (i = 0; i < count; i++) {
                int row = touched[i];
                if (filling) {
                    matrix.column[end[row]] = j;
                    matrix.value[end[row]++] = sum[row];
                } else {
                    matrix.start[row + 1]++;
                }
            }
        }
    }
    free(v.length), free(v.place), free(v.value);
    free(touched), free(seen), free(sum), free(weight);
    free(first), free(which), free(end);
    return matrix;
}

/* The next line that has no comment. */
static char *next_line(char *line, size_t size, FILE *file, const char *path)
{
    do {
        if (fgets(line, (int)size, file) == NULL)
            refuse("ends too early", path);
    } while (line[0] == '%' || line[0] == '\n');
    return line;
}

struct matrix read_matrix(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[1024], kind[64], symmetry[64];
    long long rows, columns, entries, e;
    struct matrix matrix;
    int *row, *column, symmetric;
    int64_t *end;
    double *value;

    if (file == NULL)
        refuse(strerror(errno), path);
    if (fgets(line, sizeof line, file) == NULL
        || sscanf(line, "%%%%MatrixMarket matrix coordinate %63s %63s", kind, symmetry) != 2
        || (strcmp(kind, "real") != 0 && strcmp(kind, "integer") != 0)
        || (strcmp(symmetry, "symmetric") != 0 && strcmp(symmetry, "general") != 0))
        refuse("not a Matrix Market file of coordinates, real, symmetric or general", path);
    symmetric = strcmp(symmetry, "symmetric") == 0;
    if (sscanf(next_line(line, sizeof line, file, path), "%lld %lld %lld", &rows, &columns,
               &entries) != 3 || rows != columns || rows < 1 || rows > INT32_MAX || entries < 1)
        refuse("not square, or empty", path);
    matrix = matrix_of(rows);
    row = memory((size_t)entries, sizeof *row);
    column = memory((size_t)entries, sizeof *column);
    value = memory((size_t)entries, sizeof *value);
    for (e = 0; e < entries; e++) {
        if (sscanf(next_line(line, sizeof line, file, path), "%d %d %lf", &row[e], &column[e],
                   &value[e]) != 3 || row[e] < 1 || row[e] > rows || column[e] < 1 || column[e] > rows)
            refuse("has an entry that is none", path);
        row[e]--, column[e]--;
        matrix.start[row[e] + 1]++;
        if (symmetric && row[e] != column[e])
            matrix.start[column[e] + 1]++;
    }
    fclose(file);
    make_room(&matrix);
    end = memory((size_t)rows, sizeof *end);
    memcpy(end, matrix.start, (size_t)rows * sizeof *end);
    for (e = 0; e < entries; e++) {
        matrix.column[end[row[e]]] = column[e];
        matrix.value[end[row[e]]++] = value[e];
        if (symmetric && row[e] != column[e]) {
            matrix.column[end[column[e]]] = row[e];
            matrix.value[end[column[e]]++] = value[e];
        }
    }
    free(row), free(column), free(value), free(end);
    return matrix;
}

void free_matrix(struct matrix *matrix)
{
    free(matrix->start), free(matrix->column), free(matrix->value);
}
