#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct launch { uint32_t grid[3], block[3], shared_bytes, parameter_count; void **params; };
struct window { uint64_t start, size; unsigned char *at; uint64_t writable; };
struct place { uint32_t tid[3], ntid[3], ctaid[3], nctaid[3]; };
enum { WINDOWS = 16, VARIABLES = WINDOWS, LOCAL, SHARED, ALL_WINDOWS, LOCAL_BYTES = 64 << 10, DEEPEST_CALL = 100 };
/* What a thread leaves when it waits: the number of its barrier. Its registers are behind it. */
struct kept { unsigned at; };
enum { WAITS = 3, GONE = ~0u };
/* Behind the windows of device memory there are three that stay: variables, the thread's local memory, and the
   block's shared memory, whose addresses are those of this program, which no device memory has. */
struct run {
    struct window windows[ALL_WINDOWS];
    unsigned next, depth;
    uint64_t used;
    struct kept *kept;
    const uint64_t *shared_at;
    unsigned char local[LOCAL_BYTES] __attribute__((aligned(64)));
};
typedef int thread(struct run *, const struct place *, void **);

/* Set by the software device: the whole range around an address. 0: there is none. */
int (*softcuda_find_window)(uint64_t address, int writes, struct window *found);

static unsigned char *at(struct run *run, uint64_t address, uint64_t size, int writes)
{
    struct window *window;
    unsigned i;
    for (i = 0; i < ALL_WINDOWS; i++) {
        window = &run->windows[i];
        if (address - window->start < window->size && size <= window->size - (address - window->start)
            && window->writable >= (uint64_t)writes)
            return window->at + (address - window->start);
    }
    window = &run->windows[run->next++ % WINDOWS];
    window->size = 0;
    if (!softcuda_find_window(address, writes, window) || size > window->size - (address - window->start)) {
        window->size = 0;
        return NULL;
    }
    return window->at + (address - window->start);
}

static struct window window_at(unsigned char *bytes, uint64_t size)
{
    struct window window = {(uint64_t)(uintptr_t)bytes, size, bytes, 1};
    return window;
}
static struct window window_of_variables(void);

/* Room in local memory. NULL, and an illegal address, if there is none. */
static unsigned char *frame(struct run *run, uint64_t size)
{
    uint64_t start = (run->used + 63) & ~(uint64_t)63;
    if (size > LOCAL_BYTES || start > LOCAL_BYTES - size)
        return at(run, 0, 1, 1);
    run->used = start + size;
    return run->local + start;
}

/* An address in shared memory, which begins at 0. NULL, and an illegal address, if it is not all there. */
static unsigned char *shared(struct run *run, uint64_t address, uint64_t size)
{
    const struct window *window = &run->windows[SHARED];
    if (size > window->size || address > window->size - size)
        return at(run, 0, 1, 1);
    return window->at + address;
}

/* What the function returns: 0, 1 after an illegal address, 2 if the thread has ended. */
static int call(struct run *run, const struct place *place, void **params, thread *function)
{
    uint64_t used = run->used;
    int ended;
    if (run->depth == DEEPEST_CALL)
        return at(run, 0, 1, 1), 1;
    run->depth++;
    ended = function(run, place, params);
    run->depth--;
    run->used = used;
    return ended;
}

/* Runs the threads of a block in turn: each to its end, or to its next barrier, until all have ended. Threads that
   have ended are not waited for. Nothing is kept by kernels without barriers. 1 after an illegal address. */
static int block(struct run *run, struct place *place, const struct launch *launch, thread *thread,
                 unsigned char *kept, uint64_t kept_bytes)
{
    unsigned char *own;
    int waiting, ended;
    do {
        own = kept;
        waiting = 0;
#define EACH(which, side, count) for (place->which[side] = 0; place->which[side] < count[side]; place->which[side]++)
        EACH(tid, 2, launch->block) EACH(tid, 1, launch->block) EACH(tid, 0, launch->block)
        {
            if (kept_bytes) {
                run->kept = (struct kept *)own;
                own += kept_bytes;
                if (run->kept->at == GONE)
                    continue;
            }
            run->used = run->depth = 0;
            ended = thread(run, place, launch->params);
            if (ended == 1)
                return 1;
            if (ended == WAITS)
                waiting = 1;
            else if (kept_bytes)
                run->kept->at = GONE;
        }
    } while (waiting);
    return 0;
}

/* On a GPU shared memory begins as another block has left it; here as ones, which are no number as a float. */
static void all_threads(const struct launch *launch, thread *thread, uint64_t kept_bytes, const uint64_t *shared_at,
                        uint64_t shared_bytes)
{
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    uint64_t shared_size = shared_bytes + launch->shared_bytes;
    unsigned char *kept = malloc(threads * kept_bytes + 1);
    unsigned char *shared = aligned_alloc(128, (shared_size | 127) + 1);
    struct run run;
    struct place all, *place = &all;
    memset(run.windows, 0, sizeof run.windows);
    run.next = 0;
    run.shared_at = shared_at;
    run.windows[VARIABLES] = window_of_variables();
    run.windows[LOCAL] = window_at(run.local, LOCAL_BYTES);
    run.windows[SHARED] = window_at(shared, shared_size);
    memcpy(all.ntid, launch->block, sizeof all.ntid);
    memcpy(all.nctaid, launch->grid, sizeof all.nctaid);
    if (!kept || !shared)
        at(&run, 0, 1, 1);
    else EACH(ctaid, 2, launch->grid) EACH(ctaid, 1, launch->grid) EACH(ctaid, 0, launch->grid)
    {
        memset(kept, 0, threads * kept_bytes);
        memset(shared, 0xff, shared_size);
        if (block(&run, place, launch, thread, kept, kept_bytes))
            goto end;
    }
end:
    free(kept);
    free(shared);
}

/* The same bits, read as something else. */
static inline float f32_of(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }
static inline uint32_t bits_of_f32(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
static inline double f64_of(uint64_t bits) { double value; memcpy(&value, &bits, 8); return value; }
static inline uint64_t bits_of_f64(double value) { uint64_t bits; memcpy(&bits, &value, 8); return bits; }

/* Shifts beyond the width give 0, or the sign. */
static inline uint64_t shift_left(uint64_t value, uint32_t by) { return by > 63 ? 0 : value << by; }
static inline uint64_t shift_right(uint64_t value, uint32_t by) { return by > 63 ? 0 : value >> by; }
static inline int64_t shift_signed(int64_t value, uint32_t by) { return value >> (by > 63 ? 63 : by); }

/* Conversions to integers clamp; what is no number is 0. */
static inline int64_t clamped(double value, double least, double most)
{
    return value != value ? 0 : value <= least ? (int64_t)least : value >= most ? (int64_t)most : (int64_t)value;
}
static inline uint64_t clamped_u64(double value)
{
    return value != value || value <= 0 ? 0 : value >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)value;
}
static inline int64_t clamped_s64(double value)
{
    return value >= 9223372036854775807.0 ? INT64_MAX : clamped(value, -9223372036854775808.0, 9223372036854774784.0);
}

/* Modifiers of floating point. */
static inline float flushed(float value) { return fabsf(value) < FLT_MIN ? copysignf(0, value) : value; }
static inline double saturated(double value) { return value >= 1 ? 1 : value > 0 ? value : 0; }

/* Bits: the highest one's number (-1: none), and fields of them. */
static inline int highest(uint64_t value) { return value ? 63 - __builtin_clzll(value) : -1; }
static inline uint64_t field(uint32_t length) { return length > 63 ? ~0ull : (1ull << length) - 1; }
static inline uint64_t bits_into(uint64_t part, uint64_t into, uint32_t start, uint32_t length)
{
    uint64_t mask = shift_left(field(length & 255), start & 255);
    return (into & ~mask) | (shift_left(part, start & 255) & mask);
}
static inline uint64_t bits_from(uint64_t value, uint32_t start, uint32_t length, unsigned bits)
{
    (void)bits;
    return shift_right(value, start & 255) & field(length & 255);
}
static inline uint64_t signed_bits_from(uint64_t value, uint32_t start, uint32_t length, unsigned bits)
{
    uint64_t found = bits_from(value & field(bits), start, length, bits);
    uint32_t last = (start & 255) + (length & 255) - 1;
    int negative;
    length &= 255;
    if (length == 0)
        return 0;
    negative = value >> (last < bits ? last : bits - 1) & 1;
    if (last >= bits)
        length = (start & 255) < bits ? bits - (start & 255) : 0;
    return negative ? found | ~field(length) : found;
}
static inline uint64_t reversed(uint64_t value, unsigned bits)
{
    uint64_t found = 0;
    unsigned i;
    for (i = 0; i < bits; i++)
        found |= (value >> i & 1) << (bits - 1 - i);
    return found;
}
/* Bytes of two words; a selector's eighth bit asks for the sign alone. */
static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t selectors)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t found = 0;
    int i;
    for (i = 0; i < 4; i++) {
        uint32_t selector = selectors >> (4 * i) & 15, byte = both >> (8 * (selector & 7)) & 255;
        if (selector & 8)
            byte = byte & 128 ? 255 : 0;
        found |= byte << (8 * i);
    }
    return found;
}
static inline uint32_t logic_of_three(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t found = 0;
    int i;
    for (i = 0; i < 8; i++)
        if (table >> i & 1)
            found |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return found;
}
