/*
 * Adjoint programs made of point-to-point messages. The state of a process is a number; a message is
 * made of it, and what is received changes it, so that a single wrong message shows in all gradients.
 *
 * The objective is half the sum of the squares of all final states. Its gradient, by the initial
 * states, is computed with all of the forward sweep on the tape, by finite differences, and with
 * checkpointed parts, in iterations of a descent: a message that is left over from one of them is
 * received in the next.
 */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "adjoint.h"

#include <math.h>

/* SENDs and RECVs: the peer, the slot of the buffer and request, the tag. WAITs: the slot. */
enum { COMPUTE, SEND, RECV, RECV_ANY, ISEND, IRECV, WAIT_SEND, WAIT_RECV };

enum { SLOTS = 64, LENGTH = 5, ITERATIONS = 2 };

static double state, adjoint;
static double buffer[SLOTS][LENGTH], adjoint_buffer[SLOTS][LENGTH];
static MPI_Request request[SLOTS], adjoint_request[SLOTS];
static int peer_of[SLOTS], tag_of[SLOTS];

/* Whether a send waits for its receive. */
static int synchronous;
/* Whether a snapshot has the requests, too: then a replay waits for handles that are no more. */
static int snapshot_has_requests;
/* Whether the adjoint of a message has a tag of its own. */
static int own_adjoint_tags;

static int adjoint_tag(int slot)
{
    return own_adjoint_tags ? 1000 + slot : tag_of[slot];
}

static void make_message(double *message)
{
    int i;
    for (i = 0; i < LENGTH; i++)
        message[i] = state * (i + 1) / LENGTH;
}

static double weight(const double *message)
{
    double sum = 0;
    int i;
    for (i = 0; i < LENGTH; i++)
        sum += message[i] * (2 * i + 1) / (LENGTH * LENGTH);
    return sum;
}

static void take_message(const double *message, int taped)
{
    double sum = weight(message);
    if (taped)
        push(&sum, sizeof sum);
    state += 0.7 * sin(sum);
}

static void make_adjoint(double *message)
{
    double sum;
    int i;
    pop(&sum, sizeof sum);
    for (i = 0; i < LENGTH; i++)
        message[i] = 0.7 * cos(sum) * adjoint * (2 * i + 1) / (LENGTH * LENGTH);
}

static void take_adjoint(const double *message)
{
    int i;
    for (i = 0; i < LENGTH; i++)
        adjoint += message[i] * (i + 1) / LENGTH;
}

static void send_now(double *message, int peer, int tag)
{
    if (synchronous)
        MPI(MPI_Ssend(message, LENGTH, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD));
    else
        MPI(MPI_Send(message, LENGTH, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD));
}

static void start_send(double *message, int peer, int tag, MPI_Request *started)
{
    if (synchronous)
        MPI(MPI_Issend(message, LENGTH, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, started));
    else
        MPI(MPI_Isend(message, LENGTH, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, started));
}

static void forward_step(const struct step *step, int taped)
{
    int slot = step->b;
    double *message = buffer[slot];
    MPI_Status status;
    if (step->kind <= IRECV && step->kind != COMPUTE) {
        peer_of[slot] = step->a;
        tag_of[slot] = step->c;
    }
    switch (step->kind) {
    case COMPUTE:
        if (taped)
            push(&state, sizeof state);
        state += 0.5 * sin(1.3 * state + 0.1 * step->a);
        break;
    case SEND:
        make_message(message);
        send_now(message, step->a, step->c);
        break;
    case ISEND:
        make_message(message);
        start_send(message, step->a, step->c, &request[slot]);
        break;
    case RECV:
    case RECV_ANY:
        MPI(MPI_Recv(message, LENGTH, MPI_DOUBLE, step->kind == RECV ? step->a : MPI_ANY_SOURCE,
                     step->c, MPI_COMM_WORLD, &status));
        EQUAL(status.MPI_SOURCE, step->a);
        EQUAL(status.MPI_TAG, step->c);
        take_message(message, taped);
        break;
    case IRECV:
        memset(message, 0, sizeof buffer[slot]);
        MPI(MPI_Irecv(message, LENGTH, MPI_DOUBLE, step->a, step->c, MPI_COMM_WORLD,
                      &request[slot]));
        CHECK(request[slot] != MPI_REQUEST_NULL);
        break;
    case WAIT_SEND:
        MPI(MPI_Wait(&request[slot], MPI_STATUS_IGNORE));
        CHECK(request[slot] == MPI_REQUEST_NULL);
        break;
    case WAIT_RECV:
        MPI(MPI_Wait(&request[slot], &status));
        CHECK(request[slot] == MPI_REQUEST_NULL);
        EQUAL(status.MPI_SOURCE, peer_of[slot]);
        take_message(message, taped);
        break;
    }
}

static void backward_step(const struct step *step)
{
    int slot = step->b;
    double *message = adjoint_buffer[slot];
    double before;
    switch (step->kind) {
    case COMPUTE:
        pop(&before, sizeof before);
        adjoint *= 1 + 0.5 * 1.3 * cos(1.3 * before + 0.1 * step->a);
        break;
    case SEND:
        MPI(MPI_Recv(message, LENGTH, MPI_DOUBLE, step->a, adjoint_tag(slot), MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
        take_adjoint(message);
        break;
    case WAIT_SEND:
        MPI(MPI_Irecv(message, LENGTH, MPI_DOUBLE, peer_of[slot], adjoint_tag(slot), MPI_COMM_WORLD,
                      &adjoint_request[slot]));
        break;
    case ISEND:
        MPI(MPI_Wait(&adjoint_request[slot], MPI_STATUS_IGNORE));
        take_adjoint(message);
        break;
    case RECV:
    case RECV_ANY:
        make_adjoint(message);
        send_now(message, step->a, adjoint_tag(slot));
        break;
    case WAIT_RECV:
        make_adjoint(message);
        start_send(message, peer_of[slot], adjoint_tag(slot), &adjoint_request[slot]);
        break;
    case IRECV:
        MPI(MPI_Wait(&adjoint_request[slot], MPI_STATUS_IGNORE));
        break;
    }
}

static void take_snapshot(void)
{
    push(&state, sizeof state);
    push(request, sizeof request);
}

static void restore_snapshot(void)
{
    MPI_Request then[SLOTS];
    pop(then, sizeof then);
    if (snapshot_has_requests)
        memcpy(request, then, sizeof request);
    pop(&state, sizeof state);
}

/* ---- gradients ---- */

static double gradient(const struct step *steps, double initial)
{
    const struct step *stop = stop_of(steps);
    state = initial;
    tape_length = 0;
    sweep_forward(steps, stop);
    adjoint = state;
    sweep_backward(steps, stop);
    EQUAL(tape_length, 0);
    return adjoint;
}

static double objective(const struct step *steps, double initial)
{
    double own, all;
    state = initial;
    tape_length = 0;
    sweep_forward(steps, stop_of(steps));
    own = state * state / 2;
    MPI(MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

static double initial_state(void)
{
    return 0.4 + 0.3 * rank;
}

/* That the adjoint program is one: without parts, against central differences. */
static void check_gradient(const struct step *steps)
{
    double h = 1e-5;
    double own;
    int process;
    checkpointed = 0;
    own = gradient(steps, initial_state());
    for (process = 0; process < ranks; process++) {
        double plus = objective(steps, initial_state() + (process == rank ? h : 0));
        double minus = objective(steps, initial_state() - (process == rank ? h : 0));
        double error = (plus - minus) / (2 * h) - own;
        if (process == rank)
            CHECK(error * error <= 1e-12 * (1 + own * own));
    }
}

/* The gradients of all iterations: with parts they are what they are without, to the last bit. */
static void compare_gradients(const struct step *steps)
{
    double wanted[ITERATIONS];
    double initial;
    int iteration;
    for (iteration = 0; iteration < SLOTS; iteration++)
        request[iteration] = adjoint_request[iteration] = MPI_REQUEST_NULL;
    checkpointed = 0;
    for (initial = initial_state(), iteration = 0; iteration < ITERATIONS; iteration++) {
        wanted[iteration] = gradient(steps, initial);
        initial -= 0.05 * wanted[iteration];
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    checkpointed = 1;
    for (initial = initial_state(), iteration = 0; iteration < ITERATIONS; iteration++) {
        double got = gradient(steps, initial);
        SAME(got, wanted[iteration]);
        initial -= 0.05 * got;
        EMPTY_LOG();
    }
}

#endif
