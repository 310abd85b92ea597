/* No dlopen: plugins are compiled in and added by tutti_algorithm_add. */
#include <assert.h>
#include <stddef.h>

#include "runtime/coll.h"
#include "runtime/coll/plugin.h"
#include "runtime/status.h"

bool tutti_algorithm_loads(void)
{
    return false;
}

int tutti_plugin_open(const char *path, void **ret_handle, const struct tutti_plugin **ret,
                      struct tutti_err *err)
{
    (void)path;
    (void)ret_handle;
    (void)ret;
    return tutti_fail(err, TUTTI_ELACK,
                      "this build cannot load it, for want of dlopen (tutti_algorithm_add)");
}

void tutti_plugin_close(void *handle)
{
    assert(handle == NULL);
    (void)handle;
}
