/* Opens NCCL's library; see library.h. */
#include "runtime/exec/nccl/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

#define NAME_OF(FIELD, SYMBOL, RESULT, PARAMETERS) \
    {SYMBOL, offsetof(struct tutti_nccl_library, FIELD)},
static const struct {
    const char *symbol;
    size_t offset;
} calls[] = {TUTTI_NCCL_CALLS(NAME_OF)}, newer_calls[] = {TUTTI_NCCL_NEWER_CALLS(NAME_OF)};

static void *find_call(struct tutti_nccl_library *library, const char *name, size_t offset)
{
    void *symbol = dlsym(library->handle, name);

    memcpy((char *)library + offset, &symbol, sizeof(symbol));
    return symbol;
}

static int find_calls(struct tutti_nccl_library *library, struct tutti_err *err)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (find_call(library, calls[i].symbol, calls[i].offset) == NULL)
            return tutti_fail(err, TUTTI_ELACK, "'%s' has no '%s' (NCCL 2.18 or later)",
                              library->name, calls[i].symbol);
    for (size_t i = 0; i < sizeof(newer_calls) / sizeof(newer_calls[0]); i++)
        (void)find_call(library, newer_calls[i].symbol, newer_calls[i].offset);
    return 0;
}

int tutti_nccl_library_open(const char *library, struct tutti_nccl_library *ret,
                            struct tutti_err *err)
{
    const char *named = library != NULL ? library : getenv("TUTTI_NCCL_LIBRARY");
    struct tutti_nccl_library made = {.name = named != NULL ? named : "libnccl.so.2"};
    int status;

    /* It stays once it is there: threads of its own may outlive its communicators. */
    made.handle = dlopen(made.name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (made.handle == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "cannot open NCCL's library: %s (NVIDIA's libnccl2, Python's "
                          "nvidia-nccl-cu12 or -cu13, or TUTTI_NCCL_LIBRARY=FILE)",
                          dlerror());
    status = find_calls(&made, err);
    if (status == 0)
        status = tutti_nccl_check(&made, made.version(&made.code), "ncclGetVersion", err);
    if (status < 0) {
        tutti_nccl_library_close(&made);
        return status;
    }
    *ret = made;
    return 0;
}

void tutti_nccl_library_close(struct tutti_nccl_library *library)
{
    if (library->handle != NULL)
        (void)dlclose(library->handle);
    *library = (struct tutti_nccl_library){0};
}

int tutti_nccl_check(const struct tutti_nccl_library *library, int result, const char *call,
                     struct tutti_err *err)
{
    const char *text;
    const char *last;

    if (result == TUTTI_NCCL_SUCCESS || result == TUTTI_NCCL_IN_PROGRESS)
        return 0;
    text = library->result_text(result);
    last = library->last_error(NULL);
    return tutti_fail(err, TUTTI_EIO, "%s: %s (%d)%s%.200s", call, text == NULL ? "" : text, result,
                      last == NULL || last[0] == '\0' ? "" : ": ", last == NULL ? "" : last);
}

int tutti_nccl_group_begin(const struct tutti_nccl_library *library, struct tutti_err *err)
{
    return tutti_nccl_check(library, library->group_start(), "nccl group_start", err);
}

int tutti_nccl_group_end(const struct tutti_nccl_library *library, int status,
                         struct tutti_err *err)
{
    int ended = library->group_end();

    return status < 0 ? status : tutti_nccl_check(library, ended, "nccl group_end", err);
}

int tutti_nccl_type(enum tutti_dtype dtype)
{
    static const int types[TUTTI_DTYPE_COUNT] = {
        [TUTTI_INT8] = 0,    [TUTTI_UINT8] = 1,   [TUTTI_INT32] = 2,   [TUTTI_INT64] = 4,
        [TUTTI_FLOAT16] = 6, [TUTTI_FLOAT32] = 7, [TUTTI_FLOAT64] = 8, [TUTTI_BFLOAT16] = 9};

    return types[dtype];
}

int tutti_nccl_op(enum tutti_op op)
{
    static const int ops[TUTTI_OP_COUNT] = {
        [TUTTI_SUM] = 0, [TUTTI_PROD] = 1, [TUTTI_MAX] = 2, [TUTTI_MIN] = 3, [TUTTI_AVG] = 4};

    return ops[op];
}
