/*
 * A checkpoint behind a part with VELOC_PART_RESEND, while another process is still in the part: until
 * it has read that the first one waits.
 *
 * late CONFIGURATION FILE
 *
 * What process 0 says goes to that file.
 */
#include "parts.h"
#include "veloc.h"

#include <fcntl.h>

static int has_said(const char *path, const char *words)
{
    char text[4096];
    size_t len;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    return strstr(text, words) != NULL;
}

int main(int argc, char **argv)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};
    int state = 1;
    begin_program(&argc, &argv);
    CHECK(argc > 2);
    EQUAL(VELOC_Init(MPI_COMM_WORLD, argv[1]), 0);
    EQUAL(VELOC_Mem_protect(0, &state, 1, sizeof state), 0);
    if (rank == 0) {
        int file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    }
    part_begin(7, VELOC_PART_RESEND);
    while (rank != 0 && !has_said(argv[2], "checkpoint waits"))
        nanosleep(&pause, NULL);
    part_end(7);
    EQUAL(VELOC_Checkpoint("state", 1), 0);
    PART(VELOC_Part_free(7));
    EQUAL(VELOC_Finalize(1), 0);
    return end_program();
}
