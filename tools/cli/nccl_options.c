/* The options --as-nccl and --env; see nccl_options.h. */
#include "tools/cli/nccl_options.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_version(const struct tutti_args *args, struct tutti_nccl_options *options,
                        struct tutti_err *err)
{
    int status = 0;

    options->asked = tutti_args_text(args, "as-nccl");
    options->version = tutti_nccl_version_default();
    if (options->asked != NULL)
        status = tutti_nccl_version_find(options->asked, &options->version, err);
    return status < 0 ? tutti_wrap(err, status, "option '--as-nccl'") : 0;
}

/* Two values of one variable: NCCL has one environment, and whoever typed both did not mean the
 * last. What is inherited may be set otherwise. */
static int set_once(const char *name, uint64_t *set, struct tutti_err *err)
{
    const char *known;

    for (size_t i = 0; (known = tutti_nccl_env_name_at(i)) != NULL; i++) {
        if (strcmp(name, known) != 0)
            continue;
        assert(i < 64);
        if ((*set >> i & 1) != 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", name);
        *set |= UINT64_C(1) << i;
    }
    return 0;
}

/* One NAME=VALUE. Jobs set many that decide nothing here: these are passed over, and named. */
static int add_item(struct tutti_nccl_options *options, char *item, uint64_t *set, FILE *out,
                    FILE *over, struct tutti_err *err)
{
    size_t name_bytes = strcspn(item, "=");
    int status = 0;

    if (item[name_bytes] == '=') {
        bool other;

        item[name_bytes] = '\0';
        status = set_once(item, set, err);
        other = tutti_nccl_env_is_other(item);
        if (other)
            fprintf(over, "%s%s", ftell(over) > 0 ? ", " : "", item);
        item[name_bytes] = '=';
        if (other || status < 0)
            return status;
    }
    fprintf(out, "%s%s", ftell(out) > 0 ? "," : "", item);
    return tutti_nccl_env_add(options->env, item, err);
}

static int add_words(struct tutti_nccl_options *options, const char *words, uint64_t *set,
                     FILE *out, FILE *over, struct tutti_err *err)
{
    char *text = strdup(words);
    int status = 0;

    if (text == NULL)
        return tutti_nomem(err);
    for (char *item = text; status == 0 && item != NULL;) {
        const char *comma = tutti_nccl_env_comma(item);
        char *next = NULL;

        if (comma != NULL) {
            next = item + (comma - item);
            *next++ = '\0';
        }
        status = add_item(options, item, set, out, over, err);
        item = next;
    }
    free(text);
    return status;
}

/* Those of this process's own environment that are modelled. */
static int add_inherited(struct tutti_nccl_options *options, FILE *out, struct tutti_err *err)
{
    const char *name;
    int status = 0;

    for (size_t i = 0; status == 0 && (name = tutti_nccl_env_name_at(i)) != NULL; i++) {
        const char *value = getenv(name);

        if (value == NULL)
            continue;
        fprintf(out, "%s%s=%s", ftell(out) > 0 ? "," : "", name, value);
        status = tutti_nccl_env_set(options->env, name, value, err);
    }
    return status;
}

static int read_words(const struct tutti_args *args, struct tutti_nccl_options *options, FILE *out,
                      FILE *over, struct tutti_err *err)
{
    const char *word;
    uint64_t set = 0;
    int status = 0;

    for (uint32_t i = 0; status == 0 && (word = tutti_args_word(args, "env", i)) != NULL; i++)
        status = strcmp(word, "inherit") == 0 ? add_inherited(options, out, err)
                                              : add_words(options, word, &set, out, over, err);
    return status < 0 ? tutti_wrap(err, status, "option '--env'") : 0;
}

/* Closes a text in memory; no memory is what could fail. */
static int end_text(FILE *text, int status, struct tutti_err *err)
{
    bool whole = text != NULL && fclose(text) == 0;

    return status < 0 || whole ? status : tutti_nomem(err);
}

static int read_env(const struct tutti_args *args, struct tutti_nccl_options *options,
                    struct tutti_sink *sink, struct tutti_err *err)
{
    char *passed = NULL;
    size_t bytes[2] = {0, 0};
    FILE *over;
    FILE *out;
    int status;

    if (!tutti_args_given(args, "env"))
        return 0;
    status = tutti_nccl_env_new(&options->env, err);
    if (status < 0)
        return status;
    out = open_memstream(&options->text, &bytes[0]);
    over = open_memstream(&passed, &bytes[1]);
    if (out != NULL && over != NULL)
        status = read_words(args, options, out, over, err);
    status = end_text(out, status, err);
    status = end_text(over, status, err);
    if (status == 0 && passed[0] != '\0')
        fprintf(sink->notes,
                "tutti: option '--env': passed over, as nothing modelled depends on it: %s\n",
                passed);
    free(passed);
    return status;
}

bool tutti_algorithm_is_nccl(const char *name)
{
    return strcmp(name, "nccl") == 0 || strncmp(name, "nccl:", 5) == 0 ||
           strncmp(name, "rccl:", 5) == 0;
}

/* To give what nothing heeds would look like an answer. */
int tutti_nccl_options_refuse(const struct tutti_args *args, struct tutti_err *err)
{
    if (!tutti_args_given(args, "as-nccl") && !tutti_args_given(args, "env"))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--%s' is about what NCCL decides (with '-a nccl')",
                      tutti_args_given(args, "as-nccl") ? "as-nccl" : "env");
}

int tutti_nccl_options_read(const struct tutti_args *args, bool used,
                            struct tutti_nccl_options *ret, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    struct tutti_nccl_options options = {.env = NULL};
    int status = used ? read_version(args, &options, err) : tutti_nccl_options_refuse(args, err);

    if (status == 0)
        status = read_env(args, &options, sink, err);
    if (status < 0) {
        tutti_nccl_options_done(&options);
        return status;
    }
    if (options.text != NULL && options.text[0] == '\0') {
        free(options.text);
        options.text = NULL;
    }
    *ret = options;
    return 0;
}

void tutti_nccl_options_done(struct tutti_nccl_options *options)
{
    tutti_nccl_env_free(options->env);
    free(options->text);
    *options = (struct tutti_nccl_options){.env = NULL};
}
