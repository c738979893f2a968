#include "frame.h"

static int content;

static int save(const char *path)
{
    FILE *file = fopen(path, "w");
    return file != NULL && fprintf(file, "%d", content) > 0 && fclose(file) == 0;
}

static int load(const char *path)
{
    FILE *file = fopen(path, "r");
    return file != NULL && fscanf(file, "%d", &content) == 1 && fclose(file) == 0;
}

static void take(int rank, int step)
{
    content = step;
    /* BLOCK 1 */
}

static void go_on(int rank)
{
    char file[64], path[VELOC_MAX_NAME];
    /* BLOCK 2 */
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    OK(VELOC_Init_single(0, "veloc.cfg"));
    take(0, 7);
    take(0, 8);
    content = 0;
    go_on(0);
    EQUAL(content, 8);
    OK(VELOC_Finalize(0));
    puts("done");
    return 0;
}
