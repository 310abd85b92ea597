/* The table of all presets, and the way from a SPEC to a machine. */
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/presets/preset.h"
#include "topo/presets/spec.h"

#define PRESET(preset_name, preset_summary, preset_keys, preset_source, preset_example, build) \
    {                                                                                          \
        .name = preset_name,                                                                   \
        .summary = preset_summary,                                                             \
        .keys = preset_keys,                                                                   \
        .source = preset_source,                                                               \
        .example = preset_example,                                                             \
    },
static const struct tutti_preset presets[] = {
#include "topo/presets/generic.inc"
#include "topo/presets/gpu.inc"
#include "topo/presets/tpu.inc"
};
#undef PRESET

#define PRESET(name, summary, keys, source, example, build) build,
static tutti_preset_build *const builds[] = {
#include "topo/presets/generic.inc"
#include "topo/presets/gpu.inc"
#include "topo/presets/tpu.inc"
};
#undef PRESET

enum { PRESET_COUNT = sizeof(presets) / sizeof(presets[0]), WORD_BYTES_MAX = 32 };

const struct tutti_preset *tutti_presets(size_t *ret_count)
{
    *ret_count = PRESET_COUNT;
    return presets;
}

/* Names the preset nearest to what was written, or all of them if none is near. */
static int unknown_preset(const char *name, size_t name_bytes, struct tutti_err *err)
{
    int bytes = (int)(name_bytes < WORD_BYTES_MAX ? name_bytes : WORD_BYTES_MAX);
    size_t used = 0;
    char names[512] = "";
    char near[WORD_BYTES_MAX + 1];
    char typed[WORD_BYTES_MAX + 1];

    for (size_t i = 0; i < PRESET_COUNT && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                 presets[i].name);
    (void)snprintf(typed, sizeof(typed), "%.*s", bytes, name);
    if (tutti_nearest(typed, names, near, sizeof(near)) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown preset '%s' (did you mean '%s'?)", typed,
                          near);
    return tutti_fail(err, TUTTI_EINVAL, "unknown preset '%s' (%s)", typed, names);
}

/* Whether the preset is of no vendor's machine: its source is a clause on bw, then one on lat. */
static bool is_generic(const struct tutti_preset *preset)
{
    return strstr(preset->keys, "burst=") != NULL;
}

/* Where the figures come from that are not the preset's own: "bw as given; 500 ns a round number".
 * Leaves `text` empty where all are. */
static void source_of(const struct tutti_spec *spec, char *text, size_t text_bytes)
{
    static const char *const keys[] = {"bw",  "lat",   "nic",    "nicbw", "niclat",
                                       "hop", "cpubw", "cpulat", "dcnbw", "dcnlat"};
    const char *source = spec->info->source;
    const char *second = strstr(source, "; ");
    bool generic = is_generic(spec->info) && second != NULL;
    bool given[2] = {tutti_spec_given(spec, "bw"), tutti_spec_given(spec, "lat")};
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (tutti_spec_given(spec, keys[i]) && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used > 0 ? ", " : "",
                                     keys[i]);
    }
    if (used == 0 || used >= text_bytes)
        return;
    used += (size_t)snprintf(text + used, text_bytes - used, " as given");
    if (!generic && used < text_bytes)
        (void)snprintf(text + used, text_bytes - used, ", else: %s", source);
    if (generic && !given[0] && used < text_bytes)
        used += (size_t)snprintf(text + used, text_bytes - used, "; %.*s", (int)(second - source),
                                 source);
    if (generic && !given[1] && used < text_bytes)
        (void)snprintf(text + used, text_bytes - used, "%s", second);
}

int tutti_topo_from_spec(const char *spec, struct tutti_topo **ret, struct tutti_err *err)
{
    size_t name_bytes = strcspn(spec, ":");
    const char *items = spec[name_bytes] == ':' ? spec + name_bytes + 1 : NULL;
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_spec opened;
    char source[512];
    size_t i = 0;
    int status;

    while (i < PRESET_COUNT && (strlen(presets[i].name) != name_bytes ||
                                memcmp(presets[i].name, spec, name_bytes) != 0))
        i++;
    if (i == PRESET_COUNT)
        return unknown_preset(spec, name_bytes, err);
    status = tutti_spec_open(&opened, &presets[i], items, err);
    if (status < 0)
        return status;
    status = tutti_topo_builder_new(spec, presets[i].source, &builder, err);
    if (status < 0)
        return status;
    source_of(&opened, source, sizeof(source));
    if (source[0] != '\0')
        status = tutti_topo_set_title(builder, NULL, source, err);
    if (status == 0)
        status = builds[i](&opened, builder, err);
    if (status < 0) {
        tutti_topo_builder_free(builder);
        return status;
    }
    status = tutti_topo_freeze(builder, &topo, err);
    if (status < 0)
        return status;
    topo->is_preset = true;
    *ret = topo;
    return 0;
}
