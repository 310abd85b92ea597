/* A device: memory in which buffers lie, named by handles. The run loop takes, fills and reads
 * buffers through it and never looks inside; a player turns handles into what it needs: an address
 * of the host, or one of a GPU. Private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_DEVICE_H
#define TUTTI_RUNTIME_EXEC_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

struct tutti_device;
struct tutti_err;

/* Memory of a device; 0: none. */
typedef uint64_t tutti_handle;

/* One const struct a kind. */
struct tutti_device_ops {
    size_t size; /* sizeof(struct tutti_device_ops) */
    const char *name;
    /* At least 1 byte, not shared with another buffer, aligned for every data type; -TUTTI_ENOMEM.
     * What is in it is no matter. */
    int (*alloc)(const struct tutti_device *device, uint64_t bytes, tutti_handle *ret,
                 struct tutti_err *err);
    void (*free)(const struct tutti_device *device, tutti_handle memory);
    int (*fill)(const struct tutti_device *device, tutti_handle memory, unsigned char value,
                uint64_t bytes, struct tutti_err *err);
    /* To and from memory of the caller, from the beginning of the buffer; returns when done. */
    int (*write)(const struct tutti_device *device, tutti_handle to, const void *from,
                 uint64_t bytes, struct tutti_err *err);
    int (*read)(const struct tutti_device *device, void *to, tutti_handle from, uint64_t bytes,
                struct tutti_err *err);
    /* The handle of memory of the caller, which the device reaches where it is; NULL: it cannot,
     * and the run loop copies before and after. */
    tutti_handle (*borrow)(const struct tutti_device *device, void *memory);
};

/* The kind embeds this struct as its first member. */
struct tutti_device {
    const struct tutti_device_ops *ops;
};

/* The memory of this process: a handle is an address. It has no state. */
extern const struct tutti_device tutti_device_host;

static inline tutti_handle tutti_handle_of(const void *memory)
{
    return (tutti_handle)(uintptr_t)memory;
}

/* Of a handle of tutti_device_host. */
static inline void *tutti_handle_address(tutti_handle memory)
{
    return (void *)(uintptr_t)memory;
}

#endif
