/* The rules of a training by servers as one word: "parameter-server,sync=2,late=aborted"; see
 * runtime/servers.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/servers.h"
#include "runtime/status.h"

static const char strategy[] = "parameter-server";

enum { WORD_BYTES = 64 };

static int refuse(const char *word, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "strategy 'parameter-server' with '%.60s' (sync=R, late=queued, fresh or "
                      "aborted, slack=N, staleness=N, placement=round-robin or greedy, "
                      "partition=none, fixed:N, min:SIZE or max:SIZE)",
                      word);
}

bool tutti_servers_strategy(const char *text)
{
    return text != NULL && strncmp(text, strategy, strlen(strategy)) == 0 &&
           (text[strlen(strategy)] == '\0' || text[strlen(strategy)] == ',');
}

static bool read_count(const char *text, uint32_t least, uint32_t *ret)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < least || value > TUTTI_MEMBERS_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool read_late(const char *text, enum tutti_late *ret)
{
    static const char *const words[] = {"queued", "fresh", "aborted"}; /* as they are numbered */

    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = (enum tutti_late)i;
            return true;
        }
    return false;
}

static bool is(const char *word, size_t bytes, const char *name)
{
    return strlen(name) == bytes && memcmp(word, name, bytes) == 0;
}

/* NAME=VALUE. */
static bool read_option(const char *word, struct tutti_servers_params *p)
{
    const char *value = strchr(word, '=');
    const size_t name = value != NULL ? (size_t)(value - word) : 0;

    if (value++ == NULL)
        return false;
    if (is(word, name, "sync")) {
        p->synchronous = true;
        return read_count(value, 1, &p->aggregate);
    }
    if (is(word, name, "late"))
        return read_late(value, &p->late);
    if (is(word, name, "slack"))
        return read_count(value, 1, &p->slack);
    if (is(word, name, "staleness"))
        return read_count(value, 1, &p->staleness_max);
    if (is(word, name, "placement")) {
        p->placement = strcmp(value, "greedy") == 0 ? TUTTI_PLACE_GREEDY : TUTTI_PLACE_ROUND_ROBIN;
        return strcmp(value, "greedy") == 0 || strcmp(value, "round-robin") == 0;
    }
    return is(word, name, "partition") && tutti_partitioning_read(value, &p->partition, NULL) == 0;
}

int tutti_servers_options_read(const char *text, struct tutti_servers_params *ret,
                               struct tutti_err *err)
{
    struct tutti_servers_params p = *ret;
    const char *at = text + strlen(strategy);

    if (!tutti_servers_strategy(text))
        return tutti_fail(err, TUTTI_EINVAL, "strategy '%.60s' (parameter-server)", text);
    while (*at != '\0') {
        const size_t bytes = strcspn(at + 1, ",");
        char word[WORD_BYTES];

        if (bytes >= sizeof(word))
            return refuse(at + 1, err);
        memcpy(word, at + 1, bytes);
        word[bytes] = '\0';
        if (!read_option(word, &p))
            return refuse(word, err);
        at += 1 + bytes;
    }
    if (p.synchronous && (p.slack > 0 || p.staleness_max > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy 'parameter-server': slack and staleness are of asynchronous "
                          "training, sync is not (one of them)");
    *ret = p;
    return 0;
}
