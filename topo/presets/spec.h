/* The inside of a SPEC that is being read. */
#ifndef TUTTI_TOPO_PRESETS_SPEC_H
#define TUTTI_TOPO_PRESETS_SPEC_H

#include "runtime/status.h"
#include "topo/presets/preset.h"

enum { TUTTI_SPEC_ITEMS_MAX = 32 };

struct tutti_spec_item {
    const char *key; /* a flag is its own value */
    const char *value;
};

struct tutti_spec {
    const struct tutti_preset *info;
    uint32_t item_count; /* no item twice, so no more than keys in a preset */
    struct tutti_spec_item items[TUTTI_SPEC_ITEMS_MAX];
    int status; /* the first error of a getter, or 0 */
    struct tutti_err err;
    char text[TUTTI_SPEC_BYTES_MAX]; /* what `items` points into */
};

/* Reads the items behind the colon (NULL: none) for a preset. */
int tutti_spec_open(struct tutti_spec *spec, const struct tutti_preset *info, const char *items,
                    struct tutti_err *err);

#endif
