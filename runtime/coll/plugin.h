/* Loading a plugin, where the system can. */
#ifndef TUTTI_RUNTIME_COLL_PLUGIN_H
#define TUTTI_RUNTIME_COLL_PLUGIN_H

struct tutti_err;
struct tutti_plugin;

/* Loads the shared object at `path` and finds its symbol `tutti_plugin`; close ends both. */
int tutti_plugin_open(const char *path, void **ret_handle, const struct tutti_plugin **ret,
                      struct tutti_err *err);
void tutti_plugin_close(void *handle); /* NULL is a no-op */

#endif
