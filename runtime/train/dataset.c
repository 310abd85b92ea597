/* Data sets by name. */
#include "runtime/train/dataset.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/blob.h"
#include "runtime/train/dataset_kinds.h"

enum { FILES_MAX = TUTTI_CIFAR_FILES_MAX };

/* A kind of files has a folder after its name, and opens `count` blobs of it. */
struct kind {
    const char *name;
    const char *files[2][FILES_MAX]; /* by part; none: synthetic */
    enum tutti_synthetic synthetic;
    bool is_cifar;
};

#define IDX_FILES                                               \
    {                                                           \
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}, \
        {                                                       \
            "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"  \
        }                                                       \
    }

static const struct kind kinds[] = {
    {.name = "mnist", .files = IDX_FILES},
    {.name = "fashion-mnist", .files = IDX_FILES},
    {.name = "cifar10",
     .files = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                "data_batch_5.bin"},
               {"test_batch.bin"}},
     .is_cifar = true},
    {.name = "synthetic-mnist", .synthetic = TUTTI_SYNTHETIC_MNIST},
    {.name = "synthetic-cifar10", .synthetic = TUTTI_SYNTHETIC_CIFAR10},
    {.name = "synthetic-text", .synthetic = TUTTI_SYNTHETIC_TEXT},
    {.name = "line", .synthetic = TUTTI_SYNTHETIC_LINE},
};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

const char *tutti_dataset_kinds(void)
{
    return "mnist:FOLDER, fashion-mnist:FOLDER, cifar10:FOLDER, synthetic-mnist, "
           "synthetic-cifar10, synthetic-text, line";
}

/* The kind, and the folder behind a colon (NULL: none is given). */
static int kind_find(const char *name, const struct kind **ret, const char **ret_folder,
                     struct tutti_err *err)
{
    const char *colon = strchr(name, ':');
    size_t bytes = colon == NULL ? strlen(name) : (size_t)(colon - name);
    const struct kind *kind = NULL;
    bool is_folder;

    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strlen(kinds[i].name) == bytes && strncmp(kinds[i].name, name, bytes) == 0)
            kind = &kinds[i];
    }
    if (kind == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown data set '%s' (%s)", name,
                          tutti_dataset_kinds());
    is_folder = colon != NULL && colon[1] != '\0';
    if (kind->files[0][0] != NULL && !is_folder)
        return tutti_fail(err, TUTTI_EINVAL, "data set '%s': no folder of its files (%s:FOLDER)",
                          name, kind->name);
    if (kind->files[0][0] == NULL && colon != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "data set '%s' has no files (just %s)", name,
                          kind->name);
    *ret = kind;
    *ret_folder = is_folder ? colon + 1 : NULL;
    return 0;
}

static int files_open(const struct kind *kind, enum tutti_dataset_part part, const char *folder,
                      struct tutti_dataset **ret, struct tutti_err *err)
{
    const char *const *files = kind->files[part];
    struct tutti_blob blobs[FILES_MAX] = {{.name = NULL}};
    uint32_t count = 0;
    int status = 0;

    for (; status == 0 && count < FILES_MAX && files[count] != NULL; count++)
        status = tutti_blob_open(folder, files[count], &blobs[count], err);
    if (status == 0 && kind->is_cifar)
        status = tutti_cifar_dataset(blobs, count, ret, err);
    else if (status == 0)
        status = tutti_idx_dataset(&blobs[0], &blobs[1], ret, err);
    for (uint32_t i = 0; i < count; i++)
        tutti_blob_close(&blobs[i]);
    return status;
}

/* The first `limit` examples, and the files that they lie in. */
static void shorten(struct tutti_dataset *set, uint64_t limit)
{
    if (limit == 0 || limit >= set->example_count)
        return;
    set->example_count = limit;
    if (set->file_count > 0)
        set->file_count = (uint32_t)((limit - 1) / set->file_example_count + 1);
}

int tutti_dataset_open(const struct tutti_dataset_ask *ask, struct tutti_dataset **ret,
                       struct tutti_err *err)
{
    const struct kind *kind = NULL;
    const char *folder = NULL;
    struct tutti_dataset *set = NULL;
    int status = kind_find(ask->name, &kind, &folder, err);

    if (status < 0)
        return status;
    if (folder != NULL)
        status = files_open(kind, ask->part, folder, &set, err);
    else
        status = tutti_synthetic_dataset(kind->synthetic, ask->part, ask->seed, &set, err);
    if (status < 0)
        return tutti_wrap(err, status, "data set '%s'", kind->name);
    shorten(set, ask->example_limit);
    *ret = set;
    return 0;
}

void tutti_dataset_close(struct tutti_dataset *set)
{
    if (set != NULL && set->close != NULL)
        set->close(set);
}

uint64_t tutti_dataset_input_count(const struct tutti_dataset *set)
{
    return (uint64_t)set->channels * set->height * set->width;
}
