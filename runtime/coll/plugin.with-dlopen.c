/* Loading a plugin by dlopen. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/coll/plugin.h"
#include "runtime/status.h"

bool tutti_algorithm_loads(void)
{
    return true;
}

/* All that it needs is bound now: what this library lacks is said here, not in the middle of a run.
 * Its own names stay its own, so that two plugins do not see each other. */
int tutti_plugin_open(const char *path, void **ret_handle, const struct tutti_plugin **ret,
                      struct tutti_err *err)
{
    const struct tutti_plugin *plugin;
    char here[4096];
    void *handle;

    if (strlen(path) + 3 > sizeof(here))
        return tutti_fail(err, TUTTI_EINVAL, "its name is too long");
    /* Without a slash dlopen would look for it where the system keeps libraries. */
    (void)snprintf(here, sizeof(here), "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    handle = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "cannot be loaded: %s", dlerror());
    plugin = (const struct tutti_plugin *)dlsym(handle, "tutti_plugin");
    if (plugin == NULL) {
        (void)dlclose(handle);
        return tutti_fail(err, TUTTI_EINVAL,
                          "it has no symbol 'tutti_plugin' (const struct tutti_plugin, coll.h)");
    }
    *ret_handle = handle;
    *ret = plugin;
    return 0;
}

void tutti_plugin_close(void *handle)
{
    if (handle != NULL)
        (void)dlclose(handle);
}
