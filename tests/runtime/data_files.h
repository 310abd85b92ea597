/* Small files in the formats of MNIST and CIFAR-10, in a folder of their own. */
#ifndef TUTTI_TESTS_RUNTIME_DATA_FILES_H
#define TUTTI_TESTS_RUNTIME_DATA_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGE_BYTES = 28 * 28, RECORD_BYTES = 3073, DATA_PATH_BYTES = 256 };

struct data_folder {
    char path[64];
    char files[16][64];
    int count;
};

static inline void data_folder_open(struct data_folder *folder)
{
    *folder = (struct data_folder){.path = "/tmp/tutti_data_XXXXXX"};
    if (mkdtemp(folder->path) == NULL)
        abort();
}

/* Writes, or overwrites, a file of the folder. */
static inline void data_file(struct data_folder *folder, const char *name, const void *bytes,
                             size_t count)
{
    char path[DATA_PATH_BYTES];
    int known = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        abort();
    while (known < folder->count && strcmp(folder->files[known], name) != 0)
        known++;
    if (known < folder->count)
        return;
    if (folder->count == 16)
        abort();
    (void)snprintf(folder->files[folder->count++], sizeof(folder->files[0]), "%s", name);
}

static inline void data_folder_remove(struct data_folder *folder)
{
    for (int i = 0; i < folder->count; i++) {
        char path[DATA_PATH_BYTES];

        (void)snprintf(path, sizeof(path), "%s/%s", folder->path, folder->files[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder->path);
}

static inline void put_big_endian(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Image i has all bytes i, but the first, which is 255; its label is i mod 10. */
static inline void mnist_files(struct data_folder *folder, const char *part, uint32_t count)
{
    size_t bytes = 16 + (size_t)count * IMAGE_BYTES;
    uint8_t *images = malloc(bytes);
    uint8_t *labels = malloc(8 + count);
    char name[64];

    if (images == NULL || labels == NULL)
        abort();
    put_big_endian(images, 2051);
    put_big_endian(images + 4, count);
    put_big_endian(images + 8, 28);
    put_big_endian(images + 12, 28);
    put_big_endian(labels, 2049);
    put_big_endian(labels + 4, count);
    for (uint32_t i = 0; i < count; i++) {
        memset(images + 16 + i * IMAGE_BYTES, (int)i, IMAGE_BYTES);
        images[16 + i * IMAGE_BYTES] = 255;
        labels[8 + i] = (uint8_t)(i % 10);
    }
    (void)snprintf(name, sizeof(name), "%s-images-idx3-ubyte", part);
    data_file(folder, name, images, bytes);
    (void)snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", part);
    data_file(folder, name, labels, 8 + (size_t)count);
    free(images);
    free(labels);
}

/* Records of planes of 10, 20, 30 plus the record's number; its label is that mod 10. */
static inline void cifar_file(struct data_folder *folder, const char *name, uint32_t first,
                              uint32_t count)
{
    uint8_t *records = malloc((size_t)count * RECORD_BYTES);

    if (records == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *record = records + (size_t)i * RECORD_BYTES;

        record[0] = (uint8_t)((first + i) % 10);
        for (int plane = 0; plane < 3; plane++)
            memset(record + 1 + plane * 1024, 10 * (plane + 1) + (int)(first + i), 1024);
    }
    data_file(folder, name, records, (size_t)count * RECORD_BYTES);
    free(records);
}

static inline void cifar_files(struct data_folder *folder, uint32_t count)
{
    char name[64];

    for (uint32_t i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "data_batch_%u.bin", i + 1);
        cifar_file(folder, name, i * count, count);
    }
    cifar_file(folder, "test_batch.bin", 5 * count, count);
}

#endif
