/*
 * The programs of the figures of "On the correct application of AD checkpointing to adjoint
 * MPI-parallel programs" (Taftaf and Hascoet), for two processes: made of what the paper's text says
 * of its pictures.
 *
 * figures                    all of them, in all ways
 * figures figure=3a|3b|3c|3c-receive|6a|6b|8|10 [synchronous=1] [snapshot_has_requests=1] [known=0]
 *
 * Without the library each fails: it waits for ever or, which is worse, has a wrong value, which is
 * what `synchronous` decides. With `known=0` nested parts are seen first when the outer is replayed.
 */
#include "messages.h"

struct figure {
    const char *name;
    struct step steps[2][16];
    /* Whether a message is to be sent again, if the first run knows of its part; -1: either. */
    int resends;
};

/* The tags of messages, which are their slots, too. */
enum { A = 1, B, C };

#define COMPUTE(constant) {COMPUTE, (constant), 0, 0}
#define MESSAGE(kind, peer, message) {kind, (peer), (message), (message)}
#define STOP {STOP, 0, 0, 0}

/* Two parts, nested. The outer one is not right-tight: the first process receives C behind it. The
 * inner one is: only A's wait, which is outside, needs what is inside. B is sent and received in it. */
#define TWO_PARTS(outer, inner) \
    {{COMPUTE(1), PART_BEGIN(1, outer), COMPUTE(2), MESSAGE(ISEND, 1, A), PART_BEGIN(2, inner), \
      COMPUTE(3), MESSAGE(SEND, 1, B), COMPUTE(4), PART_END, COMPUTE(5), MESSAGE(WAIT_SEND, 1, A), \
      PART_END, COMPUTE(6), MESSAGE(RECV, 1, C), COMPUTE(7), STOP}, \
     {COMPUTE(8), PART_BEGIN(1, outer), COMPUTE(9), PART_BEGIN(2, inner), COMPUTE(10), \
      MESSAGE(RECV, 0, B), COMPUTE(11), MESSAGE(RECV, 0, A), COMPUTE(12), PART_END, COMPUTE(13), \
      MESSAGE(SEND, 0, C), PART_END, COMPUTE(14), STOP}}

static const struct figure all_figures[] = {
    /* The part has a send, whose receive is behind it. */
    {"3a",
     {{COMPUTE(1), PART_BEGIN(1, 0), COMPUTE(2), MESSAGE(SEND, 1, A), COMPUTE(3), PART_END,
       COMPUTE(4), STOP},
      {COMPUTE(5), PART_BEGIN(1, 0), COMPUTE(6), PART_END, MESSAGE(RECV, 0, A), COMPUTE(7), STOP}},
     0},
    /* The part has a receive, whose send is before it. */
    {"3b",
     {{COMPUTE(1), MESSAGE(SEND, 1, A), PART_BEGIN(1, 0), COMPUTE(2), PART_END, COMPUTE(3), STOP},
      {COMPUTE(4), PART_BEGIN(1, 0), COMPUTE(5), MESSAGE(RECV, 0, A), COMPUTE(6), PART_END,
       COMPUTE(7), STOP}},
     0},
    /* The part has a wait, whose isend is before it. */
    {"3c",
     {{COMPUTE(1), MESSAGE(ISEND, 1, A), PART_BEGIN(1, 0), COMPUTE(2), MESSAGE(WAIT_SEND, 1, A),
       COMPUTE(3), PART_END, COMPUTE(4), STOP},
      {COMPUTE(5), MESSAGE(RECV, 0, A), PART_BEGIN(1, 0), COMPUTE(6), PART_END, COMPUTE(7), STOP}},
     0},
    /* The same of an irecv, whose wait brings a value. Behind the part its memory has another. */
    {"3c-receive",
     {{COMPUTE(1), MESSAGE(IRECV, 1, A), PART_BEGIN(1, 0), COMPUTE(2), MESSAGE(WAIT_RECV, 1, A),
       COMPUTE(3), PART_END, MESSAGE(IRECV, 1, A), COMPUTE(4), MESSAGE(WAIT_RECV, 1, A), STOP},
      {COMPUTE(5), MESSAGE(SEND, 0, A), PART_BEGIN(1, 0), COMPUTE(6), PART_END, COMPUTE(7),
       MESSAGE(SEND, 0, A), STOP}},
     0},
    {"6a", TWO_PARTS(0, 0), 0},
    /* B may be sent again by the inner part. */
    {"6b", TWO_PARTS(0, VELOC_PART_RESEND), 1},
    /* B must not be sent again by the outer one: the first process waits for C's adjoint to be taken,
     * and the second for B. */
    {"8", TWO_PARTS(VELOC_PART_RESEND, 0), 0},
    /* Not right-tight either, though nothing would wait if B were sent again. */
    {"10",
     {{COMPUTE(1), PART_BEGIN(1, VELOC_PART_RESEND), COMPUTE(2), MESSAGE(SEND, 1, B), COMPUTE(3),
       MESSAGE(ISEND, 1, A), PART_END, COMPUTE(4), MESSAGE(WAIT_SEND, 1, A), MESSAGE(SEND, 1, C),
       COMPUTE(5), STOP},
      {COMPUTE(6), PART_BEGIN(1, VELOC_PART_RESEND), COMPUTE(7), MESSAGE(IRECV, 0, C),
       MESSAGE(RECV, 0, B), COMPUTE(8), PART_END, MESSAGE(RECV, 0, A), COMPUTE(9),
       MESSAGE(WAIT_RECV, 0, C), STOP}},
     -1},
};

static void run(const struct figure *figure)
{
    long long own = (long long)logged().resent, resent;
    compare_gradients(figure->steps[rank]);
    own = (long long)logged().resent - own;
    MPI(MPI_Allreduce(&own, &resent, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    if (has_library() && figure->resends >= 0)
        /* What is decided is decided in the first run: a part that it does not have is logged. */
        EQUAL(resent > 0, figure->resends && nested_first);
}

static void run_in_all_ways(const struct figure *figure)
{
    check_gradient(figure->steps[rank]);
    for (synchronous = 0; synchronous < 2; synchronous++)
        for (snapshot_has_requests = 0; snapshot_has_requests < 2; snapshot_has_requests++)
            for (nested_first = 0; nested_first < 2; nested_first++)
                run(figure);
}

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "figure", NULL);
    size_t i;
    begin_program(&argc, &argv);
    EQUAL(ranks, 2);
    synchronous = (int)number(argc, argv, "synchronous", 0);
    snapshot_has_requests = (int)number(argc, argv, "snapshot_has_requests", 0);
    nested_first = (int)number(argc, argv, "known", 1);
    for (i = 0; i < sizeof all_figures / sizeof *all_figures; i++)
        if (name == NULL)
            run_in_all_ways(&all_figures[i]);
        else if (strcmp(name, all_figures[i].name) == 0)
            run(&all_figures[i]);
    return end_program();
}
