/* A plugin that was built for another version of the library. */
#include "runtime/coll.h"

extern const struct tutti_plugin tutti_plugin;

const struct tutti_plugin tutti_plugin = {.size = sizeof(struct tutti_plugin),
                                          .version = TUTTI_PLUGIN_VERSION + 1};
