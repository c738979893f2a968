/*
 * Does what its arguments say, one after the other:
 * script <configuration> [rank=<number>] [command ...]
 *
 *   size=BYTES               the protected region has so many bytes from here on
 *   id=NUMBER                and this id
 *   take=NAME:V[:CONTENT]    takes a checkpoint, with the content of version V or CONTENT
 *   restore=NAME:V[:CONTENT] restores it and checks what it has
 *   list=NAME:V[:CONTENT]    the same by VELOC_Restart_list
 *   nolist=NAME:V[:WORDS]    that fails, with these words
 *   refuse=NAME:V[:WORDS]    a restore of it fails, with these words (separated by '|', "_" is ' ')
 *   leave=NAME:V[:WORDS]     the same, and it leaves the memory as it was
 *   try=NAME:V[:CONTENT]     a restore of it either fails and leaves the memory as it was, or says
 *                            that it did not, or succeeds, with CONTENT if that is given; prints
 *                            "refused V" or "restored V"
 *   alias=NUMBER             so many more regions, from id 2 on, are the same memory
 *   pieces=NAME:V[:CONTENT]  takes one region by region, each in a call of its own
 *   fail=NAME:V[:WORDS]      VELOC_Checkpoint fails, with these words
 *   newest=NAME:V[:BOUND]    VELOC_Restart_test says V, with that bound if one is given
 *   route=NAME:V[:FILE]      takes a file-based checkpoint of FILE
 *   reroute=NAME:V[:FILE]    restores it and checks what it has
 *   ignore=NAME:V[:FILE]     takes one, but writes FILE itself: that fails, and FILE stays; a second
 *                            file cannot be routed
 *   noroute=NAME:V[:WORDS]   begins a checkpoint for which no file can be routed, with these words, and
 *                            ends it without success
 *   nameless                 VELOC_Restart_test and VELOC_Restart of no name fail
 *   giveup=NAME:V            begins a checkpoint, and ends it without success
 *   cleanup=NAME, wait       these calls
 *   reads=PERCENT            what was read from files since the last "reads" is at most so much of the
 *                            protected region; 0: that is not looked at
 *   late=WORDS               VELOC_Checkpoint_wait fails, with these words
 *   finished=N               VELOC_Checkpoint_finished returns N at last, and -1 before only if N is
 *   finalize=DRAIN           VELOC_Finalize(DRAIN) succeeds, or with "DRAIN:fails" does not: the last
 *                            command
 *   run=COMMAND              a command of a shell, which must succeed
 *   drain                    VELOC_Finalize(1), VELOC_Init: a new job
 *   noinit=WORDS             the same, but VELOC_Init fails with these words: "init" is next
 *   init                     VELOC_Init
 *   set=VARIABLE:VALUE       in the environment, from the next VELOC_Init on
 *   sleep=MILLISECONDS, barrier
 *   end_mpi                  MPI_Finalize: what follows does without
 *   kill                     SIGKILL to itself
 *
 * "@RANK:" before a command: on that rank alone. With MPI if compiled with CHECK_WITH_MPI.
 */
#include "check.h"

#include <limits.h>
#include <signal.h>
#include <time.h>

static const char *configuration;
static unsigned own_rank;
static unsigned char *memory;
static size_t bytes = 100000;
static int id_of_region = 1;
static int aliases = 1;
static int finalized;
#ifdef CHECK_WITH_MPI
static int mpi_has_ended;
#endif

static int initialise(void)
{
#ifdef CHECK_WITH_MPI
    return VELOC_Init(MPI_COMM_WORLD, configuration);
#else
    return VELOC_Init_single(own_rank, configuration);
#endif
}

static void begin(void)
{
    OK(initialise());
}

static void protect(void)
{
    free(memory);
    memory = get_memory(bytes);
    OK(VELOC_Mem_protect(id_of_region, memory, bytes, 1));
}

/* The fields behind '=' of "command=name:version:rest"; the version is -1 if there is none. */
struct fields {
    char name[128];
    long version;
    char rest[512];
};

static struct fields split(const char *text)
{
    struct fields fields = {"", -1, ""};
    const char *end = strchr(text, ':');
    snprintf(fields.name, sizeof fields.name, "%.*s",
             (int)(end == NULL ? strlen(text) : (size_t)(end - text)), text);
    if (end != NULL) {
        char *rest;
        fields.version = strtol(end + 1, &rest, 10);
        if (*rest == ':')
            snprintf(fields.rest, sizeof fields.rest, "%s", rest + 1);
    }
    return fields;
}

static int content_of(const struct fields *fields)
{
    return fields->rest[0] == '\0' ? (int)fields->version : atoi(fields->rest);
}

/* The words behind "command=name:version:", with blanks in them. */
static const char *words_of(struct fields *fields)
{
    size_t i;
    for (i = 0; fields->rest[i] != '\0'; i++)
        if (fields->rest[i] == '_')
            fields->rest[i] = ' ';
    return fields->rest;
}

static void try_to_restore(const struct fields *fields)
{
    size_t i;
    memset(memory, 0xee, bytes);
    if (VELOC_Restart(fields->name, (int)fields->version) != VELOC_SUCCESS) {
        CHECK(strlen(VELOC_Last_error()) > 0);
        if (strstr(VELOC_Last_error(), "is undefined now") != NULL) {
            /* What reads the file before has changed nothing. */
            memset(memory, 0xee, bytes);
            CHECK(VELOC_Restart_begin(fields->name, (int)fields->version) != VELOC_SUCCESS);
        }
        for (i = 0; i < bytes; i++)
            EQUAL(memory[i], 0xee);
        printf("refused %ld\n", fields->version);
        return;
    }
    if (fields->rest[0] != '\0')
        CONTENT(memory, bytes, 1, content_of(fields));
    printf("restored %ld\n", fields->version);
}

static void put_file(const char *path, int version)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    fill(memory, bytes, 1, version);
    EQUAL(fwrite(memory, 1, bytes, file), bytes);
    CHECK(fclose(file) == 0);
}

static void check_file(const char *path, int version)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    EQUAL(fread(memory, 1, bytes, file), bytes);
    EQUAL(fgetc(file), EOF);
    CHECK(fclose(file) == 0);
    CONTENT(memory, bytes, 1, version);
}

/* What this process has read with system calls, in bytes. */
static unsigned long long read_so_far(void)
{
    unsigned long long so_far = 0;
    FILE *io = fopen("/proc/self/io", "r");
    CHECK(io != NULL);
    EQUAL(fscanf(io, "rchar: %llu", &so_far), 1);
    CHECK(fclose(io) == 0);
    return so_far;
}

static int is(const char *command, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(command, name, length) != 0 || command[length] != '=')
        return 0;
    *value = command + length + 1;
    return 1;
}

static void perform(const char *command)
{
    const char *value;
    char routed[VELOC_MAX_NAME];
    struct fields f;
    if (is(command, "size", &value)) {
        bytes = strtoul(value, NULL, 10);
        protect();
    } else if (is(command, "id", &value)) {
        OK(VELOC_Mem_unprotect(id_of_region));
        id_of_region = (int)strtol(value, NULL, 10);
        protect();
    } else if (is(command, "alias", &value)) {
        int id, last = 1 + atoi(value);
        protect();
        for (id = 2; id <= last; id++)
            OK(VELOC_Mem_protect(id, memory, bytes, 1));
        for (; id <= aliases; id++)
            OK(VELOC_Mem_unprotect(id));
        aliases = last;
    } else if (is(command, "pieces", &value)) {
        int id;
        f = split(value);
        fill(memory, bytes, 1, content_of(&f));
        OK(VELOC_Checkpoint_begin(f.name, (int)f.version));
        for (id = 1; id <= aliases; id++)
            OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &id, 1));
        OK(VELOC_Checkpoint_end(1));
    } else if (is(command, "take", &value)) {
        f = split(value);
        fill(memory, bytes, 1, content_of(&f));
        OK(VELOC_Checkpoint(f.name, (int)f.version));
    } else if (is(command, "restore", &value)) {
        f = split(value);
        memset(memory, 0xee, bytes);
        OK(VELOC_Restart(f.name, (int)f.version));
        CONTENT(memory, bytes, 1, content_of(&f));
    } else if (is(command, "list", &value) || is(command, "nolist", &value)) {
        VELOC_Region region = {id_of_region, memory, bytes, 1};
        f = split(value);
        memset(memory, 0xee, bytes);
        if (command[0] == 'n') {
            REFUSED(VELOC_Restart_list(f.name, (int)f.version, &region, 1, 0), words_of(&f));
        } else {
            OK(VELOC_Restart_list(f.name, (int)f.version, &region, 1, 0));
            CONTENT(memory, bytes, 1, content_of(&f));
        }
    } else if (is(command, "refuse", &value)) {
        f = split(value);
        REFUSED(VELOC_Restart(f.name, (int)f.version), words_of(&f));
    } else if (is(command, "leave", &value)) {
        size_t i;
        f = split(value);
        memset(memory, 0xee, bytes);
        REFUSED(VELOC_Restart(f.name, (int)f.version), words_of(&f));
        CHECK(strstr(VELOC_Last_error(), "undefined") == NULL);
        for (i = 0; i < bytes; i++)
            EQUAL(memory[i], 0xee);
    } else if (is(command, "try", &value)) {
        f = split(value);
        try_to_restore(&f);
    } else if (is(command, "fail", &value)) {
        f = split(value);
        fill(memory, bytes, 1, (int)f.version);
        REFUSED(VELOC_Checkpoint(f.name, (int)f.version), words_of(&f));
    } else if (is(command, "newest", &value)) {
        int newest;
        f = split(value);
        newest = VELOC_Restart_test(f.name, f.rest[0] == '\0' ? 0 : atoi(f.rest));
        EQUAL(newest < 0 ? -1 : newest, f.version);
    } else if (strcmp(command, "nameless") == 0) {
        CHECK(VELOC_Restart_test(NULL, 0) < 0);
        REFUSED(VELOC_Restart(NULL, 1), "name|NULL");
    } else if (is(command, "route", &value)) {
        f = split(value);
        OK(VELOC_Checkpoint_begin(f.name, (int)f.version));
        OK(VELOC_Route_file(f.rest, routed));
        put_file(routed, (int)f.version);
        OK(VELOC_Checkpoint_end(1));
    } else if (is(command, "ignore", &value)) {
        char other[VELOC_MAX_NAME];
        f = split(value);
        OK(VELOC_Checkpoint_begin(f.name, (int)f.version));
        OK(VELOC_Route_file(f.rest, routed));
        REFUSED(VELOC_Route_file("/another/file", other), "/another/file|as well");
        OK(VELOC_Route_file(f.rest, other));
        CHECK(strcmp(routed, other) == 0);
        put_file(f.rest, (int)f.version);
        REFUSED(VELOC_Checkpoint_end(1), "nothing was written");
        CHECK(strstr(VELOC_Last_error(), routed) != NULL);
        CHECK(fopen(routed, "r") == NULL);
        check_file(f.rest, (int)f.version);
    } else if (is(command, "noroute", &value)) {
        f = split(value);
        OK(VELOC_Checkpoint_begin(f.name, (int)f.version));
        REFUSED(VELOC_Route_file("/nowhere/own", routed), words_of(&f));
        OK(VELOC_Checkpoint_end(0));
    } else if (is(command, "reroute", &value)) {
        f = split(value);
        OK(VELOC_Restart_begin(f.name, (int)f.version));
        OK(VELOC_Route_file(f.rest, routed));
        check_file(routed, (int)f.version);
        OK(VELOC_Restart_end(1));
    } else if (is(command, "cleanup", &value)) {
        OK(VELOC_Cleanup(value));
    } else if (is(command, "set", &value)) {
        const char *text = strchr(value, ':');
        CHECK(text != NULL);
        snprintf(f.name, sizeof f.name, "%.*s", (int)(text - value), value);
        EQUAL(setenv(f.name, text + 1, 1), 0);
    } else if (is(command, "sleep", &value)) {
        long milliseconds = strtol(value, NULL, 10);
        struct timespec time;
        time.tv_sec = milliseconds / 1000;
        time.tv_nsec = milliseconds % 1000 * 1000000;
        nanosleep(&time, NULL);
    } else if (is(command, "reads", &value)) {
        static unsigned long long before;
        unsigned long long now = read_so_far(), most = bytes / 100 * strtoul(value, NULL, 10);
        CHECK(most == 0 || now - before <= most);
        before = now;
    } else if (is(command, "giveup", &value)) {
        f = split(value);
        OK(VELOC_Checkpoint_begin(f.name, (int)f.version));
        OK(VELOC_Checkpoint_mem());
        OK(VELOC_Checkpoint_end(VELOC_FAILURE));
    } else if (strcmp(command, "barrier") == 0) {
#ifdef CHECK_WITH_MPI
        MPI_Barrier(MPI_COMM_WORLD);
#endif
    } else if (strcmp(command, "end_mpi") == 0) {
#ifdef CHECK_WITH_MPI
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        mpi_has_ended = 1;
#endif
    } else if (is(command, "late", &value)) {
        snprintf(f.rest, sizeof f.rest, "%s", value);
        REFUSED(VELOC_Checkpoint_wait(), words_of(&f));
    } else if (is(command, "finished", &value)) {
        int expected = atoi(value), now;
        do
            now = VELOC_Checkpoint_finished();
        while (now == 0 && expected != 0);
        EQUAL(now, expected);
    } else if (is(command, "finalize", &value)) {
        int failed = VELOC_Finalize(atoi(value)) != VELOC_SUCCESS;
        EQUAL(failed, strstr(value, "fails") != NULL);
        finalized = 1;
    } else if (is(command, "run", &value)) {
        EQUAL(system(value), 0);
    } else if (strcmp(command, "wait") == 0) {
        OK(VELOC_Checkpoint_wait());
    } else if (strcmp(command, "drain") == 0) {
        OK(VELOC_Finalize(1));
        begin();
        protect();
    } else if (is(command, "noinit", &value)) {
        OK(VELOC_Finalize(1));
        snprintf(f.rest, sizeof f.rest, "%s", value);
        REFUSED(initialise(), words_of(&f));
    } else if (strcmp(command, "init") == 0) {
        begin();
        protect();
    } else if (strcmp(command, "kill") == 0) {
        raise(SIGKILL);
    } else {
        check_failed(__FILE__, __LINE__, command, "is no command");
    }
}

int main(int argc, char **argv)
{
    int i = 2;
    CHECK(argc >= 2);
    configuration = argv[1];
    own_rank = (unsigned)number(argc, argv, "rank", 0);
#ifdef CHECK_WITH_MPI
    {
        int rank;
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        own_rank = (unsigned)rank;
    }
#endif
    begin();
    protect();
    for (; i < argc; i++) {
        const char *command = argv[i];
        if (strncmp(command, "rank=", 5) == 0)
            continue;
        if (command[0] == '@') {
            char *behind;
            if (strtoul(command + 1, &behind, 10) != own_rank)
                continue;
            CHECK(*behind == ':');
            command = behind + 1;
        }
        perform(command);
    }
    if (!finalized)
        OK(VELOC_Finalize(1));
    free(memory);
#ifdef CHECK_WITH_MPI
    /* One line, which no other process's gets into. */
    if (!mpi_has_ended) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
    }
    if (own_rank != 0)
        return 0;
#endif
    puts("done");
    return 0;
}
