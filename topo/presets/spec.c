/* Reading a SPEC: "NAME:4x4x8,key=value,flag" against the keys a preset says it takes. */
#include "topo/presets/spec.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

static const char dims_key[] = "DIMS";

/* The next word of a keys text: its key in [*ret_key, *ret_bytes), its default or NULL. Returns the
 * rest of the text, or NULL when there is no further word. */
static const char *next_word(const char *keys, const char **ret_key, size_t *ret_bytes,
                             const char **ret_default)
{
    size_t length;

    keys += strspn(keys, " ");
    if (*keys == '\0')
        return NULL;
    length = strcspn(keys, " ");
    *ret_key = keys;
    *ret_bytes = strcspn(keys, " =");
    *ret_default = keys[*ret_bytes] == '=' ? keys + *ret_bytes + 1 : NULL;
    return keys + length;
}

/* Finds a word of the preset's keys; false: it takes no such key. */
static bool find_word(const struct tutti_spec *spec, const char *key, size_t key_bytes,
                      const char **ret_default)
{
    const char *keys = spec->info->keys;
    const char *word;
    size_t bytes;

    while ((keys = next_word(keys, &word, &bytes, ret_default)) != NULL)
        if (bytes == key_bytes && memcmp(word, key, bytes) == 0)
            return true;
    return false;
}

/* "4x4x8, bw=, lat=, untwisted": what a preset takes. */
static const char *accepted(const struct tutti_spec *spec, char *buf, size_t buf_bytes)
{
    const char *keys = spec->info->keys;
    const char *word;
    const char *value;
    size_t bytes;
    size_t used = 0;

    buf[0] = '\0';
    while ((keys = next_word(keys, &word, &bytes, &value)) != NULL && used < buf_bytes) {
        bool dims = bytes == strlen(dims_key) && memcmp(word, dims_key, bytes) == 0;
        const char *shown = dims ? value : word;
        size_t shown_bytes = dims ? strcspn(value, " ") : bytes;
        int wrote = snprintf(buf + used, buf_bytes - used, "%s%.*s%s", used > 0 ? ", " : "",
                             (int)shown_bytes, shown, dims || value == NULL ? "" : "=");

        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used == 0)
        (void)snprintf(buf, buf_bytes, "it takes none");
    return buf;
}

/* A key that begins as the item does, or the item as it: "node" of nodes=; NULL: none. A word that
 * is known, but not with a value, is not meant once more. */
static const char *alike(const struct tutti_spec *spec, const char *item, size_t *ret_bytes)
{
    const char *keys = spec->info->keys;
    const char *word;
    const char *value;

    while ((keys = next_word(keys, &word, ret_bytes, &value)) != NULL) {
        size_t common = 0;

        while (common < *ret_bytes && item[common] == word[common])
            common++;
        if (*ret_bytes == strlen(dims_key) && memcmp(word, dims_key, *ret_bytes) == 0)
            continue;
        if (common >= 2 && (common == *ret_bytes) != (item[common] == '\0'))
            return word;
    }
    return NULL;
}

static int unknown(const struct tutti_spec *spec, const char *what, const char *item,
                   struct tutti_err *err)
{
    char words[512];
    char meant[TUTTI_HINT_BYTES];
    size_t bytes = 0;
    const char *key = alike(spec, item, &bytes);

    (void)accepted(spec, words, sizeof(words));
    if (key != NULL)
        (void)snprintf(meant, sizeof(meant), "did you mean '%.*s'? all: ", (int)bytes, key);
    else /* sides of a grid are not misspelt */
        (void)tutti_nearest_hint(isdigit((unsigned char)*item) ? "" : item, words, meant);
    return tutti_fail(err, TUTTI_EINVAL, "unknown %s '%s' of preset '%s' (%s%s)", what, item,
                      spec->info->name, meant, words);
}

/* Sorts one item "key=value", "flag" or "4x4x8" into the table. The text is cut up in place. */
static int take_item(struct tutti_spec *spec, char *item, struct tutti_err *err)
{
    char *equals = strchr(item, '=');
    const char *key = item;
    const char *value = item;
    const char *standard = NULL;
    const char *name = spec->info->name;

    if (item[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "empty item in the SPEC of preset '%s'", name);
    if (equals != NULL) {
        *equals = '\0';
        value = equals + 1;
        if (strcmp(key, dims_key) == 0 || !find_word(spec, key, strlen(key), &standard) ||
            standard == NULL)
            return unknown(spec, "key", key, err);
        if (value[0] == '\0')
            return tutti_fail(err, TUTTI_EINVAL, "key '%s' of preset '%s' has no value (%s=%.*s)",
                              key, name, key, (int)strcspn(standard, " "), standard);
    } else if (find_word(spec, item, strlen(item), &standard)) {
        if (strcmp(item, dims_key) == 0)
            return unknown(spec, "word", item, err);
        if (standard != NULL)
            return tutti_fail(err, TUTTI_EINVAL, "key '%s' of preset '%s' has no value (%s=%.*s)",
                              item, name, item, (int)strcspn(standard, " "), standard);
    } else if (isdigit((unsigned char)item[0]) &&
               find_word(spec, dims_key, strlen(dims_key), &standard)) {
        key = dims_key;
    } else {
        return unknown(spec, "word", item, err);
    }
    for (uint32_t i = 0; i < spec->item_count; i++)
        if (strcmp(spec->items[i].key, key) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "%s '%s' of preset '%s' is given twice",
                              key == dims_key ? "grid" : "key", key == dims_key ? item : key, name);
    assert(spec->item_count < sizeof(spec->items) / sizeof(spec->items[0]));
    spec->items[spec->item_count++] = (struct tutti_spec_item){.key = key, .value = value};
    return 0;
}

int tutti_spec_open(struct tutti_spec *spec, const struct tutti_preset *info, const char *items,
                    struct tutti_err *err)
{
    char *item = spec->text;
    int status = 0;

    spec->info = info;
    spec->item_count = 0;
    spec->status = 0;
    if (items == NULL)
        return 0;
    if (strlen(items) >= sizeof(spec->text))
        return tutti_fail(err, TUTTI_EINVAL, "SPEC of %zu characters (at most %zu)", strlen(items),
                          sizeof(spec->text) - 1);
    memcpy(spec->text, items, strlen(items) + 1);
    while (item != NULL && status == 0) {
        char *comma = strchr(item, ',');

        if (comma != NULL)
            *comma = '\0';
        status = take_item(spec, item, err);
        item = comma != NULL ? comma + 1 : NULL;
    }
    return status;
}

bool tutti_spec_given(const struct tutti_spec *spec, const char *key)
{
    for (uint32_t i = 0; i < spec->item_count; i++)
        if (strcmp(spec->items[i].key, key) == 0)
            return true;
    return false;
}

bool tutti_spec_flag(const struct tutti_spec *spec, const char *flag)
{
    return tutti_spec_given(spec, flag);
}

/* The text of a key: as given, or its default copied to `buf`. */
static const char *value_of(const struct tutti_spec *spec, const char *key, char *buf,
                            size_t buf_bytes)
{
    const char *standard = NULL;

    for (uint32_t i = 0; i < spec->item_count; i++)
        if (strcmp(spec->items[i].key, key) == 0)
            return spec->items[i].value;
    if (!find_word(spec, key, strlen(key), &standard) || standard == NULL) {
        assert(0 && "a build function asks for a key that its preset does not list");
        return "";
    }
    (void)snprintf(buf, buf_bytes, "%.*s", (int)strcspn(standard, " "), standard);
    return buf;
}

const char *tutti_spec_text(const struct tutti_spec *spec, const char *key)
{
    for (uint32_t i = 0; i < spec->item_count; i++)
        if (strcmp(spec->items[i].key, key) == 0)
            return spec->items[i].value;
    return NULL;
}

enum { VALUE_BYTES = 64 };

/* "auto", of a key whose default that is: the preset decides. */
static bool is_auto(const struct tutti_spec *spec, const char *key, const char *text)
{
    const char *standard = NULL;

    return strcmp(text, "auto") == 0 && find_word(spec, key, strlen(key), &standard) &&
           standard != NULL && strncmp(standard, "auto", 4) == 0;
}

/* Keeps the first error. */
static void keep(struct tutti_spec *spec, const char *key, int status, struct tutti_err *err)
{
    if (spec->status != 0 || status == 0)
        return;
    spec->status = tutti_wrap(err, status, "key '%s'", key);
    spec->err = *err;
}

uint32_t tutti_spec_count(struct tutti_spec *spec, const char *key, uint32_t min, uint32_t max)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, key, buf, sizeof(buf));
    uint64_t value = min;
    struct tutti_err err;

    if (is_auto(spec, key, text))
        return 0;
    keep(spec, key, tutti_read_count(text, min, max, &value, &err), &err);
    return (uint32_t)value;
}

uint64_t tutti_spec_rate(struct tutti_spec *spec, const char *key)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, key, buf, sizeof(buf));
    uint64_t value = 0;
    struct tutti_err err;

    if (!is_auto(spec, key, text))
        keep(spec, key, tutti_read_rate(text, &value, &err), &err);
    return value;
}

tutti_ps tutti_spec_time(struct tutti_spec *spec, const char *key)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, key, buf, sizeof(buf));
    tutti_ps value = 0;
    struct tutti_err err;

    if (!is_auto(spec, key, text))
        keep(spec, key, tutti_read_time(text, &value, &err), &err);
    return value;
}

uint32_t tutti_spec_burst(struct tutti_spec *spec)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, "burst", buf, sizeof(buf));
    uint64_t value = 0;
    struct tutti_err err;

    keep(spec, "burst", tutti_read_size(text, &value, &err), &err);
    if (value > TUTTI_BURST_BYTES_MAX)
        tutti_spec_refuse(spec, "key 'burst': '%s' is too large (at most %u bytes)", text,
                          TUTTI_BURST_BYTES_MAX);
    return (uint32_t)value & TUTTI_BURST_BYTES_MAX;
}

uint32_t tutti_spec_choice(struct tutti_spec *spec, const char *key, const char *const *names)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, key, buf, sizeof(buf));
    char words[256] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (uint32_t i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    if (is_auto(spec, key, text))
        return 0;
    for (uint32_t i = 0; names[i] != NULL && used < sizeof(words); i++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", i == 0 ? "" : ", ",
                                 names[i]);
    tutti_spec_refuse(spec, "key '%s': unknown '%s' (%s%s)", key, text,
                      tutti_nearest_hint(text, words, hint), words);
    return 0;
}

uint8_t tutti_spec_net(struct tutti_spec *spec)
{
    static const char *const kinds[] = {"ib",  "roce", "efa",   "slingshot",
                                        "tcp", "tcpx", "tcpxo", NULL};

    return (uint8_t)(TUTTI_NET_IB + tutti_spec_choice(spec, "net", kinds));
}

/* One axis of "4x4x8"; returns the rest behind the x, "" at the end, NULL if it is not a number. */
static const char *read_axis(const char *text, uint32_t *ret)
{
    uint64_t value = 0;
    const char *p = text;

    for (; isdigit((unsigned char)*p); p++)
        if ((value = value * 10 + (uint64_t)(*p - '0')) > TUTTI_PRESET_DEVICES_MAX)
            return NULL;
    if (p == text || value == 0 || (*p != 'x' && *p != '\0') || (*p == 'x' && p[1] == '\0'))
        return NULL;
    *ret = (uint32_t)value;
    return *p == 'x' ? p + 1 : p;
}

uint32_t tutti_spec_dims(struct tutti_spec *spec, uint32_t count_min, uint32_t count_max,
                         uint32_t *dims)
{
    char buf[VALUE_BYTES];
    const char *text = value_of(spec, dims_key, buf, sizeof(buf));
    const char *rest = text;
    uint64_t product = 1;
    uint32_t count = 0;

    assert(count_max <= TUTTI_DIMS_MAX);
    for (uint32_t d = 0; d < count_max; d++)
        dims[d] = 1;
    while (rest != NULL && *rest != '\0' && count < count_max) {
        rest = read_axis(rest, &dims[count]);
        if (rest != NULL && (product *= dims[count++]) > TUTTI_PRESET_DEVICES_MAX)
            break;
    }
    if (rest != NULL && *rest == '\0' && count >= count_min && product <= TUTTI_PRESET_DEVICES_MAX)
        return count;
    if (product > TUTTI_PRESET_DEVICES_MAX)
        tutti_spec_refuse(spec, "grid '%s' is too large (at most %d devices)", text,
                          TUTTI_PRESET_DEVICES_MAX);
    else if (count_min == count_max)
        tutti_spec_refuse(spec, "not a grid '%s' (%u numbers from 1 such as %.*s)", text, count_min,
                          (int)(2 * count_min - 1), "4x4x8x2x2x2x2x2");
    else
        tutti_spec_refuse(spec, "not a grid '%s' (%u to %u numbers from 1 such as 4x4x8)", text,
                          count_min, count_max);
    for (uint32_t d = 0; d < count_max; d++)
        dims[d] = 1;
    return count_min;
}

void tutti_spec_limit(struct tutti_spec *spec, uint64_t a, uint64_t b)
{
    uint64_t product;

    if (__builtin_mul_overflow(a, b, &product) || product > TUTTI_PRESET_DEVICES_MAX)
        tutti_spec_refuse(spec, "%" PRIu64 " times %" PRIu64 " devices (at most %d)", a, b,
                          TUTTI_PRESET_DEVICES_MAX);
}

void tutti_spec_refuse(struct tutti_spec *spec, const char *format, ...)
{
    va_list args;

    if (spec->status != 0)
        return;
    va_start(args, format);
    (void)vsnprintf(spec->err.text, sizeof(spec->err.text), format, args);
    va_end(args);
    spec->status = -TUTTI_EINVAL;
}

int tutti_spec_status(const struct tutti_spec *spec, struct tutti_err *err)
{
    if (spec->status == 0)
        return 0;
    if (err != NULL)
        *err = spec->err;
    return tutti_wrap(err, spec->status, "preset '%s'", spec->info->name);
}

const char *tutti_spec_preset(const struct tutti_spec *spec)
{
    return spec->info->name;
}
