/* Structs of callers who were compiled with an older or a newer version of a door. */
#include "runtime/api.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"

int tutti_take(const char *name, void *ret, size_t ret_bytes, const void *given, size_t first_bytes,
               struct tutti_err *err)
{
    size_t size;

    assert(first_bytes >= sizeof(size));
    assert(first_bytes <= ret_bytes);
    if (given == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no struct %s is given", name);
    memcpy(&size, given, sizeof(size)); /* its first field */
    if (size < first_bytes)
        return tutti_fail(err, TUTTI_EINVAL,
                          "struct %s has size %zu (at least %zu: set .size to sizeof(struct %s))",
                          name, size, first_bytes, name);
    for (size_t i = ret_bytes; i < size; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return tutti_fail(err, TUTTI_ELACK,
                              "struct %s of %zu bytes asks for more than this library knows (0 "
                              "after %zu bytes)",
                              name, size, ret_bytes);
    }
    memset(ret, 0, ret_bytes);
    memcpy(ret, given, size < ret_bytes ? size : ret_bytes);
    memcpy(ret, &ret_bytes, sizeof(ret_bytes));
    return 0;
}
