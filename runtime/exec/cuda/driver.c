/* Opens the driver's library; see driver.h. */
#include "runtime/exec/cuda/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

#define NAME_OF(FIELD, SYMBOL, PARAMETERS) {SYMBOL, offsetof(struct tutti_cuda_driver, FIELD)},
static const struct {
    const char *symbol;
    size_t offset;
} calls[] = {TUTTI_CUDA_CALLS(NAME_OF)};

static int find_calls(struct tutti_cuda_driver *driver, struct tutti_err *err)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = dlsym(driver->library, calls[i].symbol);

        if (symbol == NULL)
            return tutti_fail(err, TUTTI_ELACK,
                              "'%s' has no '%s' (a driver for CUDA 11.8 or later)", driver->name,
                              calls[i].symbol);
        memcpy((char *)driver + calls[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

int tutti_cuda_driver_open(const char *library, struct tutti_cuda_driver *driver,
                           struct tutti_err *err)
{
    const char *named = library != NULL ? library : getenv("TUTTI_CUDA_LIBRARY");
    struct tutti_cuda_driver made = {.name = named != NULL ? named : "libcuda.so.1",
                                     .other = named != NULL};
    int status;

    if (named == NULL && tutti_cuda_image == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "this build has no kernels for GPUs (install NVIDIA's CUDA Toolkit, or "
                          "Debian's nvidia-cuda-toolkit, for nvcc, and build again)");
    made.library = dlopen(made.name, RTLD_NOW | RTLD_LOCAL);
    if (made.library == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "cannot open the driver's library: %s (a GPU of NVIDIA, and its driver: "
                          "Debian's nvidia-driver)",
                          dlerror());
    status = find_calls(&made, err);
    if (status == 0)
        status = tutti_cuda_check(&made, made.init(0), "cuInit", err);
    if (status < 0) {
        tutti_cuda_driver_close(&made);
        return status;
    }
    *driver = made;
    return 0;
}

void tutti_cuda_driver_close(struct tutti_cuda_driver *driver)
{
    if (driver->library != NULL)
        (void)dlclose(driver->library);
    *driver = (struct tutti_cuda_driver){0};
}

static enum tutti_status status_of(int result)
{
    switch (result) {
    case TUTTI_CU_OUT_OF_MEMORY:
        return TUTTI_ENOMEM;
    case TUTTI_CU_NO_DEVICE:
    case TUTTI_CU_INVALID_IMAGE:
    case TUTTI_CU_NO_BINARY_FOR_GPU:
        return TUTTI_ELACK;
    default:
        return TUTTI_EIO;
    }
}

int tutti_cuda_check(const struct tutti_cuda_driver *driver, int result, const char *call,
                     struct tutti_err *err)
{
    const char *name = NULL;
    const char *text = NULL;

    if (result == TUTTI_CU_SUCCESS)
        return 0;
    if (driver->error_name(result, &name) != TUTTI_CU_SUCCESS || name == NULL)
        name = "an error it has no name for";
    if (driver->error_text(result, &text) != TUTTI_CU_SUCCESS || text == NULL)
        text = "no words";
    return tutti_fail(err, status_of(result), "%s: %s (%d: %s)", call, name, result, text);
}
