/*
 * What the library notes for each call, when there is no memory for it: nothing may end the process,
 * or give a replay wrong values. Runs with `preload/starve.c`, which refuses the memory.
 */
#define _GNU_SOURCE
#include "parts.h"

#include <dlfcn.h>

enum { MANY = 300, LEAST = 1024 };

static void (*starve)(size_t);
static long (*starved)(void);
static MPI_Comm comm;
static int handled;
static int got[MANY];
static MPI_Request requests[MANY];
static MPI_Status statuses[MANY];

static void handler(MPI_Comm *on, int *code, ...)
{
    (void)on;
    (void)code;
    handled++;
}

/* From here on the library gets no more memory; `plenty`: the calls between were to want some. */
static void scarce(size_t least)
{
    handled = 0;
    starve(least);
}

static void check_plenty(int line)
{
    check_equal(__FILE__, line, "requests for memory were refused", starved() > 0, 1);
    starve(0);
}

#define PLENTY() check_plenty(__LINE__)

static void send_all(int count, int tag)
{
    int i;
    for (i = 0; i < count; i++) {
        int value = 1000 * tag + i;
        MPI(MPI_Send(&value, 1, MPI_INT, 1, tag, comm));
    }
}

static void begin_all(int count, int tag)
{
    int i;
    for (i = 0; i < count; i++) {
        got[i] = -1;
        MPI(MPI_Irecv(&got[i], 1, MPI_INT, 0, tag, comm, &requests[i]));
    }
}

static void check_all(int count, int tag)
{
    int i;
    for (i = 0; i < count; i++)
        EQUAL(got[i], 1000 * tag + i);
}

static int receive(int tag, int i)
{
    int value = -1;
    int code = MPI_Recv(&value, 1, MPI_INT, 0, tag, comm, MPI_STATUS_IGNORE);
    EQUAL(value, 1000 * tag + i);
    return code;
}

/* A part that is recorded and replayed when there is memory again. */
static void goes_on(int id, int tag)
{
    int i;
    for (i = 0; i < 2; i++) {
        if (i == 0)
            part_begin(id, 0);
        else
            replay_begin(id);
        begin_all(20, tag);
        MPI(MPI_Waitall(20, requests, MPI_STATUSES_IGNORE));
        check_all(20, tag);
        if (i == 0)
            part_end(id);
        else
            replay_end(id);
    }
}

/* The events themselves. One call fails, and says so; what it has received is there. */
static void events(void)
{
    int i, failures = 0;
    if (rank == 0) {
        send_all(1, 1);
        send_all(MANY, 2);
        send_all(20, 3);
        return;
    }
    part_begin(1, 0);
    part_begin(2, 0);
    MPI(receive(1, 0));
    part_end(2);
    scarce(LEAST);
    for (i = 0; i < MANY; i++)
        failures += receive(2, i) != MPI_SUCCESS;
    PLENTY();
    EQUAL(failures, 1);
    EQUAL(handled, 1);
    check_words(__FILE__, __LINE__, "the error", "memory|MPI_Recv|cannot be replayed");
    goes_on(3, 3);
    part_end(1);
    REFUSED(VELOC_Part_replay_begin(1), "part 1 cannot be replayed|memory");
    replay_begin(2);
    MPI(receive(1, 0));
    replay_end(2);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* Requests that are begun before a part where there is no memory for them: a part that completes them
 * cannot be replayed. One call says so. */
static void before(void)
{
    if (rank == 0) {
        send_all(MANY, 4);
        send_all(20, 5);
        return;
    }
    scarce(LEAST);
    begin_all(MANY, 4);
    PLENTY();
    EQUAL(handled, 0);
    part_begin(1, 0);
    CHECK(MPI_Waitall(MANY, requests, statuses) != MPI_SUCCESS);
    EQUAL(handled, 1);
    check_words(__FILE__, __LINE__, "the error", "memory|cannot be replayed");
    check_all(MANY, 4);
    part_end(1);
    REFUSED(VELOC_Part_replay_begin(1), "part 1 cannot be replayed|memory");
    PART(VELOC_Part_free(1));
    goes_on(2, 5);
    EMPTY_LOG();
}

/* Such that are begun within it: the call fails before it has begun anything, and when there is memory
 * again all goes on. */
static void inside(void)
{
    int i, begun;
    if (rank == 0) {
        send_all(MANY, 4);
        return;
    }
    part_begin(1, 0);
    scarce(LEAST);
    for (begun = 0; begun < MANY; begun++)
        if (MPI_Irecv(&got[begun], 1, MPI_INT, 0, 4, comm, &requests[begun]) != MPI_SUCCESS)
            break;
    CHECK(begun < MANY);
    EQUAL(handled, 1);
    check_words(__FILE__, __LINE__, "the error", "MPI_Irecv|memory|done nothing");
    PLENTY();
    for (i = begun; i < MANY; i++)
        MPI(MPI_Irecv(&got[i], 1, MPI_INT, 0, 4, comm, &requests[i]));
    MPI(MPI_Waitall(MANY, requests, statuses));
    check_all(MANY, 4);
    part_end(1);
    replay_begin(1);
    begin_all(MANY, 4);
    MPI(MPI_Waitall(MANY, requests, statuses));
    check_all(MANY, 4);
    replay_end(1);
    EMPTY_LOG();
}

/* The calls that begin something, or take something that nobody else gets then. */
enum {
    IRECV,
    ISEND,
    RECV_INIT,
    START,
    STARTALL,
    IBCAST,
    MPROBE,
    IMPROBE,
    IMRECV,
    KINDS
};

static const char *const names[KINDS] = {"MPI_Irecv",  "MPI_Isend",  "MPI_Recv_init",
                                         "MPI_Start",  "MPI_Startall", "MPI_Ibcast",
                                         "MPI_Mprobe", "MPI_Improbe", "MPI_Imrecv"};
static int filled, attempt, taken;
static MPI_Message message;

/* Calls in a part until no more can be noted; in its replay as many. */
static void fill(int replays)
{
    int i, flag, code = MPI_SUCCESS;
    if (!replays)
        scarce(LEAST);
    for (i = 0; code == MPI_SUCCESS && !(replays && i == filled); i++)
        /* No two are the same poll. */
        code = MPI_Iprobe(0, 1000 + i % 2, comm, &flag, MPI_STATUS_IGNORE);
    EQUAL(code != MPI_SUCCESS, !replays);
    if (!replays)
        filled = i - 1;
    handled = 0;
}

/* What goes before. */
static void prepare(int kind)
{
    if (kind == START || kind == STARTALL) {
        MPI(MPI_Recv_init(&taken, 1, MPI_INT, 0, kind, comm, &requests[0]));
        MPI(MPI_Send_init(&attempt, 1, MPI_INT, 0, kind, comm, &requests[1]));
    }
    if (kind == IMRECV)
        MPI(MPI_Mprobe(0, kind, comm, &message, MPI_STATUS_IGNORE));
}

/* The call itself. */
static int post(int kind)
{
    int code, flag = 0;
    attempt++;
    switch (kind) {
    case IRECV:
        return MPI_Irecv(&taken, 1, MPI_INT, 0, kind, comm, &requests[0]);
    case ISEND:
        return MPI_Isend(&attempt, 1, MPI_INT, 0, kind, comm, &requests[0]);
    case RECV_INIT:
        return MPI_Recv_init(&taken, 1, MPI_INT, 0, kind, comm, &requests[0]);
    case START:
        return MPI_Start(&requests[0]);
    case STARTALL:
        return MPI_Startall(2, requests);
    case IBCAST:
        return MPI_Ibcast(&taken, 1, MPI_INT, 0, comm, &requests[0]);
    case MPROBE:
        return MPI_Mprobe(0, kind, comm, &message, MPI_STATUS_IGNORE);
    case IMPROBE:
        do
            code = MPI_Improbe(0, kind, comm, &flag, &message, MPI_STATUS_IGNORE);
        while (code == MPI_SUCCESS && !flag);
        return code;
    default:
        return MPI_Imrecv(&taken, 1, MPI_INT, &message, &requests[0]);
    }
}

static int receives(int kind)
{
    return kind != ISEND;
}

/* What comes of it, and the same again: had the call that failed begun something, this would be another
 * message's. */
static void finish(int kind)
{
    if (kind == RECV_INIT)
        MPI(MPI_Start(&requests[0]));
    if (kind == MPROBE || kind == IMPROBE)
        MPI(MPI_Mrecv(&taken, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    else
        MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    if (kind == STARTALL)
        MPI(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    if (kind == RECV_INIT || kind == START || kind == STARTALL)
        MPI(MPI_Request_free(&requests[0]));
    if (kind == START || kind == STARTALL)
        MPI(MPI_Request_free(&requests[1]));
    if (receives(kind))
        EQUAL(taken, 1);
    if (kind == IBCAST) {
        MPI(MPI_Ibcast(&taken, 1, MPI_INT, 0, comm, &requests[0]));
        MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    } else if (receives(kind)) {
        MPI(MPI_Recv(&taken, 1, MPI_INT, 0, kind, comm, MPI_STATUS_IGNORE));
    }
    if (receives(kind))
        EQUAL(taken, 2);
}

/* The other process. */
static void help(int kind)
{
    int value, got_one = 0;
    MPI_Request request;
    for (value = 1; value <= 2 && receives(kind); value++) {
        if (kind == IBCAST) {
            MPI(MPI_Ibcast(&value, 1, MPI_INT, 0, comm, &request));
            MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MPI(MPI_Send(&value, 1, MPI_INT, 1, kind, comm));
        }
    }
    if (kind == ISEND || kind == STARTALL) {
        MPI(MPI_Recv(&got_one, 1, MPI_INT, 1, kind, comm, MPI_STATUS_IGNORE));
        /* That of the second call. */
        EQUAL(got_one, 2);
    }
}

/* Each of them fails where it cannot be noted, and has done nothing: it can be called again, and the part
 * be replayed. */
static void posting(void)
{
    int kind, replays;
    char words[100];
    if (rank == 1)
        begin_all(1, 50);
    if (rank == 0)
        send_all(1, 50);
    if (rank == 1)
        MPI(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    for (kind = 0; kind < KINDS; kind++) {
        if (rank == 0) {
            help(kind);
            continue;
        }
        for (replays = 0; replays < 2; replays++) {
            taken = -1;
            attempt = 0;
            replays ? replay_begin(1) : part_begin(1, 0);
            prepare(kind);
            fill(replays);
            if (!replays) {
                CHECK(post(kind) != MPI_SUCCESS);
                PLENTY();
                EQUAL(handled, 1);
                snprintf(words, sizeof words, "%s|memory|done nothing", names[kind]);
                check_words(__FILE__, __LINE__, "the error", words);
            }
            MPI(post(kind));
            finish(kind);
            replays ? replay_end(1) : part_end(1);
        }
        EMPTY_LOG();
    }
}

/* Such that are completed outside parts are nobody's loss. */
static void outside(void)
{
    if (rank == 0) {
        send_all(MANY, 6);
        send_all(MANY, 7);
        send_all(20, 8);
        return;
    }
    scarce(LEAST);
    begin_all(MANY, 6);
    PLENTY();
    MPI(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    check_all(MANY, 6);
    /* A call that cannot be noted has done nothing. */
    begin_all(MANY, 7);
    scarce(LEAST);
    CHECK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    PLENTY();
    EQUAL(handled, 1);
    check_words(__FILE__, __LINE__, "the error", "MPI_Waitall|memory|300 requests");
    MPI(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    check_all(MANY, 7);
    goes_on(1, 8);
    EMPTY_LOG();
}

/* The results of a call that completes many. */
static void results(void)
{
    if (rank == 0) {
        send_all(MANY, 9);
        send_all(MANY, 10);
        return;
    }
    part_begin(1, 0);
    begin_all(MANY, 9);
    /* Before it has done anything: as if it had not been called. */
    scarce(LEAST);
    CHECK(MPI_Waitall(MANY, requests, statuses) != MPI_SUCCESS);
    PLENTY();
    MPI(MPI_Waitall(MANY, requests, statuses));
    check_all(MANY, 9);
    part_end(1);
    replay_begin(1);
    begin_all(MANY, 9);
    /* The replay is over, and nothing was written. */
    scarce(LEAST);
    CHECK(MPI_Waitall(MANY, requests, statuses) != MPI_SUCCESS);
    PLENTY();
    EQUAL(got[0], -1);
    REFUSED(VELOC_Part_replay_end(1), "memory");
    PART(VELOC_Part_free(1));
    EMPTY_LOG();

    part_begin(1, 0);
    begin_all(MANY, 10);
    scarce(16 * LEAST);
    CHECK(MPI_Waitall(MANY, requests, statuses) != MPI_SUCCESS);
    PLENTY();
    EQUAL(handled, 1);
    check_words(__FILE__, __LINE__, "the error", "memory|300 results|MPI_Waitall|cannot be replayed");
    check_all(MANY, 10);
    part_end(1);
    REFUSED(VELOC_Part_replay_begin(1), "part 1 cannot be replayed|memory");
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* Parts, open and logged. */
static void borders(void)
{
    int open = 0;
    if (rank == 0)
        return;
    scarce(LEAST);
    while (open < MANY && VELOC_Part_begin(open, 0) == 0)
        open++;
    CHECK(open < MANY);
    check_words(__FILE__, __LINE__, "the error", "VELOC_Part_begin|memory");
    PLENTY();
    part_begin(open, 0);
    for (; open >= 0; open--)
        part_end(open);
    for (open = 0; VELOC_Part_free(open) == 0; open++)
        continue;
    EMPTY_LOG();
}

/* Types that are freed and kept for a replay. */
static void types(void)
{
    MPI_Datatype type[MANY];
    int i, failures = 0;
    if (rank == 0)
        return;
    for (i = 0; i < MANY; i++) {
        MPI(MPI_Type_contiguous(2, MPI_INT, &type[i]));
        MPI(MPI_Type_commit(&type[i]));
    }
    part_begin(1, 0);
    part_end(1);
    scarce(LEAST);
    for (i = 0; i < MANY; i++)
        failures += MPI_Type_free(&type[i]) != MPI_SUCCESS;
    PLENTY();
    CHECK(failures > 0 && failures < MANY);
    check_words(__FILE__, __LINE__, "the error", "MPI_Type_free|memory");
    for (i = 0; i < MANY; i++)
        if (type[i] != MPI_DATATYPE_NULL) {
            failures--;
            MPI(MPI_Type_free(&type[i]));
        }
    EQUAL(failures, 0);
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
}

/* Communicators of one process, so that nobody waits for one that is not made. */
static void comms(void)
{
    MPI_Comm made[MANY];
    MPI_Datatype type[MANY];
    int i, failures, part;
    for (part = 0; part < 2; part++) {
        failures = 0;
        if (part)
            part_begin(1, 0);
        scarce(LEAST);
        for (i = 0; i < MANY; i++)
            if (MPI_Comm_dup(MPI_COMM_SELF, &made[i]) != MPI_SUCCESS) {
                check_words(__FILE__, __LINE__, "the error", "MPI_Comm_dup|done nothing");
                made[i] = MPI_COMM_NULL;
                failures++;
            }
        PLENTY();
        /* Within a part the first one wants memory already. */
        CHECK(failures > 0 && (part || failures < MANY));
        for (i = 0; i < MANY; i++)
            if (made[i] != MPI_COMM_NULL)
                MPI(MPI_Comm_free(&made[i]));
        if (part)
            part_end(1);
    }
    PART(VELOC_Part_free(1));
    EMPTY_LOG();
    /* Of types nothing has to be known. */
    scarce(LEAST);
    for (i = 0; i < MANY; i++) {
        MPI(MPI_Type_contiguous(2, MPI_INT, &type[i]));
        MPI(MPI_Type_commit(&type[i]));
    }
    PLENTY();
    for (i = 0; i < MANY; i++)
        MPI(MPI_Type_free(&type[i]));
}

static void sent_or_received(void)
{
    if (rank == 0)
        send_all(1, 99);
    else
        MPI(receive(99, 0));
}

/* A part whose messages may be sent again. How many bytes the sender has sent again since. */
static unsigned long long resent(int id)
{
    unsigned long long before = logged().resent;
    part_begin(id, VELOC_PART_RESEND);
    sent_or_received();
    part_end(id);
    replay_begin(id);
    sent_or_received();
    replay_end(id);
    EMPTY_LOG();
    return logged().resent - before;
}

/* Messages that are counted: of what there was no memory to count nothing is sent again, from there
 * on. */
static void streams(void)
{
    int i;
    EQUAL(resent(1), rank == 0 ? sizeof(int) : 0);
    if (rank == 1)
        scarce(LEAST);
    for (i = 0; i < MANY; i++) {
        if (rank == 0)
            send_all(1, 100 + i);
        else
            MPI(receive(100 + i, 0));
    }
    if (rank == 1)
        PLENTY();
    EQUAL(handled, 0);
    EQUAL(resent(2), 0);
}

int main(int argc, char **argv)
{
    MPI_Errhandler own;
    const char *which;
    begin_program(&argc, &argv);
    which = option(argc, argv, "case", "");
    *(void **)&starve = dlsym(RTLD_DEFAULT, "starve");
    *(void **)&starved = dlsym(RTLD_DEFAULT, "starved");
    CHECK(starve != NULL && starved != NULL);
    MPI(MPI_Comm_create_errhandler(handler, &own));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own));
    MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, own));
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI(MPI_Comm_set_errhandler(comm, own));
    MPI(MPI_Errhandler_free(&own));
    if (strcmp(which, "events") == 0)
        events();
    else if (strcmp(which, "before") == 0)
        before();
    else if (strcmp(which, "inside") == 0)
        inside();
    else if (strcmp(which, "posting") == 0)
        posting();
    else if (strcmp(which, "outside") == 0)
        outside();
    else if (strcmp(which, "results") == 0)
        results();
    else if (strcmp(which, "borders") == 0)
        borders();
    else if (strcmp(which, "types") == 0)
        types();
    else if (strcmp(which, "comms") == 0)
        comms();
    else if (strcmp(which, "streams") == 0)
        streams();
    else
        CHECK(!"a case");
    MPI(MPI_Comm_free(&comm));
    return end_program();
}
