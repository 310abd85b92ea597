/* The model that a command line names: a name with keys, or a file. */
#include "tools/cli/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "tools/cli/files.h"

enum { NAME_BYTES = 64, WORDS_BYTES = 2048 };

/* ---- sizes ----------------------------------------------------------------------------------- */

struct size {
    const char *key;
    uint32_t *to;
};

enum { SIZE_COUNT = 12, OPTION_COUNT = 5 }; /* the first are options, too */

static void sizes_of(struct tutti_model_params *params, struct size ret[SIZE_COUNT])
{
    struct tutti_transformer *t = &params->transformer;
    const struct size sizes[SIZE_COUNT] = {
        {"seq", &params->sequence},
        {"vocab", &params->vocabulary},
        {"classes", &params->classes},
        {"image", &params->image},
        {"predictions", &params->predictions},
        {"layers", &t->layers},
        {"hidden", &t->hidden},
        {"heads", &t->heads},
        {"kv-heads", &t->kv_heads},
        {"feed-forward", &t->feed_forward},
        {"experts", &t->experts},
        {"active", &t->active_experts},
    };

    memcpy(ret, sizes, sizeof(sizes));
}

static const char key_words[] = "seq, vocab, classes, image, predictions, layers, hidden, heads, "
                                "kv-heads, feed-forward, experts, active or tied";

/* "layers=24" or "tied"; `item` is zero-terminated. */
static int read_item(const char *item, struct tutti_model_params *params, struct tutti_err *err)
{
    struct size sizes[SIZE_COUNT];
    size_t bytes = strcspn(item, "=");
    char hint[TUTTI_HINT_BYTES];
    char key[NAME_BYTES];
    uint64_t value = 0;
    int status;

    if (strcmp(item, "tied") == 0) {
        params->transformer.tied = true;
        return 0;
    }
    sizes_of(params, sizes);
    for (int i = 0; i < SIZE_COUNT; i++) {
        if (strlen(sizes[i].key) != bytes || memcmp(sizes[i].key, item, bytes) != 0)
            continue;
        if (item[bytes] == '\0')
            return tutti_fail(err, TUTTI_EINVAL, "'%s' without a number (%s=N)", item, item);
        if (*sizes[i].to != 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice", sizes[i].key);
        status = tutti_read_count(item + bytes + 1, 1, UINT32_MAX, &value, err);
        *sizes[i].to = (uint32_t)value;
        return status < 0 ? tutti_wrap(err, status, "%s", sizes[i].key) : 0;
    }
    (void)snprintf(key, sizeof(key), "%.*s", bytes < NAME_BYTES ? (int)bytes : NAME_BYTES - 1,
                   item);
    return tutti_fail(err, TUTTI_EINVAL, "unknown key '%s' (%s%s)", key,
                      tutti_nearest_hint(key, key_words, hint), key_words);
}

/* "layers=24,hidden=1024" */
static int read_items(const char *items, struct tutti_model_params *params, struct tutti_err *err)
{
    int status = 0;

    while (*items != '\0' && status == 0) {
        size_t bytes = strcspn(items, ",");
        char *item = strndup(items, bytes);

        if (item == NULL)
            return tutti_nomem(err);
        status = read_item(item, params, err);
        free(item);
        items += bytes + (items[bytes] == ',');
    }
    return status;
}

static int read_options(const struct tutti_args *args, struct tutti_model_params *params,
                        struct tutti_err *err)
{
    struct size sizes[SIZE_COUNT];

    sizes_of(params, sizes);
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!tutti_args_given(args, sizes[i].key))
            continue;
        if (*sizes[i].to != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "the model says %s=, and so does '--%s' (give one of them)",
                              sizes[i].key, sizes[i].key);
        *sizes[i].to = (uint32_t)tutti_args_number(args, sizes[i].key);
    }
    return 0;
}

/* ---- names and files ------------------------------------------------------------------------- */

/* Is there one of this name? All of them into `words`, separated by blanks. */
static bool is_known(const char *name, size_t bytes, char words[WORDS_BYTES])
{
    struct tutti_model_entry entry;
    size_t used = 0;
    bool found = false;

    words[0] = '\0';
    for (size_t i = 0; tutti_model_at(i, &entry); i++) {
        found = found || (strlen(entry.name) == bytes && memcmp(entry.name, name, bytes) == 0);
        if (used < WORDS_BYTES)
            used += (size_t)snprintf(words + used, WORDS_BYTES - used, "%s ", entry.name);
    }
    return found;
}

static int load_known(const struct tutti_args *args, const char *word, struct tutti_workload **ret,
                      struct tutti_err *err)
{
    struct tutti_model_params params = {.size = sizeof(params)};
    size_t bytes = strcspn(word, ":");
    char name[NAME_BYTES];
    int status = 0;

    (void)snprintf(name, sizeof(name), "%.*s", (int)bytes, word);
    if (word[bytes] == ':')
        status = read_items(word + bytes + 1, &params, err);
    if (status < 0)
        return tutti_wrap(err, status, "model '%s'", name);
    status = read_options(args, &params, err);
    return status < 0 ? status : tutti_model_new(name, &params, ret, err);
}

static int load_file(const struct tutti_args *args, const char *path, struct tutti_workload **ret,
                     struct tutti_err *err)
{
    struct tutti_model_params params = {.size = sizeof(params)};
    struct size sizes[SIZE_COUNT];
    char *text = NULL;
    size_t bytes = 0;
    int status;

    sizes_of(&params, sizes);
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (tutti_args_given(args, sizes[i].key))
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' is a file, whose sizes stand in it (no '--%s')", path,
                              sizes[i].key);
    }
    status = tutti_file_read(path, &text, &bytes, err);
    if (status == 0)
        status = tutti_model_parse(path, text, bytes, ret, err);
    free(text);
    return status;
}

/* The message names both possibilities, and the models that may be meant. */
static int refuse(const char *word, const char *words, struct tutti_err *err)
{
    size_t bytes = strcspn(word, ":");
    char name[NAME_BYTES];
    char alike[256];

    (void)snprintf(name, sizeof(name), "%.*s", bytes < 63 ? (int)bytes : 63, word);
    if (tutti_alike(name, words, alike, sizeof(alike)) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "there is no model and no file '%s' (did you mean %s?)", word, alike);
    return tutti_fail(err, TUTTI_EINVAL,
                      "there is no model and no file '%s' ('tutti model list' shows the models)",
                      word);
}

int tutti_model_load(const struct tutti_args *args, const char *name_or_file,
                     struct tutti_workload **ret, struct tutti_err *err)
{
    char words[WORDS_BYTES];
    struct stat info;

    if (is_known(name_or_file, strcspn(name_or_file, ":"), words))
        return load_known(args, name_or_file, ret, err);
    if (strcmp(name_or_file, "-") == 0 || stat(name_or_file, &info) == 0)
        return load_file(args, name_or_file, ret, err);
    return refuse(name_or_file, words, err);
}

bool tutti_model_is_name(const char *name_or_file)
{
    char words[WORDS_BYTES];

    return is_known(name_or_file, strcspn(name_or_file, ":"), words);
}
