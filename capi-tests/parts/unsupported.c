/*
 * Every function that cannot be replayed fails inside a part, by its name, before it looks at anything
 * but its communicator: each gets that in place of all arguments.
 *
 * unsupported <file with names, one in a line>
 */
#define _GNU_SOURCE
#include "parts.h"

#include <dlfcn.h>

/* As many arguments as any of them has. */
typedef int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

int main(int argc, char **argv)
{
    const uintptr_t w = (uintptr_t)MPI_COMM_WORLD;
    char name[128], words[160];
    int number = 0;
    FILE *names;
    begin_program(&argc, &argv);
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(argc > 1 && (names = fopen(argv[1], "r")) != NULL);
    part_begin(5, 0);
    while (fscanf(names, "%127s", name) == 1) {
        function *call;
        *(void **)&call = dlsym(RTLD_DEFAULT, name);
        CHECK(call != NULL);
        /* The last one that is printed is what a crash was in. */
        puts(name);
        fflush(stdout);
        CHECK(call(w, w, w, w, w, w, w, w, w, w, w, w, w) != MPI_SUCCESS);
        snprintf(words, sizeof words, "%s cannot be called inside part 5", name);
        check_words(__FILE__, __LINE__, name, words);
        number++;
    }
    part_end(5);
    fclose(names);
    printf("refused %d\n", number);
    PART(VELOC_Part_free(5));
    EMPTY_LOG();
    return end_program();
}
