/* Fuzzes MNIST's two files: a refusal says why, and what is taken can be read to its end. The first
 * byte says how long the file of labels is, which the input ends with. */
#include "runtime/train/blob.h"
#include "runtime/train/dataset_kinds.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

static void judge_set(const struct tutti_dataset *set, size_t bytes)
{
    struct tutti_err err = {""};
    float inputs[TUTTI_IDX_SIDE * TUTTI_IDX_SIDE];

    JUDGE(set->example_count > 0);
    JUDGE(set->example_count < bytes);
    for (uint64_t i = 0; i < set->example_count; i++) {
        float target = -1;

        JUDGE(set->read(set, i, inputs, &target, &err) == 0);
        JUDGE(target >= 0 && target < TUTTI_IDX_CLASSES);
        for (int k = 0; k < TUTTI_IDX_SIDE * TUTTI_IDX_SIDE; k++)
            JUDGE(inputs[k] >= 0 && inputs[k] <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_blob images = {.name = NULL};
    struct tutti_blob labels = {.name = NULL};
    struct tutti_dataset *set = NULL;
    struct tutti_err err = {""};
    size_t label_bytes = bytes == 0 ? 0 : data[0];
    int status;

    if (bytes == 0 || label_bytes > bytes - 1)
        return 0;
    status = tutti_blob_of_memory("images", data + 1, bytes - 1 - label_bytes, &images, &err);
    if (status == 0)
        status =
            tutti_blob_of_memory("labels", data + bytes - label_bytes, label_bytes, &labels, &err);
    if (status == 0)
        status = tutti_idx_dataset(&images, &labels, &set, &err);
    if (status == 0)
        judge_set(set, bytes);
    else
        judge_refusal(status, &err);
    tutti_dataset_close(set);
    tutti_blob_close(&images);
    tutti_blob_close(&labels);
    return 0;
}
