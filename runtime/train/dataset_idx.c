/* MNIST and Fashion-MNIST: a file of images and one of labels, in the format IDX. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/blob.h"
#include "runtime/train/dataset_kinds.h"

enum {
    IMAGES_MAGIC = 2051, /* unsigned bytes, 3 dimensions */
    LABELS_MAGIC = 2049, /* unsigned bytes, 1 dimension */
    IMAGES_HEADER_BYTES = 16,
    LABELS_HEADER_BYTES = 8,
    IMAGE_BYTES = TUTTI_IDX_SIDE * TUTTI_IDX_SIDE,
};

struct idx {
    struct tutti_dataset set; /* what the caller holds */
    struct tutti_blob images;
    uint8_t *labels; /* [example_count], each < TUTTI_IDX_CLASSES */
};

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The header of a file: what begins with the magic of its kind. */
static int header_read(const struct tutti_blob *blob, uint32_t magic, uint8_t *ret, uint64_t bytes,
                       struct tutti_err *err)
{
    int status;

    if (blob->byte_count < bytes)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has %llu bytes, less than a header's (%llu)",
                          blob->name, (unsigned long long)blob->byte_count,
                          (unsigned long long)bytes);
    status = tutti_blob_read(blob, 0, ret, (size_t)bytes, err);
    if (status == 0 && big_endian(ret) != magic)
        status = tutti_fail(err, TUTTI_EINVAL, "'%s' begins with the number %u (IDX of %s has %u)",
                            blob->name, big_endian(ret),
                            magic == IMAGES_MAGIC ? "images" : "labels", magic);
    return status;
}

/* As many items as the header says, and nothing behind them. */
static int size_check(const struct tutti_blob *blob, uint64_t header_bytes, uint64_t item_count,
                      uint64_t item_bytes, struct tutti_err *err)
{
    uint64_t bytes = header_bytes + item_count * item_bytes;

    if (item_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' holds 0 items (at least 1)", blob->name);
    if (blob->byte_count != bytes)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has %llu bytes, and its header says %llu items (%llu bytes)",
                          blob->name, (unsigned long long)blob->byte_count,
                          (unsigned long long)item_count, (unsigned long long)bytes);
    return 0;
}

static int images_check(const struct tutti_blob *blob, uint64_t *ret_count, struct tutti_err *err)
{
    uint8_t header[IMAGES_HEADER_BYTES];
    int status = header_read(blob, IMAGES_MAGIC, header, IMAGES_HEADER_BYTES, err);

    if (status < 0)
        return status;
    if (big_endian(header + 8) != TUTTI_IDX_SIDE || big_endian(header + 12) != TUTTI_IDX_SIDE)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has images of %u x %u (%d x %d)", blob->name,
                          big_endian(header + 8), big_endian(header + 12), TUTTI_IDX_SIDE,
                          TUTTI_IDX_SIDE);
    *ret_count = big_endian(header + 4);
    return size_check(blob, IMAGES_HEADER_BYTES, *ret_count, IMAGE_BYTES, err);
}

/* All of them, from malloc. */
static int labels_read(const struct tutti_blob *blob, uint64_t image_count,
                       const struct tutti_blob *images, uint8_t **ret, struct tutti_err *err)
{
    uint8_t header[LABELS_HEADER_BYTES];
    uint8_t *labels;
    int status = header_read(blob, LABELS_MAGIC, header, LABELS_HEADER_BYTES, err);

    if (status == 0)
        status = size_check(blob, LABELS_HEADER_BYTES, big_endian(header + 4), 1, err);
    if (status < 0)
        return status;
    if (big_endian(header + 4) != image_count)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' holds %u labels, and '%s' %llu images",
                          blob->name, big_endian(header + 4), images->name,
                          (unsigned long long)image_count);
    labels = malloc(image_count);
    if (labels == NULL)
        return tutti_nomem(err);
    status = tutti_blob_read(blob, LABELS_HEADER_BYTES, labels, image_count, err);
    for (uint64_t i = 0; status == 0 && i < image_count; i++) {
        if (labels[i] >= TUTTI_IDX_CLASSES)
            status = tutti_fail(err, TUTTI_EINVAL, "'%s': label %llu is %u (0 to %d)", blob->name,
                                (unsigned long long)i, labels[i], TUTTI_IDX_CLASSES - 1);
    }
    if (status < 0) {
        free(labels);
        return status;
    }
    *ret = labels;
    return 0;
}

static int idx_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                    float *ret_target, struct tutti_err *err)
{
    const struct idx *idx = set->state;
    uint8_t image[IMAGE_BYTES];
    int status;

    assert(index < set->example_count);
    status = tutti_blob_read(&idx->images, IMAGES_HEADER_BYTES + index * IMAGE_BYTES, image,
                             IMAGE_BYTES, err);
    if (status < 0)
        return status;
    for (int i = 0; i < IMAGE_BYTES; i++)
        ret_inputs[i] = (float)image[i] / 255.0f;
    *ret_target = (float)idx->labels[index];
    return 0;
}

static void idx_close(struct tutti_dataset *set)
{
    struct idx *idx = set->state;

    tutti_blob_close(&idx->images);
    free(idx->labels);
    free(idx);
}

int tutti_idx_dataset(struct tutti_blob *images, struct tutti_blob *labels,
                      struct tutti_dataset **ret, struct tutti_err *err)
{
    struct idx *idx = calloc(1, sizeof(*idx));
    int status;

    if (idx == NULL)
        return tutti_nomem(err);
    idx->set = (struct tutti_dataset){
        .channels = 1,
        .height = TUTTI_IDX_SIDE,
        .width = TUTTI_IDX_SIDE,
        .class_count = TUTTI_IDX_CLASSES,
        .file_count = 1,
        .read = idx_read,
        .close = idx_close,
        .state = idx,
    };
    status = images_check(images, &idx->set.example_count, err);
    if (status == 0)
        status = labels_read(labels, idx->set.example_count, images, &idx->labels, err);
    if (status < 0) {
        free(idx);
        return status;
    }
    idx->set.file_example_count = idx->set.example_count;
    idx->images = *images;
    *images = (struct tutti_blob){.file = -1};
    tutti_blob_close(labels);
    *ret = &idx->set;
    return 0;
}
