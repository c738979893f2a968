/*
 * Checkpoint files in number that nobody should have made: damaged_files <configuration> seed=N files=N [key=value ...]
 *
 *   kind=regions   versions of protected memory, and whatever else the configuration puts beside them: checksums,
 *                  parities, aggregated files with their tables, and those that were not completed with their
 *                  rolls. The default
 *   kind=routed    files of the application's own, with their notes
 *   kind=run       states and adjoints of VELOC_Adjoint_run, with their marks
 *   proof=off      nothing proves the files: what is restored may be anything, but nothing else happens
 *   leave=1        ends when the first files are damaged, and leaves them
 *
 * A job makes good files, which are then damaged, and the next job restores from them, until so many were
 * damaged. Whatever happened to a version, it is restored as it was, or refused with the memory left alone; and it
 * must be restored if one whole copy is left. A file that has lost its proof is taken for one of another
 * program's, as it should be: what that has is restored, and nothing beyond the memory. Prints what was done to each
 * file, and in the end "damaged", "restored" and "refused" with their numbers. With MPI if compiled with
 * CHECK_WITH_MPI.
 */
#define _DEFAULT_SOURCE /* ftruncate of more than a long has */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PROOF "user.veloc"

enum {
    VERSIONS = 12, /* of a job; the first is left as it is */
    SHORT = 3000,
    LONGER = 40000,
    LONGEST = 400000,
    SECOND = 100, /* bytes of the second region */
    GUARD = 64,
    FOLDERS = 3,
    MOST_FILES = 512
};

enum { NO_COPY, IN_SCRATCH, IN_PERSISTENT };

/* What is known of a version after it was damaged. */
struct version {
    int believed; /* nothing proves some copy of it any more */
    int whole;    /* each process has a copy that was left alone */
};

struct bytes {
    unsigned char *at;
    size_t length, room;
};

struct file {
    int folder;
    char name[256];
};

static const char *configuration, *folders[FOLDERS] = {"scratch", "persistent", "meta"};
static char directory[512];
static uint64_t seed;
static long proofless, damaged, restored, refused, wanted;
static unsigned rank, ranks = 1;
static struct version known[VERSIONS + 1];
static unsigned char *memory, *second;
static struct bytes now, other;
static struct file all[MOST_FILES];
static int count;

static uint64_t below(uint64_t limit)
{
    return next_random(&seed) % limit;
}

/* While the library has damaged files, it writes none that is much longer than what was stored. */
static void limit_files(int limited)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = limited ? (rlim_t)64 << 20 : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void start(void)
{
#ifdef CHECK_WITH_MPI
    OK(VELOC_Init(MPI_COMM_WORLD, configuration));
#else
    OK(VELOC_Init_single(rank, configuration));
#endif
}

static void stop(void)
{
    OK(VELOC_Finalize(1));
#ifdef CHECK_WITH_MPI
    MPI_Barrier(MPI_COMM_WORLD);
#endif
}

/* Whether it is so on all processes. */
static int everywhere(int holds)
{
#ifdef CHECK_WITH_MPI
    MPI_Allreduce(MPI_IN_PLACE, &holds, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
#endif
    return holds;
}

/* Files. */

static const char *path_of(const struct file *file)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", directory, folders[file->folder], file->name);
    return path;
}

static int in_order(const void *one, const void *another)
{
    const struct file *a = one, *b = another;
    return a->folder != b->folder ? a->folder - b->folder : strcmp(a->name, b->name);
}

/* All files, in an order that is the same each time. */
static void list(void)
{
    int folder;
    count = 0;
    for (folder = 0; folder < FOLDERS; folder++) {
        char path[1024];
        struct dirent *entry;
        DIR *open;
        snprintf(path, sizeof path, "%s/%s", directory, folders[folder]);
        open = opendir(path);
        while (open != NULL && (entry = readdir(open)) != NULL) {
            struct stat found;
            struct file *file = &all[count];
            CHECK(count < MOST_FILES);
            file->folder = folder;
            CHECK(strlen(entry->d_name) < sizeof file->name);
            strcpy(file->name, entry->d_name);
            if (lstat(path_of(file), &found) == 0 && S_ISREG(found.st_mode))
                count++;
        }
        if (open != NULL)
            closedir(open);
    }
    qsort(all, (size_t)count, sizeof *all, in_order);
}

static void room(struct bytes *bytes, size_t length)
{
    if (length > bytes->room || bytes->at == NULL) {
        bytes->room = 2 * length + 64;
        CHECK((bytes->at = realloc(bytes->at, bytes->room)) != NULL);
    }
    bytes->length = length;
}

static void load(const struct file *file, struct bytes *bytes)
{
    const int opened = open(path_of(file), O_RDONLY);
    struct stat found;
    CHECK(opened >= 0 && fstat(opened, &found) == 0);
    /* Of one that was made longer than any disk is, the beginning. */
    room(bytes, found.st_size > 4 * LONGEST ? 4 * LONGEST : (size_t)found.st_size);
    EQUAL(pread(opened, bytes->at, bytes->length, 0), bytes->length);
    close(opened);
}

static void store(const struct file *file, const struct bytes *bytes)
{
    const int opened = open(path_of(file), O_WRONLY | O_TRUNC);
    CHECK(opened >= 0);
    EQUAL(write(opened, bytes->at, bytes->length), bytes->length);
    close(opened);
}

/* What is done to bytes. */

static void insert(struct bytes *bytes, size_t at, size_t length)
{
    room(bytes, bytes->length + length);
    memmove(bytes->at + at + length, bytes->at + at, bytes->length - length - at);
}

static void scramble(unsigned char *at, size_t length)
{
    size_t i;
    for (i = 0; i < length; i++)
        at[i] = (unsigned char)below(256);
}

/* A length that nothing has, or that overflows with others. */
static uint64_t lie(void)
{
    const uint64_t base[] = {0, 1, 7, 12, 1u << 16, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 40,
                             UINT64_C(1) << 60, UINT64_C(1) << 61, UINT64_C(1) << 63, UINT64_MAX / 12};
    const uint64_t near = base[below(sizeof base / sizeof *base)];
    return near + below(64) - 32;
}

/* Changes bytes, and says how. They may be the same afterwards. */
static const char *spoil(struct bytes *bytes, const struct bytes *from)
{
    const size_t length = bytes->length;
    /* Half of what is done is done to what comes first, which says what the rest is. */
    const size_t reach = length == 0 || below(2) ? length : (length < 64 ? length : 64);
    const size_t at = reach == 0 ? 0 : (size_t)below(reach);
    uint64_t i, number;
    switch (below(12)) {
    case 0:
    case 1:
        for (i = 0; reach > 0 && i <= 2 * below(3); i++)
            bytes->at[below(reach)] ^= (unsigned char)(1u << below(8));
        return "bits turned over";
    case 2:
        bytes->length = at;
        return "cut";
    case 3:
        number = 1 + below(below(4) == 0 ? 100000 : 40);
        room(bytes, length + number);
        memset(bytes->at + length, (int)below(2) * 0x5a, number);
        return "made longer";
    case 4:
        if (at < from->length) {
            room(bytes, from->length);
            memcpy(bytes->at + at, from->at + at, from->length - at);
        }
        return "spliced with another";
    case 5:
        room(bytes, from->length);
        memcpy(bytes->at, from->at, from->length);
        return "another's content";
    case 6:
        scramble(bytes->at, at);
        return "a random beginning";
    case 7:
    case 8:
        number = lie();
        /* Where a length is in most of these formats, or anywhere. */
        i = below(2) ? 8 * below(8) : 8 + 4 + 12 * below(3);
        if (i + sizeof number > length)
            i = at;
        if (i + sizeof number <= length)
            memcpy(bytes->at + i, &number, sizeof number);
        return "a length that lies";
    case 9:
        number = below(length - at + 1);
        memset(bytes->at + at, 0, number);
        return "zeros";
    case 10:
        if (length > 0) {
            number = 1 + below(length - at < 200 ? length - at : 200);
            if (below(2)) {
                insert(bytes, at, number);
                return "bytes in between";
            }
            memmove(bytes->at + at, bytes->at + at + number, length - at - number);
            bytes->length = length - number;
        }
        return "bytes taken out";
    default:
        room(bytes, (size_t)below(300));
        scramble(bytes->at, bytes->length);
        return "random bytes";
    }
}

/* Changes the proof of a file, and says how; sets `lost` if there is none any more. */
static const char *spoil_proof(const struct file *file, const struct file *from, int *lost)
{
    static unsigned char at[4096];
    struct bytes proof = {NULL, 0, 0}, another = {NULL, 0, 0};
    ssize_t length;
    const char *how;
    if ((length = getxattr(path_of(file), PROOF, at, sizeof at)) < 0)
        return "no proof";
    room(&proof, (size_t)length);
    memcpy(proof.at, at, proof.length);
    if (below(3) == 0) {
        CHECK(removexattr(path_of(file), PROOF) == 0);
        *lost = 1;
        free(proof.at);
        return "proof lost";
    }
    if ((length = getxattr(path_of(from), PROOF, at, sizeof at)) < 0)
        length = 0;
    room(&another, (size_t)length);
    if (length > 0)
        memcpy(another.at, at, another.length);
    how = spoil(&proof, &another);
    /* File systems have little room for them. */
    CHECK(setxattr(path_of(file), PROOF, proof.at, proof.length < 1000 ? proof.length : 1000, 0) == 0);
    free(proof.at);
    free(another.at);
    return how;
}

/* A file that is longer than any disk, all of it but the beginning holes. */
static int stretch(const struct file *file)
{
    return truncate(path_of(file), (off_t)1 << 43) == 0;
}

/* Does something to one file, and says what. Whether it has lost its proof. */
static int damage(const struct file *file, const struct file *from)
{
    const char *content = "as it was", *proof = "as it was";
    const uint64_t what = below(10);
    int lost = 0;
    damaged++;
    if (what == 0) {
        CHECK(unlink(path_of(file)) == 0);
        content = "removed";
    } else {
        if (what > 1) {
            load(file, &now);
            load(from, &other);
            content = spoil(&now, &other);
            store(file, &now);
            if (below(40) == 0 && stretch(file))
                content = "stretched";
        }
        /* Of one and the same other, content and proof could fit: that would be forged, not damaged. */
        if (what <= 3)
            proof = spoil_proof(file, what == 1 ? from : file, &lost);
    }
    printf("%s: %s; proof: %s\n", path_of(file), content, proof);
    return lost;
}

/* The version that a file's name says; 0: none. */
static int version_of(const char *name)
{
    const char *end = strstr(name, ".dat");
    while (end != NULL && end > name && end[-1] >= '0' && end[-1] <= '9')
        end--;
    return end == NULL || end == name || end[-1] != '-' ? 0 : atoi(end);
}

static int is_of(const struct file *file, int version)
{
    return version_of(file->name) == version;
}

/* A completed aggregated file becomes one that was not: it is not there, and a roll says which parts are in
   what was to become it. With what follows the offsets in the table (aggregate.rs). */
static void undo_aggregated(int version)
{
    enum { LINE = 8 + 8 + 33 };
    struct file data = {1, ""}, table = {2, ""}, roll = {1, ""}, unfinished = {1, ""};
    unsigned char lines[16 * LINE];
    uint64_t i, begin, end, parts;
    char to[1024];
    int descriptor, at;
    snprintf(data.name, sizeof data.name, "x-agg-%d.dat", version);
    snprintf(unfinished.name, sizeof unfinished.name, ".x-agg-%d.dat.tmp-77-%d", version, version);
    snprintf(roll.name, sizeof roll.name, ".x-agg-%d.dat.roll.tmp-77-%d", version, version);
    strcpy(table.name, data.name);
    load(&data, &other);
    load(&table, &now);
    memcpy(&parts, now.at, 8);
    CHECK(parts == ranks && parts <= 16);
    memset(lines, 0, sizeof lines);
    for (i = 0; i < parts; i++) {
        memcpy(&begin, now.at + 8 + 8 * i, 8);
        end = other.length;
        if (i + 1 < parts)
            memcpy(&end, now.at + 16 + 8 * i, 8);
        end -= begin++;
        memcpy(lines + i * LINE, &begin, 8);
        memcpy(lines + i * LINE + 8, &end, 8);
        if (!proofless)
            memcpy(lines + i * LINE + 16, now.at + now.length - 33 * (parts - i), 33);
    }
    snprintf(to, sizeof to, "%s", path_of(&unfinished));
    CHECK(rename(path_of(&data), to) == 0);
    CHECK(unlink(path_of(&table)) == 0);
    descriptor = open(path_of(&roll), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(descriptor >= 0);
    EQUAL(write(descriptor, lines, parts * LINE), parts * LINE);
    close(descriptor);
    /* Then nothing else has the version. */
    for (at = 0; at < count; at++)
        if (all[at].folder == 0 && is_of(&all[at], version))
            (void)unlink(path_of(&all[at]));
    printf("version %d: its aggregated file is not complete\n", version);
    list();
}

static int exists(const struct file *file)
{
    return access(path_of(file), F_OK) == 0;
}

/* Whether a directory has the aggregated file of a version, or the table of that. */
static int has_aggregated(int folder, int version)
{
    struct file file = {folder, ""};
    snprintf(file.name, sizeof file.name, "x-agg-%d.dat", version);
    return exists(&file);
}

/* Whether a directory has the files of a version of all processes. */
static int has_all(int folder, int version)
{
    struct file file = {folder, ""};
    unsigned of;
    for (of = 0; of < ranks; of++) {
        snprintf(file.name, sizeof file.name, "x-%u-%d.dat", of, version);
        if (!exists(&file))
            return folder == 1 && has_aggregated(1, version) && has_aggregated(2, version);
    }
    return 1;
}

static int is_aggregate(const char *name)
{
    return strstr(name, "-agg-") != NULL;
}

/* Damages files of a version, and notes what is to be expected of it. */
static void damage_version(int version)
{
    const int spared = (int)below(3), scratch = spared == IN_SCRATCH, persistent = spared == IN_PERSISTENT;
    int i, parts = 0, said_where = 0, touched = 0;
    struct version *now_known = &known[version];
    list();
    if (has_aggregated(2, version) && below(4) == 0)
        undo_aggregated(version);
    now_known->believed = 0;
    now_known->whole = (scratch && has_all(0, version)) || (persistent && has_all(1, version));
    for (i = 0; i < count; i++) {
        struct file file = all[i];
        const struct file *from = &all[below((uint64_t)count)];
        if (!is_of(&file, version) || (scratch && file.folder == 0) || (persistent && file.folder >= 1))
            continue;
        /* Of four files, one is left alone. */
        if (below(4) == 0)
            continue;
        touched++;
        now_known->believed |= damage(&file, exists(from) ? from : &file);
        /* An aggregated file has its proofs in its table, or in its roll: without these it has none. */
        parts |= is_aggregate(file.name) && file.folder == 1 && strstr(file.name, ".roll") == NULL;
        said_where |= is_aggregate(file.name) && (file.folder == 2 || strstr(file.name, ".roll") != NULL);
    }
    now_known->believed |= proofless || (parts && said_where);
    printf("version %d: %d files damaged, %s%s\n", version, touched,
           now_known->believed ? "what proves it is lost" : "proven",
           now_known->whole ? ", a whole copy is left" : "");
}

static void damage_all(void)
{
    int version;
    if (rank == 0)
        for (version = 2; version <= VERSIONS; version++)
            damage_version(version);
#ifdef CHECK_WITH_MPI
    MPI_Bcast(known, sizeof known, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&damaged, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    /* From here on all choose the same. */
    MPI_Bcast(&seed, sizeof seed, MPI_BYTE, 0, MPI_COMM_WORLD);
#endif
    known[1].believed = proofless != 0;
    known[1].whole = 1;
    /* What was done is known, also if the process ends at once. */
    fflush(stdout);
}

/* Versions of regions. */

static size_t length_of(int version, uint64_t round)
{
    const uint64_t word = content_word((int)rank, version, round);
    const size_t most = word % 64 == 0 ? LONGEST : word % 8 == 0 ? LONGER : SHORT;
    return (size_t)(word / 64 % most);
}

static void protect(size_t length)
{
    OK(VELOC_Mem_protect(1, memory, length, 1));
    OK(VELOC_Mem_protect(7, second, SECOND, 1));
}

static int content_of(int version, uint64_t round)
{
    return (int)rank + 16 * (version + (VERSIONS + 1) * (int)(round % 100000));
}

static void take_all(uint64_t round)
{
    int version;
    for (version = 1; version <= VERSIONS; version++) {
        const size_t length = length_of(version, round);
        protect(length);
        fill(memory, length, 1, content_of(version, round));
        fill(second, SECOND, 7, content_of(version, round));
        OK(VELOC_Checkpoint("x", version));
    }
    OK(VELOC_Checkpoint_wait());
}

static void blank(void)
{
    memset(memory, 0xee, LONGEST + GUARD);
    memset(second, 0xee, SECOND + GUARD);
}

static void check_blank(const unsigned char *at, size_t from, size_t to)
{
    size_t i;
    for (i = from; i < to; i++)
        if (at[i] != 0xee)
            check_failed(__FILE__, __LINE__, "the memory", "was to be left alone");
}

/* Restores by the calls for single regions. */
static int recover(int version, int at_once)
{
    int ids[] = {1, 7}, status;
    if (VELOC_Restart_begin("x", version) != VELOC_SUCCESS)
        return VELOC_FAILURE;
    (void)VELOC_Recover_size(1);
    (void)VELOC_Recover_size(5);
    if (at_once) {
        status = VELOC_Recover_mem();
    } else {
        status = VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1);
        if (status == VELOC_SUCCESS)
            status = VELOC_Recover_selective(VELOC_RECOVER_REST, ids, 1);
    }
    OK(VELOC_Restart_end(status == VELOC_SUCCESS));
    return status;
}

/* Restores a version one way or another, and looks at what it has. */
static void restore(int version, uint64_t round, int must)
{
    const struct version *of = &known[version];
    const int by_parts = below(3) == 0, at_once = (int)below(2);
    const size_t length = length_of(version, round);
    int done;
    blank();
    if (below(4) == 0)
        (void)VELOC_Recover_ckpt_size("x", version, 1);
    done = (by_parts ? recover(version, at_once) : VELOC_Restart("x", version)) == VELOC_SUCCESS;
    check_blank(memory, LONGEST, LONGEST + GUARD);
    check_blank(second, SECOND, SECOND + GUARD);
    if (of->believed)
        return;
    if (everywhere(done) != done)
        check_failed(__FILE__, __LINE__, "a restart", "is not the same on all processes");
    if (!done) {
        CHECK(strlen(VELOC_Last_error()) > 0);
        CHECK(!must);
        refused++;
        if (ranks == 1 && strstr(VELOC_Last_error(), "is undefined now") != NULL) {
            /* What reads the file before has changed nothing. */
            blank();
            CHECK(VELOC_Restart_begin("x", version) != VELOC_SUCCESS);
        }
        check_blank(memory, 0, LONGEST);
        check_blank(second, 0, SECOND);
        return;
    }
    restored++;
    CONTENT(memory, length, 1, content_of(version, round));
    CONTENT(second, SECOND, 7, content_of(version, round));
    check_blank(memory, length, LONGEST);
}

static void restore_all(uint64_t round)
{
    int version;
    protect(LONGEST);
    for (version = VERSIONS; version >= 1; version--) {
        const int asks = below(2) == 0;
        printf("restoring version %d\n", version);
        if (asks) {
            const int newest = VELOC_Restart_test("x", version);
            CHECK(newest >= 1 && newest <= version);
            if (known[version].whole && !known[version].believed)
                EQUAL(newest, version);
            /* What is said to be there is. */
            restore(newest, round, 1);
        }
        restore(version, round, known[version].whole);
    }
}

/* Files of the application's own. */

static void route_all(uint64_t round)
{
    int version;
    for (version = 1; version <= VERSIONS; version++) {
        char own[1024], routed[VELOC_MAX_NAME];
        FILE *file;
        const size_t length = length_of(version, round);
        snprintf(own, sizeof own, "%s/own-%d", directory, version);
        OK(VELOC_Checkpoint_begin("x", version));
        OK(VELOC_Route_file(own, routed));
        file = fopen(routed, "wb");
        CHECK(file != NULL);
        fill(memory, length, 1, content_of(version, round));
        EQUAL(fwrite(memory, 1, length, file), length);
        CHECK(fclose(file) == 0);
        OK(VELOC_Checkpoint_end(1));
    }
    OK(VELOC_Checkpoint_wait());
}

static void reroute_all(void)
{
    int version;
    protect(LONGEST);
    for (version = VERSIONS; version >= 1; version--) {
        char own[1024], routed[VELOC_MAX_NAME];
        if (below(2)) {
            const int newest = VELOC_Restart_test("x", version);
            CHECK(newest <= version);
        }
        snprintf(own, sizeof own, "%s/own-%d", directory, version);
        if (VELOC_Restart_begin("x", version) == VELOC_SUCCESS) {
            if (VELOC_Route_file(own, routed) == VELOC_SUCCESS) {
                CHECK(access(routed, F_OK) == 0);
                restored++;
            }
            (void)VELOC_Restart_end(1);
        } else {
            refused++;
        }
        blank();
        (void)VELOC_Restart("x", version);
        check_blank(memory, LONGEST, LONGEST + GUARD);
    }
}

/* Runs of adjoint computations. */

enum { STEPS = 40, CELLS = 4 };

static uint64_t state[CELLS], gradient[CELLS];
static long left; /* steps until the callback fails */

static void forward_step(uint64_t *x, int64_t number)
{
    int i;
    for (i = 0; i < CELLS; i++)
        x[i] = content_word((int)number, i, x[i] ^ x[(i + 1) % CELLS]);
}

static void adjoint_step(uint64_t *adjoint, const uint64_t *x, int64_t number)
{
    int i;
    for (i = 0; i < CELLS; i++)
        adjoint[i] = content_word((int)number, 1000 + i, number == STEPS ? x[i] : adjoint[i] ^ x[i]);
}

static int forward(void *user, int64_t from, int64_t to)
{
    int64_t step;
    (void)user;
    for (step = from + 1; step <= to; step++) {
        if (left-- == 0)
            return 1;
        forward_step(state, step);
    }
    return 0;
}

static int adjoint(void *user, int64_t step)
{
    (void)user;
    if (left-- == 0)
        return 1;
    adjoint_step(gradient, state, step);
    return 0;
}

static int protect_run(void *user)
{
    (void)user;
    OK(VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 3, state, CELLS, sizeof *state));
    return VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, gradient, CELLS, sizeof *gradient);
}

static int run(long steps)
{
    VELOC_Adjoint what = {.size = sizeof what, .name = "x", .steps = STEPS, .slots = 4,
                          .resilience_distance = 15, .adjoint_distance = 5, .protect = protect_run,
                          .forward = forward, .adjoint = adjoint};
    int i;
    for (i = 0; i < CELLS; i++) {
        state[i] = (uint64_t)i;
        gradient[i] = 0;
    }
    left = steps;
    return VELOC_Adjoint_run(&what);
}

static void run_again(void)
{
    static uint64_t wanted_gradient[CELLS], states[STEPS + 1][CELLS];
    int i;
    int believed = proofless || known[0].believed, j;
    for (j = 0; j < CELLS; j++)
        states[0][j] = (uint64_t)j;
    for (i = 1; i <= STEPS; i++) {
        memcpy(states[i], states[i - 1], sizeof states[i]);
        forward_step(states[i], i);
    }
    for (i = STEPS; i > 0; i--)
        adjoint_step(wanted_gradient, states[i - 1], i);
    if (run(-1) != VELOC_SUCCESS) {
        CHECK(strlen(VELOC_Last_error()) > 0);
        refused++;
        if (VELOC_Adjoint_discard("x") != VELOC_SUCCESS) {
            /* Without its mark, nobody can tell that it is a run's. */
            CHECK(strstr(VELOC_Last_error(), "is one of the application's own") != NULL);
            return;
        }
        OK(run(-1));
        believed = 0;
    } else {
        restored++;
    }
    CHECK(believed || memcmp(wanted_gradient, gradient, sizeof gradient) == 0);
}

static void damage_run(void)
{
    int i;
    list();
    known[0].believed = 0;
    for (i = 0; i < count; i++) {
        struct file file = all[i];
        const struct file *from = &all[below((uint64_t)count)];
        if (below(3) != 0)
            known[0].believed |= damage(&file, exists(from) ? from : &file);
    }
    fflush(stdout);
}

/* All files go, also those that no job would remove. */
static void clear(void)
{
    int i;
    if (rank == 0) {
        list();
        for (i = 0; i < count; i++)
            CHECK(unlink(path_of(&all[i])) == 0);
        list();
    }
    everywhere(1);
}

int main(int argc, char **argv)
{
    const char *kind = option(argc, argv, "kind", "regions"), *end;
    const int leaves = (int)number(argc, argv, "leave", 0);
    uint64_t round;
    CHECK(argc > 1);
    configuration = argv[1];
    end = strrchr(configuration, '/');
    CHECK(end != NULL);
    snprintf(directory, sizeof directory, "%.*s", (int)(end - configuration), configuration);
    seed = (uint64_t)strtoull(option(argc, argv, "seed", "1"), NULL, 10);
    wanted = number(argc, argv, "files", 100);
    proofless = strcmp(option(argc, argv, "proof", "on"), "off") == 0;
#ifdef CHECK_WITH_MPI
    {
        int number_of, of;
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &number_of);
        MPI_Comm_size(MPI_COMM_WORLD, &of);
        rank = (unsigned)number_of;
        ranks = (unsigned)of;
    }
#endif
    signal(SIGXFSZ, SIG_IGN);
    memory = get_memory(LONGEST + GUARD);
    second = get_memory(SECOND + GUARD);
    for (round = 0; damaged < wanted; round++) {
        start();
        if (strcmp(kind, "run") == 0)
            CHECK((run((long)below(STEPS * 4)) == VELOC_SUCCESS) == (left >= 0));
        else if (strcmp(kind, "routed") == 0)
            route_all(round);
        else
            take_all(round);
        stop();
        if (strcmp(kind, "run") == 0)
            damage_run();
        else
            damage_all();
        if (leaves)
            break;
        limit_files(1);
        start();
        if (strcmp(kind, "run") == 0)
            run_again();
        else if (strcmp(kind, "routed") == 0)
            reroute_all();
        else
            restore_all(round);
        stop();
        limit_files(0);
        clear();
    }
#ifdef CHECK_WITH_MPI
    MPI_Finalize();
    if (rank != 0)
        return 0;
#endif
    printf("damaged %ld\nrestored %ld\nrefused %ld\n", damaged, restored, refused);
    puts("done");
    return 0;
}
