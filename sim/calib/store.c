/* A calibration in memory; see sim/calib.h. Values are few: they are kept in order, and looked up
 * by halving. */
#include "sim/calib/store.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"

#define TIME_US_MAX   1e6
#define RATE_GBPS_MAX 1e6

int tutti_calib_new(struct tutti_calib **ret, struct tutti_err *err)
{
    struct tutti_calib *calib = calloc(1, sizeof(*calib));

    if (calib == NULL)
        return tutti_nomem(err);
    *ret = calib;
    return 0;
}

void tutti_calib_free(struct tutti_calib *calib)
{
    if (calib == NULL)
        return;
    for (uint32_t i = 0; i < calib->origin_count; i++)
        free(calib->origins[i].text);
    free(calib->origins);
    free(calib->entries);
    free(calib->title);
    free(calib);
}

int tutti_calib_copy(const struct tutti_calib *calib, struct tutti_calib **ret,
                     struct tutti_err *err)
{
    struct tutti_calib *copy = NULL;
    int status = tutti_calib_new(&copy, err);

    if (status == 0 && calib->title != NULL)
        status = tutti_calib_set_title(copy, calib->title, err);
    for (uint32_t i = 0; i < calib->origin_count && status == 0; i++)
        status = tutti_calib_set_source(copy, calib->origins[i].word, calib->origins[i].text, err);
    if (status == 0 && tutti_grow(&copy->entries, &copy->entry_capacity, calib->entry_count,
                                  sizeof(*copy->entries)) < 0)
        status = tutti_nomem(err);
    if (status < 0) {
        tutti_calib_free(copy);
        return status;
    }
    if (calib->entry_count > 0)
        memcpy(copy->entries, calib->entries, calib->entry_count * sizeof(*copy->entries));
    copy->entry_count = calib->entry_count;
    *ret = copy;
    return 0;
}

/* ---- title and sources ----------------------------------------------------------------------- */

/* One line of text that begins and ends with a word, as the parser would read it back. */
static int copy_text(const char *text, char **ret, struct tutti_err *err)
{
    size_t bytes = strlen(text);
    char *copy;

    if (bytes == 0 || text[0] == ' ' || text[bytes - 1] == ' ')
        return tutti_fail(err, TUTTI_EINVAL,
                          "the text '%.64s' is empty or begins or ends with a "
                          "blank (some words)",
                          text);
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '#')
            return tutti_fail(err, TUTTI_EINVAL,
                              "the text '%.64s' is not one line of text without '#'", text);
    }
    copy = malloc(bytes + 1);
    if (copy == NULL)
        return tutti_nomem(err);
    memcpy(copy, text, bytes + 1);
    *ret = copy;
    return 0;
}

const char *tutti_calib_title(const struct tutti_calib *calib)
{
    return calib->title != NULL ? calib->title : "";
}

int tutti_calib_set_title(struct tutti_calib *calib, const char *title, struct tutti_err *err)
{
    char *copy = NULL;
    int status = copy_text(title, &copy, err);

    if (status < 0)
        return status;
    free(calib->title);
    calib->title = copy;
    return 0;
}

static struct tutti_calib_origin *find_origin(const struct tutti_calib *calib, const char *word)
{
    for (uint32_t i = 0; i < calib->origin_count; i++) {
        if (strcmp(calib->origins[i].word, word) == 0)
            return &calib->origins[i];
    }
    return NULL;
}

const char *tutti_calib_source(const struct tutti_calib *calib, const char *word)
{
    const struct tutti_calib_origin *origin = find_origin(calib, word);

    return origin != NULL ? origin->text : NULL;
}

/* Letters, digits and dashes, beginning with a letter: what is no number, and no comment. */
static bool is_word(const char *text)
{
    size_t bytes = strlen(text);
    bool good = bytes > 0 && bytes < TUTTI_CALIB_SOURCE_BYTES &&
                ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));

    for (size_t i = 0; i < bytes && good; i++)
        good = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
               (text[i] >= '0' && text[i] <= '9') || text[i] == '-';
    return good;
}

int tutti_calib_set_source(struct tutti_calib *calib, const char *word, const char *text,
                           struct tutti_err *err)
{
    struct tutti_calib_origin *origin = find_origin(calib, word);
    char *copy = NULL;
    int status;

    if (!is_word(word))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%.64s' names no source (a letter, then letters, digits and dashes, "
                          "fewer than %d)",
                          word, TUTTI_CALIB_SOURCE_BYTES);
    status = copy_text(text, &copy, err);
    if (status < 0)
        return status;
    if (origin == NULL) {
        if (tutti_grow(&calib->origins, &calib->origin_capacity, (uint64_t)calib->origin_count + 1,
                       sizeof(*calib->origins)) < 0) {
            free(copy);
            return tutti_nomem(err);
        }
        origin = &calib->origins[calib->origin_count++];
        *origin = (struct tutti_calib_origin){.text = NULL};
        memcpy(origin->word, word, strlen(word) + 1);
    }
    free(origin->text);
    origin->text = copy;
    return 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The place where a key is or would be. */
static uint32_t place_of(const struct tutti_calib *calib, struct tutti_calib_key key)
{
    uint32_t low = 0;
    uint32_t high = calib->entry_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (tutti_calib_key_order(calib->entries[middle].key) < tutti_calib_key_order(key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct tutti_calib *calib, uint32_t place, struct tutti_calib_key key)
{
    return place < calib->entry_count &&
           tutti_calib_key_order(calib->entries[place].key) == tutti_calib_key_order(key);
}

const struct tutti_calib_value *tutti_calib_find(const struct tutti_calib *calib,
                                                 struct tutti_calib_key key)
{
    uint32_t place = place_of(calib, key);

    return is_at(calib, place, key) ? &calib->entries[place].value : NULL;
}

const struct tutti_calib_value *tutti_calib_at(const struct tutti_calib *calib, size_t index,
                                               char name[TUTTI_CALIB_NAME_BYTES])
{
    if (index >= calib->entry_count)
        return NULL;
    tutti_calib_key_print(calib->entries[index].key, name);
    return &calib->entries[index].value;
}

int tutti_calib_get(const struct tutti_calib *calib, const char *name,
                    const struct tutti_calib_value **ret, struct tutti_err *err)
{
    struct tutti_calib_key key;
    int status = tutti_calib_key_read(name, &key, err);

    if (status == 0)
        *ret = tutti_calib_find(calib, key);
    return status;
}

/* The most that a value may be, and whether it may be 0. */
static double most_of(struct tutti_calib_key key, bool *ret_nothing)
{
    bool rate = key.quantity == TUTTI_CALIB_LANE || key.quantity == TUTTI_CALIB_P2P_LANE;
    bool percent = key.quantity == TUTTI_CALIB_PERCENT || key.quantity == TUTTI_CALIB_P2P_PERCENT;

    *ret_nothing = key.gpu != TUTTI_CALIB_FRAMEWORK && !percent;
    if (key.gpu == TUTTI_CALIB_FRAMEWORK)
        return tutti_calib_framework_most(key);
    return percent ? 100 : rate ? RATE_GBPS_MAX : TIME_US_MAX;
}

static int check_value(const struct tutti_calib *calib, const char *name,
                       struct tutti_calib_key key, const struct tutti_calib_value *value,
                       struct tutti_err *err)
{
    bool nothing;
    double most = most_of(key, &nothing);

    if (!(value->value >= 0 && value->value <= most) || (!nothing && !(value->value > 0)))
        return tutti_fail(err, TUTTI_EINVAL, "%s is '%g' (%s to %g)", name, value->value,
                          nothing ? "0" : "more than 0", most);
    if (isnan(value->low) != isnan(value->high) || value->low > value->value ||
        value->high < value->value || isinf(value->low) || isinf(value->high))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s is '%g' of '%g' to '%g' (an interval that holds it)", name,
                          value->value, value->low, value->high);
    if (memchr(value->source, '\0', sizeof(value->source)) == NULL ||
        (value->source[0] != '\0' && find_origin(calib, value->source) == NULL))
        return tutti_fail(err, TUTTI_EINVAL, "%s comes of '%.*s' (a source that was named before)",
                          name, TUTTI_CALIB_SOURCE_BYTES - 1, value->source);
    return 0;
}

int tutti_calib_set(struct tutti_calib *calib, const char *name,
                    const struct tutti_calib_value *value, struct tutti_err *err)
{
    struct tutti_calib_key key;
    int status = tutti_calib_key_read(name, &key, err);
    uint32_t place;

    if (status == 0)
        status = check_value(calib, name, key, value, err);
    if (status < 0)
        return status;
    place = place_of(calib, key);
    if (is_at(calib, place, key)) {
        calib->entries[place].value = *value;
        return 0;
    }
    if (tutti_grow(&calib->entries, &calib->entry_capacity, (uint64_t)calib->entry_count + 1,
                   sizeof(*calib->entries)) < 0)
        return tutti_nomem(err);
    memmove(&calib->entries[place + 1], &calib->entries[place],
            (calib->entry_count - place) * sizeof(*calib->entries));
    calib->entries[place] = (struct tutti_calib_entry){.key = key, .value = *value};
    calib->entry_count++;
    return 0;
}

int tutti_calib_unset(struct tutti_calib *calib, const char *name, struct tutti_err *err)
{
    struct tutti_calib_key key;
    int status = tutti_calib_key_read(name, &key, err);
    uint32_t place;

    if (status < 0)
        return status;
    place = place_of(calib, key);
    if (!is_at(calib, place, key))
        return 0;
    calib->entry_count--;
    memmove(&calib->entries[place], &calib->entries[place + 1],
            (calib->entry_count - place) * sizeof(*calib->entries));
    return 0;
}
