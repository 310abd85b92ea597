/* Fuzzes CIFAR-10's files, cut out of the input by its first byte: a refusal says why, and of what
 * is taken every record is read, or refused for its label. */
#include <stdbool.h>

#include "runtime/train/blob.h"
#include "runtime/train/dataset_kinds.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

static void judge_set(const struct tutti_dataset *set, size_t bytes)
{
    float inputs[TUTTI_CIFAR_RECORD_BYTES];

    JUDGE(set->example_count > 0);
    JUDGE(set->example_count * TUTTI_CIFAR_RECORD_BYTES <= bytes);
    for (uint64_t i = 0; i < set->example_count; i++) {
        struct tutti_err err = {""};
        float target = -1;
        int status = set->read(set, i, inputs, &target, &err);

        if (status < 0)
            judge_refusal(status, &err);
        else
            JUDGE(target >= 0 && target < TUTTI_CIFAR_CLASSES);
        for (int k = 0; status == 0 && k < TUTTI_CIFAR_RECORD_BYTES - 1; k++)
            JUDGE(inputs[k] >= 0 && inputs[k] <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_blob blobs[TUTTI_CIFAR_FILES_MAX] = {{.name = NULL}};
    struct tutti_dataset *set = NULL;
    struct tutti_err err = {""};
    uint32_t count = bytes == 0 ? 1 : 1 + data[0] % TUTTI_CIFAR_FILES_MAX;
    size_t file_bytes = bytes == 0 ? 0 : (bytes - 1) / count;
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < count; i++) {
        const uint8_t *from = bytes == 0 ? data : data + 1 + i * file_bytes;
        bool is_last = i + 1 == count;

        status = tutti_blob_of_memory(
            "records", from, is_last && bytes > 0 ? (size_t)(data + bytes - from) : file_bytes,
            &blobs[i], &err);
    }
    if (status == 0)
        status = tutti_cifar_dataset(blobs, count, &set, &err);
    if (status == 0)
        judge_set(set, bytes);
    else
        judge_refusal(status, &err);
    tutti_dataset_close(set);
    for (uint32_t i = 0; i < count; i++)
        tutti_blob_close(&blobs[i]);
    return 0;
}
