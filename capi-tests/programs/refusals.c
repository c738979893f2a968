/*
 * Everything that must be refused: refusals <configuration> <directory>
 *
 * Each refusal is -1 with a text that names the thing, and changes nothing; the process goes on.
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Configurations that VELOC_Init_single must refuse, and the words its error must have. */
static const struct {
    const char *text;
    const char *words;
} bad_configurations[] = {
    {"", "mode"},
    {"scratch = D\n", "mode|missing"},
    {"[io]\nmode = async\nscratch = D\n", "mode|missing|below [io]"},
    {"mode = async\n", "scratch|missing"},
    {"mode = fast\nscratch = D\n", "mode|fast|sync|async"},
    {"mode =\nscratch = D\n", "mode"},
    {"mode async\nscratch = D\n", "line 1|mode async"},
    {"mode = async\nscratch = D\n[open\n", "line 3"},
    {"mode = async\nscratch =\n", "scratch"},
    {"mode = async\nscratch = D\nhost_cache_size = lots\n", "host_cache_size|lots"},
    {"mode = async\nscratch = D\nhost_cache_size = -1\n", "host_cache_size|-1"},
    {"mode = async\nscratch = D\nhost_cache_size = 8000000\n", "host_cache_size|mmap"},
    {"mode = async\nscratch = D\ngpu_cache_size = 1X\n", "gpu_cache_size|1X"},
    {"mode = async\nscratch = D\ngpu_chunk_size = 0\n", "gpu_chunk_size|0"},
    {"mode = async\nscratch = D\nephemeral = maybe\n", "ephemeral|maybe"},
    {"mode = async\nscratch = D\nrestore_order = up\n", "restore_order|up|reverse"},
    {"mode = async\nscratch = D\ntouch = none\n", "touch|none"},
    {"mode = async\nscratch = D\ntouch_threads = 1000\n", "touch_threads|1000"},
    {"mode = async\nscratch = D\ntouch_method = look\n", "touch_method|look"},
    {"mode = async\nscratch = D\nhuge_pages = 3\n", "huge_pages|3"},
    {"mode = async\nscratch = D\npin = all\n", "pin|all|serial"},
    {"mode = async\nscratch = D\npin_chunk_size = 3G\n", "pin_chunk_size|3G"},
    {"mode = async\nscratch = D\naggregated = true\n", "aggregated|meta"},
    {"mode = async\nscratch = D\nchksum = true\n", "chksum|meta"},
    {"mode = async\nscratch = D\naxl_type = x\n", "axl_type|not supported"},
    {"mode = async\nscratch = D\ndaos_pool = x\n", "daos_pool|not supported"},
    {"mode = async\nscratch = D/file\n", "scratch|file"},
    {"mode = async\nscratch = D\npersistent = D/file/below\n", "persistent|below"},
    {"mode = async\nscratch = D\nhost_cache_size = \xff\n", "line 3|UTF-8"},
};

/* Options that VELOC_Init_single_options must refuse, beside mode = async and ephemeral = true. */
static const struct {
    VELOC_Option option;
    const char *words;
} bad_options[] = {
    {{"touch", "none"}, "option|touch|none"},
    {{"scratch", "~/x"}, "option|scratch|~/x"},
    {{"chksum", "maybe"}, "option|chksum|maybe"},
    {{"axl_type", "x"}, "option|axl_type|not supported"},
    {{"Mode", "sync"}, "option|mode|twice|async|sync"},
    {{NULL, "x"}, "the key of option 3|NULL"},
    {{"touch", NULL}, "option|touch|NULL"},
    {{"", "x"}, "option 3|no key"},
    {{"scratch", "/tmp/\xff"}, "option|scratch|UTF-8"},
};

static char path[4096];

static const char *below(const char *directory, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_text(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

/* The table's `D` is the directory of this test. */
static void configurations(const char *directory)
{
    char configuration[4096];
    unsigned i;
    write_text(below(directory, "file"), "no directory");
    for (i = 0; i < sizeof bad_configurations / sizeof bad_configurations[0]; i++) {
        const char *from = bad_configurations[i].text;
        char text[8192] = "";
        size_t length = 0;
        for (; *from != '\0'; from++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%.*s",
                                       *from == 'D' ? 4000 : 1, *from == 'D' ? directory : from);
        snprintf(configuration, sizeof configuration, "%s/bad.cfg", directory);
        write_text(configuration, text);
        printf("configuration %u\n", i);
        REFUSED(VELOC_Init_single(0, configuration), bad_configurations[i].words);
        /* Its own client is not there either. */
        REFUSED(VELOC_Checkpoint_wait(), "VELOC_Init");
    }
    REFUSED(VELOC_Init_single(0, "/nonexistent/veloc.cfg"), "/nonexistent/veloc.cfg");
    REFUSED(VELOC_Init_single(0, directory), directory);
    REFUSED(VELOC_Init_single(0, NULL), "cfg_file|NULL");
    REFUSED(VELOC_Init_single(0, ""), "configuration");
    REFUSED(VELOC_Init_single(0, "/tmp/\xff\xfe"), "UTF-8");
}

static void options(void)
{
    VELOC_Option given[] = {{"mode", "async"}, {"ephemeral", "true"}, {NULL, NULL}};
    unsigned i;
    for (i = 0; i < sizeof bad_options / sizeof bad_options[0]; i++) {
        given[2] = bad_options[i].option;
        printf("options %u\n", i);
        REFUSED(VELOC_Init_single_options(0, given, 3), bad_options[i].words);
        REFUSED(VELOC_Checkpoint_wait(), "VELOC_Init");
    }
    REFUSED(VELOC_Init_single_options(0, given, 1), "options|scratch is missing");
    REFUSED(VELOC_Init_single_options(0, NULL, 3), "options|NULL|3");
    REFUSED(VELOC_Init_single_options(0, given, (size_t)-1), "n is -1");
    REFUSED(VELOC_Init_single_options(0, NULL, 0), "mode");
    /* In a file this is a warning. */
    given[2].key = "scrath";
    given[2].value = "/nowhere";
    REFUSED(VELOC_Init_single_options(0, given, 3), "unknown key scrath|scratch meant");
    /* An empty value is none; the texts are the caller's afterwards. */
    given[2].key = "scratch";
    given[2].value = "";
    OK(VELOC_Init_single_options(0, given, 3));
    REFUSED(VELOC_Init_single_options(0, given, 3), "initialised already");
    OK(VELOC_Finalize(1));
}

static void outside_a_job(const char *when)
{
    char text[1024] = "untouched";
    int id = 1;
    VELOC_Region region = {1, NULL, 0, 1};
    VELOC_Metrics metrics;
    printf("%s\n", when);
    REFUSED(VELOC_Mem_protect(1, text, 4, 1), "VELOC_Init");
    REFUSED(VELOC_Mem_protect_list(&region, 1), "VELOC_Init");
    REFUSED(VELOC_Restart_list("list", 1, &region, 1, 1), "VELOC_Init");
    REFUSED(VELOC_Mem_unprotect(1), "VELOC_Init");
    REFUSED(VELOC_Mem_clear(), "VELOC_Init");
    REFUSED(VELOC_Region_protect(1, text, 4, 1, "x"), "VELOC_Init");
    REFUSED(VELOC_Region_unprotect(1, "x"), "VELOC_Init");
    REFUSED(VELOC_Region_clear("x"), "VELOC_Init");
    REFUSED(VELOC_Route_file("/tmp/x", text), "VELOC_Init");
    REFUSED(VELOC_Cleanup("x"), "VELOC_Init");
    REFUSED(VELOC_Checkpoint("x", 1), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_begin("x", 1), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_mem(), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &id, 1), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_end(1), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_wait(), "VELOC_Init");
    REFUSED(VELOC_Checkpoint_finished(), "VELOC_Init");
    REFUSED(VELOC_Restart_test("x", 0), "VELOC_Init");
    REFUSED(VELOC_Restart("x", 1), "VELOC_Init");
    REFUSED(VELOC_Restart_begin("x", 1), "VELOC_Init");
    REFUSED(VELOC_Recover_mem(), "VELOC_Init");
    REFUSED(VELOC_Recover_selective(VELOC_RECOVER_SOME, &id, 1), "VELOC_Init");
    REFUSED(VELOC_Recover_size(1), "VELOC_Init");
    REFUSED(VELOC_Restart_end(1), "VELOC_Init");
    REFUSED(VELOC_Prefetch_enqueue("x", 1), "VELOC_Init");
    REFUSED(VELOC_Prefetch_start(), "VELOC_Init");
    CHECK(!VELOC_Next_prefetched("x", 1, 1));
    EQUAL(VELOC_Recover_ckpt_size("x", 1, 1), 0);
    REFUSED(VELOC_Set_stream(NULL), "VELOC_Init");
    REFUSED(VELOC_Get_metrics(&metrics, sizeof metrics), "VELOC_Init");
    VELOC_Get_trf_metrics(text);
    EQUAL(strlen(text), 0);
    REFUSED(VELOC_Finalize(1), "no job");
    REFUSED(VELOC_Finalize(0), "no job");
}

static void names_and_versions(void)
{
    static char longest[128], too_long[129], enormous[4000];
    const char *bad[] = {"", "a b", "a/b", "../x", "a-b", "x\n", "\xc3\xa9", "a:b", "*", too_long,
                         enormous};
    unsigned i;
    OK(VELOC_Mem_protect(9, longest, sizeof longest, 1));
    memset(longest, 'n', 127);
    memset(too_long, 'n', 128);
    memset(enormous, 'n', sizeof enormous - 1);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(VELOC_Checkpoint(bad[i], 1), "name");
        REFUSED(VELOC_Checkpoint_begin(bad[i], 1), "name");
        REFUSED(VELOC_Restart_test(bad[i], 0), "name");
        REFUSED(VELOC_Restart(bad[i], 1), "name");
        REFUSED(VELOC_Restart_begin(bad[i], 1), "name");
        REFUSED(VELOC_Cleanup(bad[i]), "name");
        REFUSED(VELOC_Region_protect(1, longest, 1, 1, bad[i]), "name");
        REFUSED(VELOC_Region_unprotect(1, bad[i]), "name");
        REFUSED(VELOC_Region_clear(bad[i]), "name");
        REFUSED(VELOC_Prefetch_enqueue(bad[i], 1), "name");
        CHECK(!VELOC_Next_prefetched(bad[i], 1, 1));
        EQUAL(VELOC_Recover_ckpt_size(bad[i], 1, 1), 0);
    }
    REFUSED(VELOC_Checkpoint(NULL, 1), "name|NULL");
    REFUSED(VELOC_Checkpoint_begin(NULL, 1), "name|NULL");
    REFUSED(VELOC_Restart_test(NULL, 1), "name|NULL");
    REFUSED(VELOC_Restart(NULL, 1), "name|NULL");
    REFUSED(VELOC_Restart_begin(NULL, 1), "name|NULL");
    REFUSED(VELOC_Cleanup(NULL), "name|NULL");
    REFUSED(VELOC_Region_protect(1, longest, 1, 1, NULL), "name|NULL");
    REFUSED(VELOC_Region_unprotect(1, NULL), "name|NULL");
    REFUSED(VELOC_Region_clear(NULL), "name|NULL");
    REFUSED(VELOC_Prefetch_enqueue(NULL, 1), "name|NULL");
    CHECK(!VELOC_Next_prefetched(NULL, 1, 1));
    EQUAL(VELOC_Recover_ckpt_size(NULL, 1, 1), 0);
    REFUSED(VELOC_Checkpoint("x", -1), "version|-1");
    REFUSED(VELOC_Checkpoint_begin("x", -2147483647 - 1), "version|-2147483648");
    REFUSED(VELOC_Restart_test("x", -1), "version|-1");
    REFUSED(VELOC_Restart("x", -1), "version|-1");
    REFUSED(VELOC_Restart("x", 1), "x|1");
    REFUSED(VELOC_Prefetch_enqueue("x", -1), "version|-1");
    /* It may still come. */
    OK(VELOC_Prefetch_enqueue("x", 1));
    /* The largest of both is allowed. */
    OK(VELOC_Checkpoint(longest, 2147483647));
    EQUAL(VELOC_Restart_test(longest, 0), 2147483647);
    OK(VELOC_Restart(longest, 2147483647));
    OK(VELOC_Cleanup(longest));
    OK(VELOC_Mem_unprotect(9));
}

/* Version 2 of "list" has regions 1 and 2, of 32 and 16 bytes. What is open and protected stays so. */
static void restored_to_a_list(VELOC_Region *list)
{
    static unsigned char other[16];
    VELOC_Region one = {2, NULL, 16, 1};
    one.ptr = other;
    memset(list[1].ptr, 7, 16);
    OK(VELOC_Checkpoint_begin("open", 1));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Restart_list("list", 2, NULL, 0, 0));
    REFUSED(VELOC_Restart_list("list", 3, NULL, 0, 0), "\"list\" version 3");
    REFUSED(VELOC_Restart_list("list", 3, &one, 1, 0), "\"list\" version 3");
    memset(other, 9, sizeof other);
    OK(VELOC_Restart_list("list", 2, &one, 1, 0));
    EQUAL(memcmp(other, list[2].ptr, 0), 0);
    EQUAL(other[0], 0);
    EQUAL(((unsigned char *)list[1].ptr)[0], 7);
    one.count = 15;
    REFUSED(VELOC_Restart_list("list", 2, &one, 1, 0), "region 2 has 16 bytes|15 are protected");
    one.id = 9;
    REFUSED(VELOC_Restart_list("list", 2, &one, 1, 0), "it has no region 9");
    one.ptr = NULL;
    REFUSED(VELOC_Restart_list("list", 2, &one, 1, 0), "list[0]|NULL");
    REFUSED(VELOC_Restart_list("list", 2, NULL, 2, 0), "2 entries");
    REFUSED(VELOC_Restart_list(NULL, 2, &one, 1, 0), "name");
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Restart("list", 2));
    EQUAL(((unsigned char *)list[1].ptr)[0], 0);
}

/* All of a list or nothing: what was protected before is a checkpoint's afterwards, and no more. */
static void lists(void)
{
    static unsigned char memory[64];
    VELOC_Region list[3] = {{1, NULL, 8, 4}, {2, NULL, 16, 1}, {3, NULL, 1, 1}};
    int i;
    for (i = 0; i < 3; i++)
        list[i].ptr = memory + 16 * i;
    OK(VELOC_Mem_protect(1, memory, 5, 1));
    list[2].ptr = NULL;
    REFUSED(VELOC_Mem_protect_list(list, 3), "list[2]|region 3|NULL");
    list[2].ptr = (void *)(uintptr_t)8;
    REFUSED(VELOC_Mem_protect_list(list, 3), "list[2]|region 3|1 bytes at 0x8");
    list[2].ptr = memory;
    list[2].base_size = (size_t)-1;
    REFUSED(VELOC_Mem_protect_list(list, 3), "list[2]|region 3");
    list[2].base_size = 1;
    list[2].id = 1;
    REFUSED(VELOC_Mem_protect_list(list, 3), "list[2]|region 1|list[0]");
    REFUSED(VELOC_Mem_protect_list(NULL, 2), "2 entries");
    REFUSED(VELOC_Mem_protect_list(list, (size_t)-1), "entries");
    REFUSED(VELOC_Mem_unprotect(2), "region 2");
    OK(VELOC_Mem_protect_list(NULL, 0));
    OK(VELOC_Checkpoint("list", 1));
    EQUAL(VELOC_Recover_ckpt_size("list", 1, 1), 5);
    EQUAL(VELOC_Recover_ckpt_size("list", 1, 2), 0);
    OK(VELOC_Mem_protect_list(list, 2));
    OK(VELOC_Checkpoint("list", 2));
    EQUAL(VELOC_Recover_ckpt_size("list", 2, 1), 32);
    EQUAL(VELOC_Recover_ckpt_size("list", 2, 2), 16);
    restored_to_a_list(list);
    OK(VELOC_Mem_clear());
    OK(VELOC_Cleanup("list"));
}

static void pointers_and_sizes(void)
{
    static unsigned char memory[64];
    int ids[1] = {5};
    REFUSED(VELOC_Mem_protect(5, NULL, 1, 1), "region 5|NULL");
    REFUSED(VELOC_Mem_protect(5, memory, (size_t)-1, 2), "region 5");
    REFUSED(VELOC_Mem_protect(5, memory, (size_t)-1, 1), "region 5");
    REFUSED(VELOC_Mem_protect(5, (void *)(uintptr_t)-8, 16, 1), "region 5");
    /* A refused region is not protected, and one that was stays as it was. */
    REFUSED(VELOC_Checkpoint_begin(NULL, 0), "NULL");
    REFUSED(VELOC_Mem_unprotect(5), "region 5");
    /* No id is the library's, where there is no log of messages. */
    OK(VELOC_Mem_protect(INT32_MIN, memory, sizeof memory, 1));
    OK(VELOC_Region_protect(INT32_MIN, memory, sizeof memory, 1, "x"));
    OK(VELOC_Mem_protect(INT32_MIN + 1, memory, sizeof memory, 1));
    OK(VELOC_Mem_protect(INT32_MAX, memory, sizeof memory, 1));
    OK(VELOC_Checkpoint("ids", 1));
    OK(VELOC_Restart("ids", 1));
    OK(VELOC_Checkpoint("x", 1));
    EQUAL(VELOC_Recover_ckpt_size("x", 1, INT32_MIN), sizeof memory);
    OK(VELOC_Restart("x", 1));
    OK(VELOC_Mem_clear());
    OK(VELOC_Region_unprotect(INT32_MIN, "x"));
    OK(VELOC_Cleanup("ids"));
    OK(VELOC_Cleanup("x"));
    fill(memory, sizeof memory, 5, 1);
    OK(VELOC_Mem_protect(5, memory, sizeof memory, 1));
    REFUSED(VELOC_Mem_protect(5, NULL, 1, 1), "region 5|NULL");
    OK(VELOC_Checkpoint("kept", 1));
    EQUAL(VELOC_Recover_ckpt_size("kept", 1, 5), sizeof memory);

    OK(VELOC_Checkpoint_begin("kept", 2));
    REFUSED(VELOC_Checkpoint_selective(3, ids, 1), "mode|3");
    REFUSED(VELOC_Checkpoint_selective(-1, ids, 1), "mode|-1");
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, NULL, 1), "NULL");
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, -1), "-1");
    REFUSED(VELOC_Route_file(NULL, (char *)memory), "original|NULL");
    REFUSED(VELOC_Route_file("/tmp/x", NULL), "routed|NULL");
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Restart_begin("kept", 2));
    REFUSED(VELOC_Recover_selective(7, ids, 1), "mode|7");
    REFUSED(VELOC_Recover_selective(VELOC_RECOVER_SOME, NULL, 1), "NULL");
    REFUSED(VELOC_Recover_selective(VELOC_RECOVER_REST, ids, -7), "-7");
    EQUAL(VELOC_Recover_size(6), -1);
    OK(VELOC_Restart_end(0));
    REFUSED(VELOC_Get_metrics(NULL, 8), "metrics|NULL");
    VELOC_Get_trf_metrics(NULL);
    EQUAL(VELOC_Recover_ckpt_size("kept", 2, 6), 0);
    memset(memory, 0, sizeof memory);
    OK(VELOC_Restart("kept", 2));
    CONTENT(memory, sizeof memory, 5, 1);
}

static void order_of_calls(void)
{
    char routed[VELOC_MAX_NAME];
    int ids[1] = {5};
    REFUSED(VELOC_Checkpoint_mem(), "VELOC_Checkpoint_begin");
    REFUSED(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, ids, 1), "VELOC_Checkpoint_begin");
    REFUSED(VELOC_Checkpoint_end(1), "VELOC_Checkpoint_begin");
    REFUSED(VELOC_Recover_mem(), "VELOC_Restart_begin");
    REFUSED(VELOC_Recover_selective(VELOC_RECOVER_SOME, ids, 1), "VELOC_Restart_begin");
    EQUAL(VELOC_Recover_size(5), -1);
    REFUSED(VELOC_Restart_end(1), "VELOC_Restart_begin");
    REFUSED(VELOC_Route_file("/tmp/x", routed), "/tmp/x|no open checkpoint");

    OK(VELOC_Checkpoint_begin("open", 1));
    REFUSED(VELOC_Checkpoint_begin("open", 2), "open|version 1");
    REFUSED(VELOC_Checkpoint("open", 2), "open|version 1");
    REFUSED(VELOC_Restart("kept", 1), "open|version 1");
    REFUSED(VELOC_Restart_begin("kept", 1), "open|version 1");
    REFUSED(VELOC_Recover_mem(), "VELOC_Restart_begin");
    REFUSED(VELOC_Restart_end(1), "VELOC_Restart_begin");
    REFUSED(VELOC_Checkpoint_wait(), "VELOC_Checkpoint_end");
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(1));

    OK(VELOC_Restart_begin("open", 1));
    REFUSED(VELOC_Checkpoint_mem(), "VELOC_Checkpoint_begin");
    REFUSED(VELOC_Checkpoint_end(1), "VELOC_Checkpoint_begin");
    REFUSED(VELOC_Cleanup("open"), "open|restart");
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    EQUAL(VELOC_Restart_test("open", 0), 1);

    /* Upstream's restarts have no end, and some programs leave it out. */
    OK(VELOC_Restart_begin("open", 1));
    OK(VELOC_Restart_begin("kept", 1));
    OK(VELOC_Recover_mem());
    OK(VELOC_Checkpoint_begin("open", 2));
    REFUSED(VELOC_Restart_end(1), "VELOC_Restart_begin");
    OK(VELOC_Checkpoint_end(0));
    OK(VELOC_Restart_begin("open", 1));
    OK(VELOC_Restart("kept", 1));
    OK(VELOC_Restart_begin("open", 1));
    OK(VELOC_Checkpoint("open", 2));
    EQUAL(VELOC_Restart_test("open", 0), 2);
}

/* Memory that may be read alone can be kept, and restoring it fails before a byte of any region is
 * changed: a table of constants, and a mapping that is closed to writing in the middle, or
 * as a whole after it was restored to. */
static void memory_that_is_only_read(void)
{
    enum { PAGES = 70 };
    static const unsigned char table[40000] = {1, 2, 3};
    static unsigned char before[1000];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int own[1] = {30}, constants[1] = {31};
    void *whole;
    unsigned char *mapped;
    CHECK(posix_memalign(&whole, page, PAGES * page) == 0);
    mapped = whole;
    memset(mapped, 0, PAGES * page);
    OK(VELOC_Mem_unprotect(5));
    OK(VELOC_Mem_protect(30, before, sizeof before, 1));
    OK(VELOC_Mem_protect(31, (void *)(uintptr_t)table, sizeof table, 1));
    fill(before, sizeof before, 30, 1);
    OK(VELOC_Checkpoint("constant", 1));
    memset(before, 0xee, sizeof before);
    REFUSED(VELOC_Restart("constant", 1), "constant|version 1|region 31|cannot be written");
    OK(VELOC_Restart_begin("constant", 1));
    REFUSED(VELOC_Recover_mem(), "region 31|cannot be written");
    REFUSED(VELOC_Recover_selective(VELOC_RECOVER_SOME, constants, 1), "region 31");
    EQUAL(before[0], 0xee);
    EQUAL(before[sizeof before - 1], 0xee);
    OK(VELOC_Recover_selective(VELOC_RECOVER_SOME, own, 1));
    CONTENT(before, sizeof before, 30, 1);
    OK(VELOC_Restart_end(1));

    OK(VELOC_Mem_protect(31, mapped, PAGES * page, 1));
    OK(VELOC_Checkpoint("constant", 2));
    CHECK(mprotect(mapped + page, page, PROT_READ) == 0);
    memset(before, 0xee, sizeof before);
    REFUSED(VELOC_Restart("constant", 2), "region 31|cannot be written");
    EQUAL(before[0], 0xee);
    CHECK(mprotect(mapped, PAGES * page, PROT_READ | PROT_WRITE) == 0);
    OK(VELOC_Restart("constant", 2));
    CHECK(mprotect(mapped, PAGES * page, PROT_READ) == 0);
    REFUSED(VELOC_Restart("constant", 2), "region 31|cannot be written");
    OK(VELOC_Mem_unprotect(30));
    OK(VELOC_Mem_unprotect(31));
    CHECK(mprotect(mapped, PAGES * page, PROT_READ | PROT_WRITE) == 0);
    free(whole);
}

/* Without a driver in the process there is nothing to give a stream to. */
static void no_driver(void)
{
    REFUSED(VELOC_Set_stream((void *)(uintptr_t)0x1234), "stream");
    OK(VELOC_Set_stream(NULL));
}

/* Programs of older and of newer headers: nothing beyond their size is written, and what this library
 * does not know is 0. */
static void sizes_of_metrics(void)
{
    enum { NEWER = 16, MARK = 0xa5 };
    unsigned char bytes[sizeof(VELOC_Metrics) + NEWER];
    char text[1024];
    size_t i;
    memset(bytes, MARK, sizeof bytes);
    OK(VELOC_Get_metrics((VELOC_Metrics *)bytes, 0));
    EQUAL(bytes[0], MARK);
    OK(VELOC_Get_metrics((VELOC_Metrics *)bytes, sizeof(VELOC_Sum)));
    EQUAL(bytes[sizeof(VELOC_Sum) - 1], 0);
    EQUAL(bytes[sizeof(VELOC_Sum)], MARK);
    OK(VELOC_Get_metrics((VELOC_Metrics *)bytes, sizeof bytes));
    for (i = sizeof(VELOC_Metrics); i < sizeof bytes; i++)
        EQUAL(bytes[i], 0);
    memset(text, MARK, sizeof text);
    VELOC_Get_trf_metrics(text);
    CHECK(memchr(text, '\0', sizeof text) != NULL);
    CHECK(strncmp(text, "{AtoD : 0, AtoH : ", 18) == 0 && strstr(text, ", FtoA : ") != NULL);
    CHECK(strcmp(text + strlen(text) - 3, ", }") == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    EQUAL(strlen(VELOC_Last_error()), 0);
    configurations(argv[2]);
    options();
    outside_a_job("before the job");
    OK(VELOC_Init_single(4294967295u, argv[1]));
    names_and_versions();
    lists();
    pointers_and_sizes();
    order_of_calls();
    memory_that_is_only_read();
    no_driver();
    sizes_of_metrics();
    OK(VELOC_Finalize(1));
    outside_a_job("after the job");
    puts("done");
    return 0;
}
