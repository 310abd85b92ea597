/* CIFAR-10 in its binary version: files of records, a label and three planes of pixels each. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/blob.h"
#include "runtime/train/dataset_kinds.h"

struct cifar {
    struct tutti_dataset set; /* what the caller holds */
    struct tutti_blob blob[TUTTI_CIFAR_FILES_MAX];
};

static int files_check(const struct tutti_blob *blobs, uint32_t count, struct tutti_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned long long bytes = blobs[i].byte_count;

        if (bytes == 0 || bytes % TUTTI_CIFAR_RECORD_BYTES != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' has %llu bytes (records of %d bytes, at least one)",
                              blobs[i].name, bytes, TUTTI_CIFAR_RECORD_BYTES);
        if (bytes != blobs[0].byte_count)
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' has %llu bytes, and '%s' %llu (equally many)", blobs[i].name,
                              bytes, blobs[0].name, (unsigned long long)blobs[0].byte_count);
    }
    return 0;
}

static int cifar_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                      float *ret_target, struct tutti_err *err)
{
    const struct cifar *cifar = set->state;
    const struct tutti_blob *blob = &cifar->blob[index / set->file_example_count];
    uint64_t at = index % set->file_example_count;
    uint8_t record[TUTTI_CIFAR_RECORD_BYTES];
    int status;

    assert(index < set->example_count);
    status = tutti_blob_read(blob, at * TUTTI_CIFAR_RECORD_BYTES, record, sizeof(record), err);
    if (status < 0)
        return status;
    if (record[0] >= TUTTI_CIFAR_CLASSES)
        return tutti_fail(err, TUTTI_EINVAL, "'%s': the label of record %llu is %u (0 to %d)",
                          blob->name, (unsigned long long)at, record[0], TUTTI_CIFAR_CLASSES - 1);
    for (int i = 1; i < TUTTI_CIFAR_RECORD_BYTES; i++)
        ret_inputs[i - 1] = (float)record[i] / 255.0f;
    *ret_target = (float)record[0];
    return 0;
}

static void cifar_close(struct tutti_dataset *set)
{
    struct cifar *cifar = set->state;

    for (uint32_t i = 0; i < TUTTI_CIFAR_FILES_MAX; i++)
        tutti_blob_close(&cifar->blob[i]);
    free(cifar);
}

int tutti_cifar_dataset(struct tutti_blob *blobs, uint32_t blob_count, struct tutti_dataset **ret,
                        struct tutti_err *err)
{
    struct cifar *cifar;
    int status;

    assert(blob_count > 0);
    assert(blob_count <= TUTTI_CIFAR_FILES_MAX);
    status = files_check(blobs, blob_count, err);
    if (status < 0)
        return status;
    cifar = calloc(1, sizeof(*cifar));
    if (cifar == NULL)
        return tutti_nomem(err);
    cifar->set = (struct tutti_dataset){
        .channels = 3,
        .height = TUTTI_CIFAR_SIDE,
        .width = TUTTI_CIFAR_SIDE,
        .class_count = TUTTI_CIFAR_CLASSES,
        .file_count = blob_count,
        .file_example_count = blobs[0].byte_count / TUTTI_CIFAR_RECORD_BYTES,
        .read = cifar_read,
        .close = cifar_close,
        .state = cifar,
    };
    cifar->set.example_count = cifar->set.file_example_count * blob_count;
    for (uint32_t i = 0; i < blob_count; i++) {
        cifar->blob[i] = blobs[i];
        blobs[i] = (struct tutti_blob){.file = -1};
    }
    *ret = &cifar->set;
    return 0;
}
