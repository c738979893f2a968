/*
 * An adjoint program with checkpointed parts, nested as deep as one likes: a list of steps, in which
 * a part begins and ends like a bracket.
 *
 * The program says what a step does forward and backward, and what its state is. A step that is run
 * to be reversed pushes on the tape what its adjoint needs. A part is run without a tape, behind a
 * snapshot; the backward sweep goes back to the snapshot, replays the part with a tape, and reverses
 * that.
 */
#ifndef ADJOINT_H
#define ADJOINT_H

#include "parts.h"

struct step {
    int kind;   /* BEGIN, END, STOP, or what the program makes of it */
    int a, b, c;
};

enum { STOP = -1, BEGIN = -2, END = -3 };

/* A part's identifier is the depth of its nesting, its flags are those of the BEGIN. */
#define PART_BEGIN(id, flags) {BEGIN, (id), (flags), 0}
#define PART_END {END, 0, 0, 0}

/* What the program defines. */
static void forward_step(const struct step *step, int taped);
static void backward_step(const struct step *step);
static void take_snapshot(void);
static void restore_snapshot(void);

/* ---- the tape ---- */

enum { TAPE = 1 << 20 };

static unsigned char tape[TAPE];
static size_t tape_length;

static inline void push(const void *bytes, size_t length)
{
    CHECK(tape_length + length <= TAPE);
    memcpy(tape + tape_length, bytes, length);
    tape_length += length;
}

static inline void pop(void *bytes, size_t length)
{
    CHECK(tape_length >= length);
    tape_length -= length;
    memcpy(bytes, tape + tape_length, length);
}

/* ---- the sweeps ---- */

/* Whether parts are checkpointed, or all of the forward sweep is on the tape. */
static int checkpointed;
/* Whether a part that is run without a tape says where the parts within it are. Otherwise these are
 * first seen when it is replayed. */
static int nested_first = 1;

static inline const struct step *end_of(const struct step *begin)
{
    int depth = 0;
    do {
        depth += (begin->kind == BEGIN) - (begin->kind == END);
        if (depth > 0)
            begin++;
    } while (depth > 0);
    return begin;
}

static inline const struct step *begin_of(const struct step *end)
{
    int depth = 0;
    do {
        depth += (end->kind == END) - (end->kind == BEGIN);
        if (depth > 0)
            end--;
    } while (depth > 0);
    return end;
}

static inline void run_untaped(const struct step *from, const struct step *to)
{
    for (; from < to; from++) {
        if (from->kind == BEGIN || from->kind == END) {
            if (!nested_first)
                continue;
            if (from->kind == BEGIN)
                part_begin(from->a, from->b);
            else
                part_end(begin_of(from)->a);
        } else {
            forward_step(from, 0);
        }
    }
}

static inline void sweep_forward(const struct step *from, const struct step *to)
{
    for (; from < to; from++) {
        if (from->kind == BEGIN && checkpointed) {
            const struct step *end = end_of(from);
            take_snapshot();
            part_begin(from->a, from->b);
            run_untaped(from + 1, end);
            part_end(from->a);
            from = end;
        } else if (from->kind != BEGIN && from->kind != END) {
            forward_step(from, 1);
        }
    }
}

static inline void sweep_backward(const struct step *from, const struct step *to)
{
    while (to-- > from) {
        if (to->kind == END && checkpointed) {
            const struct step *begin = begin_of(to);
            restore_snapshot();
            replay_begin(begin->a);
            sweep_forward(begin + 1, to);
            replay_end(begin->a);
            sweep_backward(begin + 1, to);
            to = begin;
        } else if (to->kind != BEGIN && to->kind != END) {
            backward_step(to);
        }
    }
}

static inline const struct step *stop_of(const struct step *steps)
{
    while (steps->kind != STOP)
        steps++;
    return steps;
}

#endif
