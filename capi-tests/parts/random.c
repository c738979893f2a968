/*
 * A random adjoint program: messages of every kind, in an order that cannot deadlock, and parts that
 * begin and end wherever they like.
 *
 * random seed=N [seeds=M] [messages=K] [common=1]     M programs, from this one on
 *
 * With `common=1` all processes have the same parts, which may send messages again; otherwise each
 * has its own.
 */
#include "messages.h"

enum { MOST_STEPS = 400, MOST_BRACKETS = 100, DEPTH = 4 };

/* What is begun early comes before the send and the receive, and these before the waits. That is
 * one order for all processes, so nobody waits for what is behind what waits for it. */

static struct step steps[MOST_STEPS];
static int length;
static int begins[MOST_BRACKETS], ends[MOST_BRACKETS], depths[MOST_BRACKETS], brackets;
static uint64_t common_random, own_random;

static int random_below(uint64_t *state, int below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((*state >> 33) % (uint64_t)below);
}

/* Parts between two messages, and those within. */
static void make_brackets(uint64_t *state, int from, int to, int depth)
{
    while (from < to && depth <= DEPTH && brackets < MOST_BRACKETS) {
        int span = 1 + random_below(state, to - from);
        if (random_below(state, 4) > 0) {
            begins[brackets] = from;
            ends[brackets] = from + span;
            depths[brackets++] = depth;
            make_brackets(state, from, from + span, depth + 1);
        }
        from += span + random_below(state, 2);
    }
}

static void add(int kind, int a, int b, int c)
{
    CHECK(length < MOST_STEPS);
    steps[length].kind = kind;
    steps[length].a = a;
    steps[length].b = b;
    steps[length++].c = c;
}

/* The parts that end before this message, the innermost first, and those that begin, outermost first. */
static void add_brackets(int message, int flags)
{
    int depth, i;
    for (depth = DEPTH; depth > 0; depth--)
        for (i = 0; i < brackets; i++)
            if (depths[i] == depth && ends[i] == message)
                add(END, 0, 0, 0);
    for (depth = 1; depth <= DEPTH; depth++)
        for (i = 0; i < brackets; i++)
            if (depths[i] == depth && begins[i] == message)
                add(BEGIN, depth, flags, 0);
}

struct message {
    int from, to, tag, early, waited_by_sender, waited_by_receiver, any;
};

static void make_program(int messages, int common)
{
    struct message all[SLOTS];
    int flags = common ? VELOC_PART_RESEND : 0;
    int i, j;
    CHECK(messages < SLOTS);
    for (i = 0; i < messages; i++) {
        struct message *one = &all[i];
        one->from = random_below(&common_random, ranks);
        one->to = (one->from + 1 + random_below(&common_random, ranks - 1)) % ranks;
        one->early = one->waited_by_sender = one->waited_by_receiver = -1;
        one->any = random_below(&common_random, 4) == 0;
        if (random_below(&common_random, 2))
            one->waited_by_sender = i + random_below(&common_random, messages - i);
        if (random_below(&common_random, 2)) {
            one->early = i - random_below(&common_random, i + 1);
            one->waited_by_receiver = i + random_below(&common_random, messages - i);
            one->any = 0;
        }
        /* What is received in no order of its own has a tag of its own. */
        one->tag = one->early >= 0 || one->any ? 10 + i : random_below(&common_random, 2);
    }
    make_brackets(common ? &common_random : &own_random, 0, messages, 1);
    for (i = 0; i <= messages; i++) {
        add_brackets(i, flags);
        if (i == messages)
            break;
        if (random_below(&own_random, 2))
            add(COMPUTE, i, 0, 0);
        for (j = 0; j < messages; j++)
            if (all[j].to == rank && all[j].early == i)
                add(IRECV, all[j].from, j, all[j].tag);
        if (all[i].from == rank)
            add(all[i].waited_by_sender < 0 ? SEND : ISEND, all[i].to, i, all[i].tag);
        if (all[i].to == rank && all[i].early < 0)
            add(all[i].any ? RECV_ANY : RECV, all[i].from, i, all[i].tag);
        for (j = 0; j < messages; j++) {
            if (all[j].from == rank && all[j].waited_by_sender == i)
                add(WAIT_SEND, 0, j, 0);
            if (all[j].to == rank && all[j].waited_by_receiver == i)
                add(WAIT_RECV, 0, j, 0);
        }
    }
    add(STOP, 0, 0, 0);
}

int main(int argc, char **argv)
{
    long seed = number(argc, argv, "seed", 1);
    long seeds = number(argc, argv, "seeds", 1);
    int common = (int)number(argc, argv, "common", 0);
    int messages = (int)number(argc, argv, "messages", 24);
    own_adjoint_tags = 1;
    begin_program(&argc, &argv);
    for (seeds += seed; seed < seeds; seed++) {
        common_random = (uint64_t)seed * 77;
        own_random = (uint64_t)seed * 1000 + (uint64_t)rank;
        synchronous = seed % 2 == 1;
        snapshot_has_requests = seed / 2 % 2 == 1;
        nested_first = seed / 4 % 2 == 1;
        length = brackets = 0;
        make_program(messages, common);
        if (seed == number(argc, argv, "seed", 1))
            check_gradient(steps);
        compare_gradients(steps);
    }
    return end_program();
}
