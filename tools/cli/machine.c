/* The machine that a command line names; see machine.h. */
#include "tools/cli/machine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/options.h"
#include "topo/local.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

/* NIC to switch, as the presets assume for InfiniBand (topo/presets/gpu.inc: niclat). */
static const tutti_ps net_latency_ps = 500 * TUTTI_PS_PER_NS;

static const struct tutti_preset *find_preset(const char *spec)
{
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);
    size_t bytes = strcspn(spec, ":");

    for (size_t i = 0; i < count; i++) {
        if (strlen(presets[i].name) == bytes && memcmp(presets[i].name, spec, bytes) == 0)
            return &presets[i];
    }
    return NULL;
}

/* Those whose summary has the word: "v100". */
static const char *alike_by_summary(const char *typed, char *buf, size_t buf_bytes)
{
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);
    size_t used = 0;

    for (size_t i = 0; i < count && used < buf_bytes && strlen(typed) >= 3; i++) {
        if (strcasestr(presets[i].summary, typed) != NULL)
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s'%s'", used > 0 ? " or " : "",
                                     presets[i].name);
    }
    return used == 0 ? NULL : buf;
}

const char *tutti_machine_alike(const char *spec, char *buf, size_t buf_bytes)
{
    size_t count = 0;
    const struct tutti_preset *presets = tutti_presets(&count);
    char names[1024] = "";
    char typed[64];
    size_t bytes = strcspn(spec, ":");
    size_t used = 0;
    const char *alike;

    for (size_t i = 0; i < count && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s|", presets[i].name);
    (void)snprintf(typed, sizeof(typed), "%.*s", (int)(bytes < 63 ? bytes : 63), spec);
    alike = tutti_alike(typed, names, buf, buf_bytes);
    return alike != NULL ? alike : alike_by_summary(typed, buf, buf_bytes);
}

/* Neither: the message names both possibilities, and the presets that may be meant. */
static int refuse(const char *spec, struct tutti_err *err)
{
    char alike[256];

    if (tutti_machine_alike(spec, alike, sizeof(alike)) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "there is no preset and no file '%s' (did you mean %s?)", spec, alike);
    return tutti_fail(err, TUTTI_EINVAL,
                      "there is no preset and no file '%s' ('tutti topo list' shows the presets)",
                      spec);
}

/* Does `words` ("nodes=1 bw=...", or "bw=1,nodes=2") have `key`? */
static bool has_key(const char *words, const char *key)
{
    size_t bytes = strlen(key);

    for (const char *p = strstr(words, key); p != NULL; p = strstr(p + 1, key)) {
        if ((p == words || strchr(" ,:", p[-1]) != NULL) && p[bytes] == '=')
            return true;
    }
    return false;
}

/* A preset that knows how its hosts are joined is asked for them all. */
static int load_preset(const struct tutti_preset *preset, const char *spec, uint32_t *nodes,
                       struct tutti_topo **ret, struct tutti_err *err)
{
    const char *items = strchr(spec, ':');
    size_t bytes = strlen(spec) + 32;
    char *whole;
    int status;

    if (*nodes == 1 || !has_key(preset->keys, "nodes"))
        return tutti_topo_from_spec(spec, ret, err);
    if (items != NULL && has_key(items, "nodes"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' says nodes=, and so does '--nodes' (give one of them)", spec);
    whole = malloc(bytes);
    if (whole == NULL)
        return tutti_nomem(err);
    (void)snprintf(whole, bytes, "%s%snodes=%u", spec,
                   items == NULL      ? ":"
                   : items[1] == '\0' ? ""
                                      : ",",
                   *nodes);
    status = tutti_topo_from_spec(whole, ret, err);
    free(whole);
    *nodes = 1;
    return status;
}

/* ---- this machine -------------------------------------------------------------------------- */

static bool is_local(const char *spec)
{
    return strncmp(spec, "local", 5) == 0 && (spec[5] == '\0' || spec[5] == ':');
}

/* "ranks=8" or "facts=FILE" of a SPEC; a comma ends it. */
static int read_local_item(const char *spec, const char **item, uint32_t *ret_ranks,
                           char **ret_facts, struct tutti_err *err)
{
    size_t bytes = strcspn(*item, ",");
    const char *text = *item;
    char *end = NULL;
    unsigned long ranks;

    *item += bytes + (text[bytes] == ',');
    if (strncmp(text, "facts=", 6) == 0 && bytes > 6 && *ret_facts == NULL) {
        *ret_facts = strndup(text + 6, bytes - 6);
        return *ret_facts == NULL ? tutti_nomem(err) : 0;
    }
    if (strncmp(text, "ranks=", 6) == 0 && bytes > 6 && *ret_ranks == 0) {
        errno = 0;
        ranks = strtoul(text + 6, &end, 10);
        if (errno == 0 && text[6] >= '0' && text[6] <= '9' && end == text + bytes && ranks > 0 &&
            ranks <= UINT32_MAX) {
            *ret_ranks = (uint32_t)ranks;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "'%s': '%.*s' (ranks=N, the first so many, or on one GPU so many virtual "
                      "ones; facts=FILE of 'tutti topo show local --facts FILE')",
                      spec, (int)bytes, text);
}

static int read_facts(const char *path, struct tutti_facts **ret, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status == 0)
        status = tutti_facts_parse(path, text, bytes, ret, err);
    free(text);
    return status;
}

int tutti_machine_load_local(const char *spec, struct tutti_facts **ret_facts,
                             struct tutti_topo **ret, struct tutti_err *err)
{
    const char *item = spec[5] == ':' ? spec + 6 : "";
    struct tutti_facts *facts = NULL;
    uint32_t ranks = 0;
    char *path = NULL;
    int status = 0;

    while (*item != '\0' && status == 0)
        status = read_local_item(spec, &item, &ranks, &path, err);
    if (status == 0)
        status = path != NULL ? read_facts(path, &facts, err) : tutti_facts_read(NULL, &facts, err);
    if (status == 0)
        status = tutti_topo_of_facts(facts, spec, ranks, ret, err);
    if (status == 0 && ret_facts != NULL)
        *ret_facts = facts;
    else
        tutti_facts_free(facts);
    free(path);
    return status;
}

/* A file of facts, read already. */
static int load_facts(const char *path, const char *text, size_t bytes, struct tutti_topo **ret,
                      struct tutti_err *err)
{
    struct tutti_facts *facts = NULL;
    int status = tutti_facts_parse(path, text, bytes, &facts, err);

    if (status == 0)
        status = tutti_topo_of_facts(facts, path, 0, ret, err);
    tutti_facts_free(facts);
    return status;
}

/* ---- files --------------------------------------------------------------------------------- */

static int load_file(const char *path, struct tutti_topo **ret, struct tutti_err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* UTF-8 byte order mark */
    char *text = NULL;
    size_t bytes = 0;
    size_t skip;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status < 0)
        return status;
    skip = strncmp(text, mark, 3) == 0 ? 3 : 0;
    if (strncmp(text + skip, "tutti facts ", 12) == 0)
        status = load_facts(path, text + skip, bytes - skip, ret, err);
    else if (text[skip + strspn(text + skip, " \t\r\n")] == '<')
        status = tutti_nccl_xml_parse(path, text + skip, bytes - skip, ret, err);
    else
        status = tutti_topo_parse(path, text + skip, bytes - skip, ret, err);
    free(text);
    return status;
}

static int replicate(struct tutti_topo **topo, uint32_t nodes, struct tutti_err *err)
{
    struct tutti_topo *cluster = NULL;
    int status;

    if ((*topo)->host_count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'--nodes' joins copies of one host, and '%s' has %u of them already",
                          (*topo)->name, (*topo)->host_count);
    status = tutti_topo_replicate(*topo, nodes, net_latency_ps, &cluster, err);
    if (status < 0)
        return tutti_wrap(err, status, "'--nodes'");
    tutti_topo_free(*topo);
    *topo = cluster;
    return 0;
}

int tutti_machine_load(const char *spec_or_file, uint32_t nodes, struct tutti_topo **ret,
                       struct tutti_err *err)
{
    const struct tutti_preset *preset = find_preset(spec_or_file);
    struct tutti_topo *topo = NULL;
    struct stat info;
    int status;

    assert(nodes >= 1);
    if (preset != NULL)
        status = load_preset(preset, spec_or_file, &nodes, &topo, err);
    else if (is_local(spec_or_file))
        status = tutti_machine_load_local(spec_or_file, NULL, &topo, err);
    else if (strcmp(spec_or_file, "-") == 0 || stat(spec_or_file, &info) == 0)
        status = load_file(spec_or_file, &topo, err);
    else
        status = refuse(spec_or_file, err);
    if (status == 0 && nodes > 1)
        status = replicate(&topo, nodes, err);
    if (status < 0) {
        tutti_topo_free(topo);
        return status;
    }
    *ret = topo;
    return 0;
}
