/* zlib by dlopen: the name that it has everywhere, then the file that configuration found. */
#include "runtime/gzip.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "runtime/train/gzip.h"

/* Of zlib.h, whose gzFile is a pointer; every version since 1.2.4 has them. */
struct zlib {
    const char *(*version)(void);
    void *(*open)(const char *path, const char *mode);
    int (*direct)(void *file);
    int (*read)(void *file, void *buf, unsigned bytes);
    const char *(*error)(void *file, int *ret_number);
    int (*close)(void *file);
};

enum { Z_ERRNO = -1, CHUNK_BYTES = 1 << 20 };

/* A function of that name; C has no cast from an object's address to a function's. */
static bool find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);

    memcpy(ret_function, &address, sizeof(address));
    return address != NULL;
}

static bool load(struct zlib *ret)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void *library = dlopen("libz.so.1", flags);
    bool complete;

    if (library == NULL)
        library = dlopen(TUTTI_BUILD_ZLIB, flags);
    if (library == NULL)
        return false;
    complete = find(library, "zlibVersion", &ret->version) && find(library, "gzopen", &ret->open) &&
               find(library, "gzdirect", &ret->direct) && find(library, "gzread", &ret->read) &&
               find(library, "gzerror", &ret->error) && find(library, "gzclose_r", &ret->close);
    (void)dlclose(library); /* one count less; it stays */
    return complete;
}

const char *tutti_gzip_version(void)
{
    struct zlib zlib;

    return load(&zlib) ? zlib.version() : NULL;
}

/* Of a file that ends too early zlib says so only here. */
static int check_end(const struct zlib *zlib, void *file, const char *path, struct tutti_err *err)
{
    int number = 0;
    const char *text = zlib->error(file, &number);

    if (number == 0)
        return 0;
    if (number == Z_ERRNO)
        return tutti_fail(err, TUTTI_EIO, "cannot read '%s': %s", path, strerror(errno));
    return tutti_fail(err, TUTTI_EINVAL, "'%s' is damaged or cut off: %.80s", path, text);
}

/* Room for one chunk more than is there; doubles. */
static int grow(uint8_t **memory, uint64_t count, uint64_t *room, struct tutti_err *err)
{
    uint8_t *more;

    if (*room - count >= CHUNK_BYTES)
        return 0;
    *room = *room > 0 ? 2 * *room : 4 * CHUNK_BYTES;
    more = realloc(*memory, *room);
    if (more == NULL)
        return tutti_nomem(err);
    *memory = more;
    return 0;
}

static int read_all(const struct zlib *zlib, void *file, const char *path, uint64_t bytes_max,
                    uint8_t **memory, uint64_t *ret_bytes, struct tutti_err *err)
{
    uint64_t room = 0;
    uint64_t count = 0;
    int got = 1;
    int status = 0;

    while (status == 0 && got > 0) {
        status = grow(memory, count, &room, err);
        if (status == 0)
            got = zlib->read(file, *memory + count, CHUNK_BYTES);
        if (status == 0 && got > 0)
            count += (uint64_t)got;
        if (status == 0 && count > bytes_max)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "'%s' unpacks to more than %llu bytes (gunzip "
                                "it)",
                                path, (unsigned long long)bytes_max);
    }
    *ret_bytes = count;
    return status;
}

int tutti_gzip_read(const char *path, uint64_t bytes_max, uint8_t **ret, uint64_t *ret_bytes,
                    struct tutti_err *err)
{
    struct zlib zlib;
    uint8_t *memory = NULL;
    void *file;
    int status;

    if (!load(&zlib))
        return tutti_fail(err, TUTTI_ELACK,
                          "'%s' is compressed, and zlib is not here (gunzip '%s', or apt install "
                          "zlib1g)",
                          path, path);
    errno = 0;
    file = zlib.open(path, "rb");
    if (file == NULL)
        return errno == 0 || errno == ENOMEM
                   ? tutti_nomem(err)
                   : tutti_fail(err, TUTTI_EIO, "cannot open '%s': %s", path, strerror(errno));
    status = read_all(&zlib, file, path, bytes_max, &memory, ret_bytes, err);
    if (status == 0)
        status = check_end(&zlib, file, path, err);
    if (status == 0 && zlib.direct(file) != 0)
        status = tutti_fail(err, TUTTI_EINVAL, "'%s' is not of gzip, whatever its name says", path);
    (void)zlib.close(file);
    if (status < 0)
        free(memory);
    else
        *ret = memory;
    return status;
}
