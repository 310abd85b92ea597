/* Replays a corpus through a fuzz target where there is no libFuzzer: each file as it is, cut at
 * some places, and with some bytes changed, the same each time. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "tests/fuzz/fuzz.h"

enum { PATH_BYTES = 4096, CUTS = 8, CHANGES_STANDARD = 16 };

struct replay {
    struct tutti_random random;
    uint64_t change_count; /* changed copies of each file */
    uint64_t run_count;
    uint64_t file_count;
};

/* In a block of exactly its size, so that a sanitizer sees every byte read beyond the end. */
static void run(struct replay *replay, const char *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);

    if (copy == NULL) {
        fprintf(stderr, "replay: out of memory\n");
        exit(1);
    }
    memcpy(copy, data, bytes);
    (void)LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    replay->run_count++;
}

/* One to four bytes replaced, by any byte or by one that stands elsewhere in the file. */
static void change(struct replay *replay, const char *data, char *changed, size_t bytes)
{
    uint64_t places = 1 + tutti_random_below(&replay->random, 4);

    memcpy(changed, data, bytes);
    for (uint64_t i = 0; i < places; i++) {
        size_t at = (size_t)tutti_random_below(&replay->random, bytes);

        if (tutti_random_below(&replay->random, 2) == 0)
            changed[at] = (char)tutti_random_next(&replay->random);
        else
            changed[at] = data[tutti_random_below(&replay->random, bytes)];
    }
}

static void replay_bytes(struct replay *replay, const char *data, size_t bytes)
{
    char *changed = malloc(bytes > 0 ? bytes : 1);

    run(replay, data, bytes);
    for (uint64_t i = 0; i < CUTS && bytes > 0; i++)
        run(replay, data, (size_t)tutti_random_below(&replay->random, bytes));
    for (uint64_t i = 0; i < replay->change_count && bytes > 0 && changed != NULL; i++) {
        change(replay, data, changed, bytes);
        run(replay, changed, bytes);
    }
    free(changed);
}

static int replay_file(struct replay *replay, const char *path)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long bytes = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        bytes = ftell(file);
    if (bytes >= 0 && fseek(file, 0, SEEK_SET) == 0)
        data = malloc((size_t)bytes + 1);
    if (data == NULL || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        fprintf(stderr, "replay: cannot read '%s': %s\n", path, strerror(errno));
        free(data);
        if (file != NULL)
            fclose(file);
        return 1;
    }
    fclose(file);
    fprintf(stderr, "replay: %s\n", path);
    replay_bytes(replay, data, (size_t)bytes);
    replay->file_count++;
    free(data);
    return 0;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_folder(struct replay *replay, const char *folder)
{
    struct dirent **entries = NULL;
    char path[PATH_BYTES];
    int failed = 0;
    int count = scandir(folder, &entries, visible, alphasort);

    if (count < 0) {
        fprintf(stderr, "replay: cannot read the folder '%s': %s\n", folder, strerror(errno));
        return 1;
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        failed |= replay_file(replay, path);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

/* replay [--seed=N] [--changes=N] FOLDER... */
int main(int argc, char **argv)
{
    struct replay replay = {.change_count = CHANGES_STANDARD};
    uint64_t seed = 42;
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seed=", 7) == 0)
            seed = strtoull(argv[i] + 7, NULL, 0);
        else if (strncmp(argv[i], "--changes=", 10) == 0)
            replay.change_count = strtoull(argv[i] + 10, NULL, 0);
    }
    tutti_random_seed(&replay.random, seed);
    run(&replay, "", 0);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--", 2) != 0)
            failed |= replay_folder(&replay, argv[i]);
    printf("seed %" PRIu64 ": %" PRIu64 " files, %" PRIu64 " runs\n", seed, replay.file_count,
           replay.run_count);
    if (replay.file_count == 0)
        fprintf(stderr, "replay: nothing to replay (folders of inputs)\n");
    return failed != 0 || replay.file_count == 0;
}
