/* A queue of a device: what is put into it is done in order, later, while the host goes on. It is
 * what work gets whose memory is the device's (struct tutti_work_call.queue). Private to the room
 * runtime. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_QUEUE_H
#define TUTTI_RUNTIME_EXEC_DEVICE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/device/kernel_args.h"

struct tutti_err;
struct tutti_product;
struct tutti_device_queue;

/* Addresses but those of the host are the device's. */
struct tutti_device_queue_ops {
    int (*alloc)(struct tutti_device_queue *queue, uint64_t bytes, void **ret,
                 struct tutti_err *err);
    /* NULL is a no-op. May wait for all that the device does. */
    void (*free)(struct tutti_device_queue *queue, void *at);
    /* `from` may be changed when it returns. */
    int (*upload)(struct tutti_device_queue *queue, void *to, const void *from, uint64_t bytes,
                  struct tutti_err *err);
    /* Returns when it is done, and all that was put into the queue before. */
    int (*download)(struct tutti_device_queue *queue, void *to, const void *from, uint64_t bytes,
                    struct tutti_err *err);
    int (*copy)(struct tutti_device_queue *queue, void *to, const void *from, uint64_t bytes,
                struct tutti_err *err);
    int (*clear)(struct tutti_device_queue *queue, void *at, uint64_t bytes, struct tutti_err *err);
    /* args->count items; none is a no-op. */
    int (*launch)(struct tutti_device_queue *queue, enum tutti_train_kernel kernel,
                  const struct tutti_kernel_args *args, struct tutti_err *err);
    int (*multiply)(struct tutti_device_queue *queue, const struct tutti_product *product,
                    struct tutti_err *err);
};

/* The kind embeds this struct as its first member. */
struct tutti_device_queue {
    const struct tutti_device_queue_ops *ops;
};

#endif
