/* What a preset is made of: a line in a table, a build function, and the reading of its SPEC. */
#ifndef TUTTI_TOPO_PRESETS_PRESET_H
#define TUTTI_TOPO_PRESETS_PRESET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"
#include "topo/topo.h"

struct tutti_err;

/* A SPEC is "NAME" or "NAME:item,item,...". An item is "key=value", a flag ("untwisted") or the
 * grid size ("4x4x8"). Which items a preset takes stands in its `keys` text, words separated by
 * single blanks, and nowhere else:
 *   "bw=50GB/s"   a key and its default
 *   "bw=auto"     a key whose default depends on others: the getters return 0, the preset decides
 *   "DIMS=4x4x4"  takes a grid size without a key; its default
 *   "untwisted"   a flag, off by default
 * Unknown, doubled and empty items were refused before the build function is called. */
struct tutti_spec;

enum {
    TUTTI_PRESET_DEVICES_MAX = 1 << 24, /* refuse to build more: a typing error, not a machine */
    TUTTI_SPEC_BYTES_MAX = 512,
};

/* Getters for the value given or the default. The first wrong value is kept in the spec and later
 * getters return what they can (0, or min), so that a build function reads all of its keys and then
 * asks once: `if ((status = tutti_spec_status(spec, err)) < 0) return status;`. */
uint32_t tutti_spec_count(struct tutti_spec *spec, const char *key, uint32_t min, uint32_t max);
uint64_t tutti_spec_rate(struct tutti_spec *spec, const char *key); /* bytes per second */
tutti_ps tutti_spec_time(struct tutti_spec *spec, const char *key);
/* burst=, at most TUTTI_BURST_BYTES_MAX. */
uint32_t tutti_spec_burst(struct tutti_spec *spec);
/* The index of the value in `names` (NULL ends it), the first of which is taken for "auto". */
uint32_t tutti_spec_choice(struct tutti_spec *spec, const char *key, const char *const *names);
/* net=, an enum tutti_net_kind. */
uint8_t tutti_spec_net(struct tutti_spec *spec);
bool tutti_spec_flag(const struct tutti_spec *spec, const char *flag);
bool tutti_spec_given(const struct tutti_spec *spec, const char *key); /* else it is the default */
const char *tutti_spec_text(const struct tutti_spec *spec, const char *key); /* as written */

/* The grid size: from count_min to count_max (<= TUTTI_DIMS_MAX) axes, each at least 1, of at most
 * TUTTI_PRESET_DEVICES_MAX devices together. Returns the number of axes; dims[] is padded with 1 up
 * to count_max. */
uint32_t tutti_spec_dims(struct tutti_spec *spec, uint32_t count_min, uint32_t count_max,
                         uint32_t *dims);

/* Refuses a machine of more than TUTTI_PRESET_DEVICES_MAX devices, a * b of them. */
void tutti_spec_limit(struct tutti_spec *spec, uint64_t a, uint64_t b);

/* Keeps a refusal of the preset's own ("shape '3x3' has no twist (...)"), if it is the first. */
__attribute__((format(printf, 2, 3))) void tutti_spec_refuse(struct tutti_spec *spec,
                                                             const char *format, ...);

/* 0, or the first error kept, with "preset 'NAME': " before it. */
int tutti_spec_status(const struct tutti_spec *spec, struct tutti_err *err);

/* The name of the preset, for functions that build a family of them. */
const char *tutti_spec_preset(const struct tutti_spec *spec);

/* Adds nodes, links, shape and routes to `builder`, whose name is the SPEC and whose source is the
 * preset's. The caller freezes it. */
typedef int tutti_preset_build(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                               struct tutti_err *err);

/* The table is put together in presets.c from generic.inc, gpu.inc and tpu.inc: one line
 *   PRESET(name, summary, keys, source, example, build)
 * a preset. The build functions: */
#define PRESET(name, summary, keys, source, example, build) tutti_preset_build build;
#include "topo/presets/generic.inc"
#include "topo/presets/gpu.inc"
#include "topo/presets/tpu.inc"
#undef PRESET

#endif
