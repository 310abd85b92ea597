/* Every allocation of data sets and readers made to fail once. */
#include "runtime/gzip.h"
#include "runtime/train/reader.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/data_files.h"

static int read_some(const char *name, struct tutti_err *err)
{
    struct tutti_dataset_ask ask = {.name = name};
    struct tutti_feed_ask feed = {.global_batch = 3, .rank_count = 1, .shard = TUTTI_TF_SHARD_DATA};
    struct tutti_reader_ask reading = {.depth = 2};
    struct tutti_dataset *set = NULL;
    struct tutti_reader *reader = NULL;
    const struct tutti_batch *batch = NULL;
    int status = tutti_dataset_open(&ask, &set, err);

    reading.set = set;
    if (status == 0)
        status = tutti_feed_init(&feed, set, &reading.feed, err);
    if (status == 0)
        status = tutti_reader_open(&reading, &reader, err);
    for (int i = 0; status == 0 && i < 4; i++)
        status = tutti_reader_next(reader, &batch, err);
    tutti_reader_close(reader);
    tutti_dataset_close(set);
    return status;
}

TEST(reading_data_fails_cleanly)
{
    static const char *const kinds[] = {"mnist", "cifar10"};
    struct data_folder folder;
    struct tutti_err err;

    data_folder_open(&folder);
    mnist_files(&folder, "train", 4);
    cifar_files(&folder, 1);
    for (int i = 0; i < 2; i++) {
        char name[DATA_PATH_BYTES];

        (void)snprintf(name, sizeof(name), "%s:%s", kinds[i], folder.path);
        ALLOC_FAIL_EACH(read_some(name, &err), err);
    }
    ALLOC_FAIL_EACH(read_some("synthetic-mnist", &err), err);
    ALLOC_FAIL_EACH(read_some("line", &err), err);
    if (system("gzip --version >/dev/null 2>&1") == 0) {
        char line[DATA_PATH_BYTES];
        char name[DATA_PATH_BYTES];

        (void)snprintf(line, sizeof(line), "gzip -f '%s/train-images-idx3-ubyte'", folder.path);
        CHECK_INT(system(line), 0);
        (void)snprintf(name, sizeof(name), "mnist:%s", folder.path);
        if (tutti_gzip_version() != NULL)
            ALLOC_FAIL_EACH(read_some(name, &err), err);
        data_file(&folder, "train-images-idx3-ubyte.gz", "", 0); /* so that it is removed */
    }
    data_folder_remove(&folder);
}
