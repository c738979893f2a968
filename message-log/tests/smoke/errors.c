/* What fails, and how: replays that do something else, calls that cannot be replayed, parts that are
 * ended in the wrong order. With the argument "threads", MPI_THREAD_MULTIPLE. */
#include "check.h"

static int rank, size;

static void check_says(const char *text) {
    if (strstr(VELOC_Part_error(), text) == NULL) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, VELOC_Part_error());
        CHECK(0);
    }
}

/* A first run with one message round the ring. */
static void one_message(int run, int count, int tag) {
    int out[4] = {rank, 1, 2, 3}, in[4] = {-1, -1, -1, -1};
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    begin(1, run);
    int sent = MPI_Send(out, 4, MPI_INT, next, 7, MPI_COMM_WORLD);
    CHECK(sent == MPI_SUCCESS);
    int code = MPI_Recv(in, count, MPI_INT, last, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK((code == MPI_SUCCESS) == (count == 4 && tag == 7));
    CHECK(in[0] == (code == MPI_SUCCESS ? last : -1));
}

static void divergences(void) {
    one_message(0, 4, 7);
    end(1, 0);
    one_message(1, 4, 8);
    check_says("the replay of part 1");
    check_says("tag 8");
    check_says("it was MPI_Recv(MPI_COMM_WORLD");
    check_says("tag 7");
    check_says("4 elements of 4 bytes");
    char first[1000];
    snprintf(first, sizeof first, "%s", VELOC_Part_error());
    /* All that follows fails in the same way. */
    CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
    check_says(first);
    CHECK(VELOC_Part_replay_end(1) == -1);
    check_says(first);
    CHECK(VELOC_Part_free(1) == 0);
    check_empty();

    /* Too few calls, then too many. */
    one_message(0, 4, 7);
    end(1, 0);
    begin(1, 1);
    CHECK(VELOC_Part_replay_end(1) == -1);
    check_says("peer");
    check_says("tag 7, 4 elements of 4 bytes) was not called again (0 calls before it were)");
    CHECK(VELOC_Part_free(1) == 0);
    one_message(0, 4, 7);
    end(1, 0);
    one_message(1, 4, 7);
    CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
    check_says("MPI_Barrier(MPI_COMM_WORLD), the part had ended");
    CHECK(VELOC_Part_free(1) == 0);
    check_empty();
}

/* A request that is another one than in the first run, with the same calls. */
static void other_request(void) {
    for (int run = 0; run < 2; run++) {
        int out = rank, in[2] = {-1, -1};
        int next = (rank + 1) % size, last = (rank + size - 1) % size;
        MPI_Request requests[2];
        begin(1, run);
        for (int i = 0; i < 2; i++) {
            MPI_Irecv(&in[i], 1, MPI_INT, last, i, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < 2; i++) {
            MPI_Send(&out, 1, MPI_INT, next, i, MPI_COMM_WORLD);
        }
        int code = MPI_Wait(&requests[run], MPI_STATUS_IGNORE);
        CHECK((code == MPI_SUCCESS) == (run == 0));
        if (run == 0) {
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            end(1, run);
        } else {
            check_says("is not the one that was completed in the first run");
            CHECK(VELOC_Part_free(1) == 0);
        }
    }
    check_empty();
}

/* An error of the first run is one of the replay. */
static void failed_call(void) {
    for (int run = 0; run < 2; run++) {
        int in = -1;
        begin(1, run);
        CHECK(MPI_Send(&in, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
        end(1, run);
    }
    check_empty();
}

static void refused(void) {
    int memory = 0;
    MPI_Win window = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Comm comm;
    CHECK(VELOC_Part_begin(3, 0) == 0);
    CHECK(MPI_Win_create(&memory, 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_ERR_OTHER);
    check_says("MPI_Win_create cannot be called inside part 3");
    CHECK(MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) ==
          MPI_ERR_OTHER);
    check_says("MPI_File_open");
    CHECK(MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &comm,
                         MPI_ERRCODES_IGNORE) == MPI_ERR_OTHER);
    check_says("MPI_Comm_spawn");
    CHECK(VELOC_Part_end(3) == 0);
    CHECK(VELOC_Part_free(3) == 0);
    CHECK(MPI_Win_create(&memory, 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS);
    MPI_Win_free(&window);
    check_empty();
}

static void wrong_order(void) {
    CHECK(VELOC_Part_begin(1, 64) == -1);
    check_says("unknown flags");
    CHECK(VELOC_Part_begin(1, 0) == 0 && VELOC_Part_begin(2, 0) == 0);
    CHECK(VELOC_Part_end(1) == -1);
    check_says("part 1 ends but is not the innermost open part: part 2 is");
    CHECK(VELOC_Part_replay_begin(1) == -1);
    check_says("it is still open");
    CHECK(VELOC_Part_replay_end(2) == -1);
    CHECK(VELOC_Part_free(1) == -1);
    CHECK(VELOC_Part_end(2) == 0 && VELOC_Part_end(1) == 0);
    CHECK(VELOC_Part_free(1) == 0 && VELOC_Part_free(2) == 0 && VELOC_Part_free(2) == -1);
    check_empty();
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "threads") == 0) {
        int level;
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
        CHECK(level < MPI_THREAD_MULTIPLE || VELOC_Part_begin(1, 0) == -1);
        if (level == MPI_THREAD_MULTIPLE) {
            check_says("MPI_THREAD_MULTIPLE");
        }
    } else {
        CHECK(VELOC_Part_begin(1, 0) == -1);
        check_says("before MPI_Init");
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        divergences();
        other_request();
        failed_call();
        refused();
        wrong_order();
    }
    MPI_Finalize();
    return 0;
}
