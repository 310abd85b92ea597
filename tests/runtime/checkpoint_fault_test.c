/* Whatever fails, and whenever a process or the power goes, the last checkpoint that was committed
 * is found whole; a damaged one is told, and the next older one is taken. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/runtime/checkpoint_faults.h"

static struct world w;
static struct faults faults;

/* Step 2 by two ranks, in incarnation 0: what must never be lost. */
static void begin_world(void)
{
    world_init(&w, 2);
    w.keep = 1;
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 2), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    w.incarnation = 1;
}

/* Steps 3 and 4 in incarnation 1; the last that was told to be committed. */
static uint64_t save_on(void)
{
    uint64_t committed = 2;
    int status = world_open_savers(&w);

    for (uint64_t step = 3; step <= 4 && status == 0; step++) {
        status = world_save(&w, SPREAD_SHARDS, step);
        committed = status == 0 ? step : committed;
    }
    (void)world_close_savers(&w);
    return committed;
}

/* Another start finds that step or a later one whole, goes on, and leaves no rest behind. */
static void start_again(uint64_t committed, const char *what, uint64_t fail_at)
{
    struct world_notes notes = {.count = 0};
    int before = test_failures;
    char names[256];
    int64_t step;

    w.disk = world_disk();
    step = world_restore(&w, 2, &notes);
    CHECK_TEXT(notes.text, ""); /* what is half there does not exist, so it is not damaged */
    if (step < (int64_t)committed || step > 4)
        TEST_FAIL("step %d is restored after %d was committed", (int)step, (int)committed);
    CHECK_OK(tutti_checkpoint_next_incarnation(NULL, w.dir, &w.incarnation, &w.err), w.err);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 5), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_INT(world_restore(&w, 3, NULL), 5);
    world_names(w.dir, names, sizeof(names));
    if (strncmp(names, "step-000005.", 12) != 0 || strchr(names, ' ') != NULL)
        TEST_FAIL("left behind: %s", names);
    if (test_failures > before)
        fprintf(stderr, "  ... %s at operation %" PRIu64 "\n", what, fail_at);
}

static uint64_t count_operations(void)
{
    struct tutti_disk disk = fault_disk(&faults, 0, false, EIO);

    begin_world();
    w.disk = &disk;
    CHECK_INT(save_on(), 4);
    start_again(4, "nothing", 0);
    world_done(&w);
    return faults.count;
}

TEST(a_process_that_is_gone_harms_nothing)
{
    uint64_t operations = count_operations();

    CHECK(operations > 100);
    for (uint64_t at = 1; at <= operations; at++) {
        struct tutti_disk disk = fault_disk(&faults, at, true, EIO);
        uint64_t committed;

        if (!test_takes())
            continue;
        begin_world();
        w.disk = &disk;
        committed = save_on();
        CHECK(faults.failed);
        start_again(committed, "gone", at);
        world_done(&w);
    }
}

TEST(power_that_goes_harms_nothing)
{
    uint64_t operations = count_operations();
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t at = 1; at <= operations + 1; at++) {
        for (uint64_t undone = 0; undone <= 4; undone += test_full ? 1 : 2) {
            struct tutti_disk disk = fault_disk(&faults, at, true, EIO);
            char trash[FAULT_PATH_BYTES];
            uint64_t committed;

            if (!test_takes())
                continue;
            begin_world();
            snprintf(trash, sizeof(trash), "%s.trash", w.dir);
            CHECK_INT(mkdir(trash, 0777), 0);
            memcpy(faults.trash, trash, sizeof(trash));
            w.disk = &disk;
            committed = save_on();
            fault_power_goes(&faults, undone, &random);
            start_again(committed, "power gone", at);
            world_remove(trash);
            world_done(&w);
        }
    }
}

/* The operation fails, the process lives: the message names a file, the failed save is not there,
 * and the next one goes well. */
TEST(what_fails_once_is_said_and_goes_well_the_next_time)
{
    static const int errors[] = {EIO, ENOSPC, EACCES};
    uint64_t operations = count_operations();
    uint64_t unseen = 0;

    for (uint64_t at = 1; at <= operations; at++) {
        struct tutti_disk disk = fault_disk(&faults, at, false, errors[at % 3]);
        uint64_t told = 0;
        uint64_t committed = 2;

        if (!test_takes())
            continue;
        begin_world();
        w.disk = &disk;
        while (world_open_savers(&w) < 0 && told++ == 0) {
            CHECK(strstr(w.err.text, w.dir) != NULL);
            (void)world_close_savers(&w);
        }
        for (uint64_t step = 3; step <= 4; step++) {
            if (world_save(&w, SPREAD_SHARDS, step) == 0) {
                committed = step;
                continue;
            }
            told++;
            CHECK(strstr(w.err.text, w.dir) != NULL);
            for (uint32_t rank = 0; rank < w.rank_count; rank++)
                (void)tutti_saver_wait(w.ranks[rank].saver, NULL);
        }
        CHECK_OK(world_close_savers(&w), w.err);
        if (told > 1 || (told == 1 && committed < 3))
            TEST_FAIL("operation %" PRIu64 ": told %d times, step %d is committed", at, (int)told,
                      (int)committed);
        unseen += told == 0; /* closing what was read, removing what has failed anyway */
        start_again(committed, "failed", at);
        world_done(&w);
    }
    CHECK(unseen < operations / 3);
}

/* ---- processes --------------------------------------------------------------------------------*/

/* Saves step after step, all ranks of one process, and tells what is committed through a pipe. */
static void save_for_ever(int pipe)
{
    if (world_open_savers(&w) < 0)
        _exit(1);
    for (uint64_t step = 1;; step++) {
        if (world_save(&w, SPREAD_RANDOM, step) < 0 ||
            write(pipe, &step, sizeof(step)) != sizeof(step))
            _exit(1);
    }
}

/* Killed at a random moment, again and again: each start goes on in the same folder. */
TEST(a_process_that_is_killed_loses_what_was_not_committed)
{
    uint64_t runs = test_count(200, 25);
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    world_init(&w, 3);
    w.keep = 2;
    for (uint64_t i = 0; i < runs && test_failures == 0; i++) {
        struct world_notes notes = {.count = 0};
        uint64_t committed = 0;
        int ends[2];
        pid_t child;

        CHECK_INT(pipe(ends), 0);
        CHECK_OK(tutti_checkpoint_next_incarnation(w.disk, w.dir, &w.incarnation, &w.err), w.err);
        child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            save_for_ever(ends[1]);
        close(ends[1]);
        CHECK(read(ends[0], &committed, sizeof(committed)) == sizeof(committed)); /* it is at it */
        nanosleep(&(struct timespec){0, (long)tutti_random_below(&random, 20000000)}, NULL);
        CHECK_INT(kill(child, SIGKILL), 0);
        CHECK_INT(waitpid(child, NULL, 0), child);
        for (uint64_t more; read(ends[0], &more, sizeof(more)) == sizeof(more);)
            committed = more;
        close(ends[0]);
        CHECK(world_restore(&w, 2, &notes) >= (int64_t)committed);
        CHECK_TEXT(notes.text, "");
    }
    world_done(&w);
}

/* Ranks of an earlier start that nobody has ended save on: what they were writing is removed below
 * them, what they still commit is older than what the new start saves. */
TEST(ranks_of_an_earlier_start_do_no_harm)
{
    static struct world zombies;
    struct tutti_saver_piece *pieces;

    begin_world();
    zombies = w;
    CHECK_OK(world_open_savers(&zombies), zombies.err);
    CHECK_OK(world_save(&zombies, SPREAD_SHARDS, 10), zombies.err);
    world_fill(&zombies, SPREAD_SHARDS, 20);
    for (uint32_t rank = 0; rank < 2; rank++) {
        pieces = zombies.ranks[rank].pieces;
        CHECK_OK(tutti_saver_begin(zombies.ranks[rank].saver, 20, pieces,
                                   zombies.ranks[rank].piece_count, NULL, 0, &zombies.err),
                 zombies.err);
        CHECK_OK(tutti_saver_wait(zombies.ranks[rank].saver, &zombies.err), zombies.err);
    }
    CHECK_OK(tutti_checkpoint_next_incarnation(w.disk, w.dir, &w.incarnation, &w.err), w.err);
    CHECK_INT(w.incarnation, 2);
    CHECK_INT(world_restore(&w, 2, NULL), 10);
    CHECK_OK(world_open_savers(&w), w.err); /* step 20 is gone */
    CHECK_OK(tutti_saver_commit(zombies.ranks[0].saver, &zombies.err), zombies.err);
    CHECK_INT(tutti_saver_wait(zombies.ranks[0].saver, &zombies.err), -TUTTI_EIO);
    CHECK(strstr(zombies.err.text, "/step-000020.1' is not committed: cannot open") != NULL);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 15), w.err);
    CHECK_OK(world_save(&zombies, SPREAD_SHARDS, 30), zombies.err);
    CHECK_INT(world_restore(&w, 2, NULL), 15);
    CHECK_OK(world_close_savers(&zombies), zombies.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 16), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_INT(world_restore(&w, 2, NULL), 16);
    world_done(&w);
}

/* ---- messages ---------------------------------------------------------------------------------*/

static void expect_text(const char *seen, const char *format, const char *file)
{
    char text[1200];

    snprintf(text, sizeof(text), format, w.dir, file);
    CHECK_TEXT(seen, text);
}

/* The first operation of a kind from now on. */
static int64_t full_write(void *context, int file, const void *data, size_t bytes)
{
    (void)context;
    (void)file;
    (void)data;
    (void)bytes;
    return -ENOSPC;
}

static int no_create(void *context, const char *path)
{
    (void)context;
    (void)path;
    return -EACCES;
}

TEST(full_disks_and_folders_that_cannot_be_written_are_named)
{
    struct tutti_disk full = *world_disk();
    struct tutti_disk shut = *world_disk();
    char names[256];
    char path[300];
    FILE *file;

    full.write = full_write;
    shut.create = no_create;
    begin_world();
    w.disk = &full;
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_INT(world_save(&w, SPREAD_SHARDS, 3), -TUTTI_EIO);
    expect_text(w.err.text, "cannot write '%s/step-000003.1/%s': No space left on device",
                "shard-000000");
    CHECK_OK(world_close_savers(&w), w.err);
    snprintf(path, sizeof(path), "%s/step-000003.1", w.dir);
    CHECK_TEXT(world_names(path, names, sizeof(names)), ""); /* there is room again */
    w.disk = &shut;
    CHECK_INT(world_open_savers(&w), -TUTTI_EIO);
    expect_text(w.err.text, "cannot create '%s/%s': Permission denied", "can-be-written");
    CHECK_OK(world_close_savers(&w), w.err);
    start_again(2, "full", 0);
    world_done(&w);

    world_init(&w, 1);
    snprintf(path, sizeof(path), "%s/file", w.dir);
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    fclose(file);
    snprintf(w.dir + strlen(w.dir), sizeof(w.dir) - strlen(w.dir), "/file");
    CHECK_INT(world_open_savers(&w), -TUTTI_EIO);
    expect_text(w.err.text, "cannot create '%s/%s': Not a directory", "can-be-written");
    CHECK_OK(world_close_savers(&w), w.err);
    snprintf(w.dir + strlen(w.dir), sizeof(w.dir) - strlen(w.dir), "/ck");
    CHECK_INT(world_open_savers(&w), -TUTTI_EIO);
    expect_text(w.err.text, "cannot make folder '%s'%s: Not a directory", "");
    CHECK_OK(world_close_savers(&w), w.err);
    w.dir[strlen(w.dir) - strlen("/file/ck")] = '\0';
    world_done(&w);
}

/* ---- damage -----------------------------------------------------------------------------------*/

/* Steps 1 and 2 of incarnation 0. */
static void two_checkpoints(void)
{
    world_init(&w, 2);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_RANDOM, 1), w.err);
    CHECK_OK(world_save(&w, SPREAD_RANDOM, 2), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
}

static const char *newer(const char *file)
{
    static char path[400];

    snprintf(path, sizeof(path), "%s/step-000002.0/%s", w.dir, file);
    return path;
}

static void write_file(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        abort();
}

/* The step that is restored, and the one line about the newer. */
static int64_t restore_quickly(struct world_notes *notes)
{
    struct tutti_checkpoint_source source = {.disk = w.disk,
                                             .model = &world_model,
                                             .verify = true,
                                             .note = world_note,
                                             .context = notes};
    struct tutti_checkpoint *c = NULL;
    int64_t step;

    memset(notes, 0, sizeof(*notes));
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    step = c == NULL ? -1 : (int64_t)tutti_checkpoint_id(c).step;
    tutti_checkpoint_close(c);
    return step;
}

/* The newer is damaged: it is told in one line that names the file. */
static void expect_older(const char *file, const char *how, size_t at)
{
    struct world_notes notes;
    int64_t step = restore_quickly(&notes);

    if (step != 1 || notes.count != 1 || strstr(notes.text, newer(file)) == NULL ||
        strchr(notes.text, '\n') != notes.text + strlen(notes.text) - 1)
        TEST_FAIL("%s %s at %zu: step %d, %u notes: %s", file, how, at, (int)step, notes.count,
                  notes.text);
}

static const char *const shard_and_manifest[] = {"shard-000000", "shard-000001", "manifest"};

TEST(any_bit_that_is_flipped_is_found)
{
    struct world_notes notes;

    two_checkpoints();
    for (size_t f = 0; f < 3; f++) {
        const char *file = shard_and_manifest[f];
        size_t bytes = 0;
        char *data = test_read_file(newer(file), &bytes);

        REQUIRE(data != NULL && bytes > 1000);
        for (size_t at = 0; at < bytes; at++) {
            bool padding = data[at] == '\n' && at > 0 && data[at - 1] == '\n';
            unsigned bit = (unsigned)(at + test_seed) % 8;

            if ((padding && at % 64 != 0 && !test_full) || !test_takes())
                continue;
            for (unsigned b = test_full ? 0 : bit; b <= (test_full ? 7 : bit); b++) {
                int number = open(newer(file), O_WRONLY);
                char flipped = (char)(data[at] ^ (1 << b));

                CHECK_INT(pwrite(number, &flipped, 1, (off_t)at), 1);
                expect_older(file, "flipped", at);
                CHECK_INT(pwrite(number, &data[at], 1, (off_t)at), 1);
                close(number);
            }
            REQUIRE(test_failures == 0);
        }
        free(data);
    }
    CHECK_INT(restore_quickly(&notes), 2);
    CHECK_INT(notes.count, 0);
    world_done(&w);
}

TEST(any_length_that_is_wrong_is_found)
{
    struct world_notes notes;

    two_checkpoints();
    for (size_t f = 0; f < 3; f++) {
        const char *file = shard_and_manifest[f];
        size_t bytes = 0;
        char *data = test_read_file(newer(file), &bytes);

        REQUIRE(data != NULL);
        for (size_t length = 0; length < bytes;
             length += test_full || bytes - length < 80 ? 1 : 17) {
            if (!test_takes())
                continue;
            write_file(newer(file), data, length);
            expect_older(file, "cut", length);
        }
        data[bytes] = 'x'; /* test_read_file has put a zero there */
        write_file(newer(file), data, bytes + 1);
        expect_older(file, "longer", bytes);
        write_file(newer(file), data, bytes);
        free(data);
    }
    CHECK_INT(restore_quickly(&notes), 2);
    world_done(&w);
}

TEST(files_that_are_gone_or_exchanged_are_found)
{
    struct world_notes notes;
    char other[400];
    char text[1200];

    two_checkpoints();
    snprintf(other, sizeof(other), "%s/other", w.dir);
    CHECK_INT(rename(newer("shard-000001"), other), 0);
    expect_older("shard-000001", "gone", 0);
    CHECK_INT(mkdir(newer("shard-000001"), 0777), 0);
    expect_older("shard-000001", "a folder", 0);
    CHECK_INT(rmdir(newer("shard-000001")), 0);
    CHECK_INT(rename(other, newer("shard-000001")), 0);
    CHECK_INT(restore_quickly(&notes), 2);

    /* The manifest of an older one, of another step than its folder. */
    CHECK_INT(rename(newer("manifest"), other), 0);
    CHECK_INT(restore_quickly(&notes), 1);
    CHECK_INT(notes.count, 0); /* without manifest it does not exist */
    CHECK_INT(mkdir(newer("manifest"), 0777), 0);
    expect_older("manifest", "a folder", 0);
    CHECK_INT(rmdir(newer("manifest")), 0);
    CHECK_INT(rename(other, newer("manifest")), 0);
    snprintf(other, sizeof(other), "%s/step-000009.0", w.dir);
    snprintf(text, sizeof(text), "%s/step-000002.0", w.dir);
    CHECK_INT(rename(text, other), 0);
    CHECK_INT(restore_quickly(&notes), 1);
    snprintf(text, sizeof(text), "'%s/manifest' is of step 2, incarnation 0\n", other);
    CHECK_TEXT(notes.text, text);
    world_done(&w);
}

TEST(where_all_are_damaged_one_starts_anew)
{
    struct world_notes notes;
    char text[1200];

    two_checkpoints();
    write_file(newer("shard-000001"), "x", 1);
    snprintf(text, sizeof(text), "%s/step-000001.0/manifest", w.dir);
    write_file(text, "tutti checkpoint 2\n", 19);
    CHECK_INT(restore_quickly(&notes), -1);
    CHECK_INT(notes.count, 2);
    CHECK(strstr(notes.text, "/step-000002.0/shard-000001' has 1 bytes (") != NULL);
    snprintf(text, sizeof(text), "%s/step-000001.0/manifest: line 1: unexpected '2' ('1')\n",
             w.dir);
    CHECK(strstr(notes.text, text) != NULL);
    world_done(&w);
}

/* A reader that has not verified all finds damage in what it reads. */
TEST(what_is_read_is_compared)
{
    struct tutti_checkpoint_source source = {.verify = false};
    struct tutti_checkpoint *c = NULL;
    size_t bytes = 0;
    char *data;

    two_checkpoints();
    data = test_read_file(newer("shard-000000"), &bytes);
    REQUIRE(data != NULL);
    data[bytes - 1] ^= 1; /* of the last slot, as its rank has it */
    write_file(newer("shard-000000"), data, bytes);
    free(data);
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    REQUIRE(c != NULL && tutti_checkpoint_id(c).step == 2);
    CHECK_INT(world_wrong(c, WEIGHTS, 0, ELEMENTS, 0, 2, &w.err), 0);
    CHECK_INT(world_wrong(c, POSITION, 0, 1, 1, 2, &w.err), 0);
    CHECK_INT(world_wrong(c, POSITION, 0, 1, 0, 2, &w.err), 2); /* refused */
    CHECK(strstr(w.err.text, "/shard-000000' is damaged: its 8 bytes from ") != NULL);
    tutti_checkpoint_close(c);
    world_done(&w);
}
