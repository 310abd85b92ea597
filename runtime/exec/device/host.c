/* The memory of this process as a device: a handle is an address. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/device/device.h"
#include "runtime/status.h"

static int host_alloc(const struct tutti_device *device, uint64_t bytes, tutti_handle *ret,
                      struct tutti_err *err)
{
    enum { ALIGNMENT = 4096 }; /* a page: neighbours share no cache line, and pages may merge */
    uint64_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = bytes > SIZE_MAX - ALIGNMENT ? NULL : aligned_alloc(ALIGNMENT, (size_t)rounded);

    (void)device;
    if (memory == NULL)
        return tutti_nomem(err);
    *ret = tutti_handle_of(memory);
    return 0;
}

static void host_free(const struct tutti_device *device, tutti_handle memory)
{
    (void)device;
    free(tutti_handle_address(memory));
}

static int host_fill(const struct tutti_device *device, tutti_handle memory, unsigned char value,
                     uint64_t bytes, struct tutti_err *err)
{
    (void)device;
    (void)err;
    memset(tutti_handle_address(memory), value, (size_t)bytes);
    return 0;
}

static int host_write(const struct tutti_device *device, tutti_handle to, const void *from,
                      uint64_t bytes, struct tutti_err *err)
{
    (void)device;
    (void)err;
    if (bytes > 0)
        memcpy(tutti_handle_address(to), from, (size_t)bytes);
    return 0;
}

static int host_read(const struct tutti_device *device, void *to, tutti_handle from, uint64_t bytes,
                     struct tutti_err *err)
{
    (void)device;
    (void)err;
    if (bytes > 0)
        memcpy(to, tutti_handle_address(from), (size_t)bytes);
    return 0;
}

static tutti_handle host_borrow(const struct tutti_device *device, void *memory)
{
    (void)device;
    return tutti_handle_of(memory);
}

static const struct tutti_device_ops host_ops = {
    .size = sizeof(struct tutti_device_ops),
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
    .fill = host_fill,
    .write = host_write,
    .read = host_read,
    .borrow = host_borrow,
};

const struct tutti_device tutti_device_host = {.ops = &host_ops};
