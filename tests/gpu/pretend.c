/* What a copy of NCCL asks for, answered by which copy asks: see the header. The command's own
 * getenv() and dlsym() stand before those of libc for all that is loaded later. */
#include "tests/gpu/pretend.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
    char path[256];
    char host[64];
    char bus[32]; /* "": the GPU's own */
};

/* Copies are written by pretend_open() alone, before they run; calls of libc, the driver and NVML
 * by whoever asks for them, with the same value each time. */
static struct {
    struct copy copies[PRETEND_RANKS_MAX];
    int count;
    void *(*dlsym)(void *, const char *);
    int (*proc_address)(const char *, void **, int, uint64_t, int *);
    int (*by_index)(unsigned, void **);
} pretend;

extern char **environ;

/* The copy whose code lies at an address, or NULL. */
static const struct copy *copy_at(void *address)
{
    Dl_info info;

    if (pretend.count == 0 || dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    for (int i = 0; i < pretend.count; i++)
        if (strcmp(pretend.copies[i].path, info.dli_fname) == 0)
            return &pretend.copies[i];
    return NULL;
}

char *getenv(const char *name)
{
    size_t bytes = strlen(name);
    const struct copy *copy = NULL;

    if (strcmp(name, "NCCL_HOSTID") == 0 || strncmp(name, "NCCL_DEBUG", 10) == 0)
        copy = copy_at(__builtin_return_address(0));
    if (copy != NULL && strcmp(name, "NCCL_HOSTID") == 0)
        return (char *)(uintptr_t)copy->host;
    if (copy != NULL && copy != &pretend.copies[0])
        return NULL; /* of one file that all would write */
    for (char **each = environ; each != NULL && *each != NULL; each++)
        if (strncmp(*each, name, bytes) == 0 && (*each)[bytes] == '=')
            return *each + bytes + 1;
    return NULL;
}

/* cuDeviceGetPCIBusId(): the copy's address instead of the device's. */
static int bus_of_copy(char *ret_bus, int bytes, int device)
{
    const struct copy *copy = copy_at(__builtin_return_address(0));

    (void)device;
    if (copy == NULL || bytes <= (int)strlen(copy->bus))
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    snprintf(ret_bus, (size_t)bytes, "%s", copy->bus);
    return 0;
}

/* nvmlDeviceGetHandleByPciBusId(): whatever the address, the device that all share. */
static int device_at_bus(const char *bus, void **ret)
{
    (void)bus;
    return pretend.by_index(0, ret);
}

static int proc_address(const char *name, void **ret, int version, uint64_t flags, int *ret_found)
{
    const struct copy *copy = copy_at(__builtin_return_address(0));
    int status = pretend.proc_address(name, ret, version, flags, ret_found);

    if (status != 0 || copy == NULL || copy->bus[0] == '\0')
        return status;
    if (strcmp(name, "cuDeviceGetPCIBusId") == 0)
        *ret = (void *)(uintptr_t)bus_of_copy;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        *ret = (void *)(uintptr_t)proc_address;
    return status;
}

void *dlsym(void *handle, const char *name)
{
    const struct copy *copy = copy_at(__builtin_return_address(0));
    void *found;

    if (pretend.dlsym == NULL) {
        void *real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

        if (real == NULL)
            real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&pretend.dlsym, &real, sizeof(real));
    }
    found = pretend.dlsym(handle, name);
    if (found == NULL || copy == NULL || copy->bus[0] == '\0')
        return found;
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        memcpy(&pretend.proc_address, &found, sizeof(found));
        return (void *)(uintptr_t)proc_address;
    }
    if (strcmp(name, "cuDeviceGetPCIBusId") == 0)
        return (void *)(uintptr_t)bus_of_copy;
    if (strncmp(name, "nvmlDeviceGetHandleByPciBusId", 29) == 0) {
        void *by_index = pretend.dlsym(handle, "nvmlDeviceGetHandleByIndex_v2");

        memcpy(&pretend.by_index, &by_index, sizeof(by_index));
        return by_index != NULL ? (void *)(uintptr_t)device_at_bus : found;
    }
    return found;
}

int pretend_gpus_of(const char *topology, char (*ret_bus)[32], int max)
{
    FILE *file = fopen(topology, "r");
    char line[4096];
    char bus[32] = "";
    int count = 0;

    if (file == NULL)
        return -1;
    while (count < max && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, "<pci ");
        const char *id = at == NULL ? NULL : strstr(at, "busid=\"");

        if (id != NULL)
            snprintf(bus, sizeof(bus), "%.*s", (int)strcspn(id + 7, "\""), id + 7);
        if (strstr(line, "<gpu ") != NULL)
            snprintf(ret_bus[count++], sizeof(bus), "%s", bus);
    }
    fclose(file);
    return count;
}

static int copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    struct stat about;
    ssize_t moved = 1;
    int status = -1;

    if (out >= 0 && fstat(in, &about) == 0) {
        off_t left = about.st_size;

        while (left > 0 && moved > 0) {
            moved = copy_file_range(in, NULL, out, NULL, (size_t)left, 0);
            left -= moved > 0 ? moved : 0;
        }
        moved = 1;
        while (left > 0 && moved > 0) { /* not on one file system: by hand */
            char buffer[1 << 16];

            moved = read(in, buffer, sizeof(buffer));
            if (moved <= 0 || write(out, buffer, (size_t)moved) != moved)
                break;
            left -= moved;
        }
        status = left == 0 ? 0 : -1;
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return status;
}

void *pretend_open(const char *path, const char *scratch, int rank, const char *host,
                   const char *bus)
{
    struct copy *copy = &pretend.copies[pretend.count];
    void *handle;

    if (pretend.count == PRETEND_RANKS_MAX)
        return NULL;
    snprintf(copy->path, sizeof(copy->path), "%s/nccl-%ld-%d.so", scratch, (long)getpid(), rank);
    snprintf(copy->host, sizeof(copy->host), "%s", host);
    snprintf(copy->bus, sizeof(copy->bus), "%s", bus == NULL ? "" : bus);
    if (copy_file(path, copy->path) < 0) {
        fprintf(stderr, "cannot copy '%s' to '%s': %s\n", path, copy->path, strerror(errno));
        unlink(copy->path);
        return NULL;
    }
    pretend.count++;
    handle = dlopen(copy->path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fprintf(stderr, "cannot load a copy of '%s': %s\n", path, dlerror());
    unlink(copy->path);
    return handle;
}
