/* What checkpoints ask of a file system, behind a table: tests let any of it fail. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_DISK_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_DISK_H

#include <stddef.h>
#include <stdint.h>

/* Each returns 0 (or what it says) or an errno, negated. Threads call them at the same time. */
struct tutti_disk {
    void *context;
    int (*make_folder)(void *context, const char *path);
    int (*create)(void *context, const char *path); /* empty, to be written; a file number */
    int (*open)(void *context, const char *path);   /* to be read; a file number */
    int64_t (*write)(void *context, int file, const void *data, size_t bytes); /* how many */
    int64_t (*read)(void *context, int file, void *data, size_t bytes, uint64_t offset);
    int64_t (*size)(void *context, int file);
    int (*sync)(void *context, int file); /* to the medium */
    int (*close)(void *context, int file);
    int (*sync_folder)(void *context, const char *path); /* the names in it */
    int (*rename)(void *context, const char *from, const char *to);
    int (*remove)(void *context, const char *path);
    int (*remove_folder)(void *context, const char *path); /* an empty one */
    /* Every name but "." and ".."; stops where `visit` returns not 0, and returns that. */
    int (*list)(void *context, const char *path, int (*visit)(void *data, const char *name),
                void *data);
};

/* The system's. */
extern const struct tutti_disk tutti_disk_system;

#endif
