#include <math.h>
#include <stdint.h>
#include <string.h>

struct launch { uint32_t grid[3], block[3], shared_bytes, parameter_count; void **params; };
struct window { uint64_t start, size; unsigned char *at; uint64_t writable; };
struct place { uint32_t tid[3], ntid[3], ctaid[3], nctaid[3]; };
enum { WINDOWS = 16 };
struct run { struct window windows[WINDOWS]; unsigned next; };

/* Set by the software device: the whole range around an address. 0: there is none. */
int (*softcuda_find_window)(uint64_t address, int writes, struct window *found);

static unsigned char *at(struct run *run, uint64_t address, uint64_t size, int writes)
{
    struct window *window;
    unsigned i;
    for (i = 0; i < WINDOWS; i++) {
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

static void all_threads(const struct launch *launch,
                        int (*thread)(struct run *, const struct place *, void **))
{
    struct run run;
    struct place place;
    memset(&run, 0, sizeof run);
    memcpy(place.ntid, launch->block, sizeof place.ntid);
    memcpy(place.nctaid, launch->grid, sizeof place.nctaid);
#define EACH(which, side, count) for (place.which[side] = 0; place.which[side] < count[side]; place.which[side]++)
    EACH(ctaid, 2, launch->grid) EACH(ctaid, 1, launch->grid) EACH(ctaid, 0, launch->grid)
    EACH(tid, 2, launch->block) EACH(tid, 1, launch->block) EACH(tid, 0, launch->block)
        if (thread(&run, &place, launch->params) != 0)
            return;
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
