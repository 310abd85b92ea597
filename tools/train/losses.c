/* Reads who is lost and who comes; see losses.h. */
#include "tools/train/losses.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"

enum { WORD_BYTES = 64 };

static int refuse(const char *word, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--perturb': '%.60s' of a simulated training (lost=WHO@TIME, "
                      "comes=WHO@TIME, mtbf=TIME or restart=TIME, with commas; with --elastic "
                      "leaves=WHO@TIME, rendezvous=TIME, detect=TIME; WHO: chief, worker0, ps0, "
                      "...)",
                      word);
}

/* "worker3", "ps0" or "chief"; false: neither. */
static bool read_whom(const char *name, struct tutti_servers_change *ret)
{
    bool is_server = strncmp(name, "ps", 2) == 0;
    const char *number = name + (is_server ? 2 : strlen("worker"));
    char *end;
    unsigned long index;

    *ret = (struct tutti_servers_change){.is_server = is_server};
    if (strcmp(name, "chief") == 0)
        return true;
    if (!is_server && strncmp(name, "worker", strlen("worker")) != 0)
        return false;
    index = strtoul(number, &end, 10);
    if (*number < '0' || *number > '9' || *end != '\0' || index > TUTTI_MEMBERS_MAX)
        return false;
    ret->index = (uint32_t)index;
    return true;
}

/* Kept in the order of time; what is said of one time, in the order in which it was said. */
static void insert(struct tutti_train_losses *losses, struct tutti_servers_change change)
{
    uint32_t at = losses->change_count++;

    for (; at > 0 && losses->change[at - 1].at_ps > change.at_ps; at--)
        losses->change[at] = losses->change[at - 1];
    losses->change[at] = change;
}

/* The value of lost=, comes= and leaves=. */
static int read_change(const char *word, char *value, struct tutti_train_losses *ret,
                       struct tutti_err *err)
{
    char *at = strchr(value, '@');
    struct tutti_servers_change change;

    if (at == NULL)
        return refuse(word, err);
    *at = '\0';
    if (!read_whom(value, &change) || tutti_read_time(at + 1, &change.at_ps, NULL) < 0)
        return refuse(word, err);
    if (ret->change_count == TUTTI_TRAIN_CHANGES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '--perturb': more than '%d' losses",
                          TUTTI_TRAIN_CHANGES_MAX);
    change.comes = word[0] == 'c';
    change.leaves = word[1] == 'e';
    ret->of_groups |= change.leaves;
    ret->supervised |= change.is_server || strcmp(value, "chief") == 0;
    insert(ret, change);
    return 0;
}

static int read_word(const char *word, struct tutti_train_losses *ret, struct tutti_err *err)
{
    const struct {
        const char *key;
        tutti_ps *time_ps; /* NULL: somebody, at a time */
    } keys[] = {{"lost=", NULL},
                {"comes=", NULL},
                {"leaves=", NULL},
                {"mtbf=", &ret->mtbf_ps},
                {"restart=", &ret->restart_ps},
                {"rendezvous=", &ret->rendezvous_ps},
                {"detect=", &ret->detect_ps}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const size_t bytes = strlen(keys[i].key);
        char value[WORD_BYTES];

        if (strncmp(word, keys[i].key, bytes) != 0)
            continue;
        (void)snprintf(value, sizeof(value), "%s", word + bytes);
        if (keys[i].time_ps == NULL)
            return read_change(word, value, ret, err);
        if (*keys[i].time_ps > 0)
            return tutti_fail(err, TUTTI_EINVAL, "option '--perturb': '%.60s' after another (one)",
                              word);
        if (tutti_read_time(value, keys[i].time_ps, NULL) < 0 || *keys[i].time_ps <= 0)
            return refuse(word, err);
        ret->of_groups |= i > 4;
        return 0;
    }
    return refuse(word, err);
}

int tutti_train_losses_read(const struct tutti_args *args, struct tutti_train_losses *ret,
                            struct tutti_err *err)
{
    const char *at = tutti_args_text(args, "perturb");
    int status = 0;

    *ret = (struct tutti_train_losses){.text = at};
    while (at != NULL && status == 0) {
        char word[WORD_BYTES];
        size_t bytes = strcspn(at, ",");

        (void)snprintf(word, sizeof(word), "%.*s", (int)(bytes < 1000 ? bytes : 1000), at);
        status = bytes < sizeof(word) ? read_word(word, ret, err) : refuse(word, err);
        at = at[bytes] == ',' ? at + bytes + 1 : NULL;
    }
    if (status == 0 && ret->mtbf_ps > 0 && ret->change_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--perturb': losses are drawn (mtbf=), and said (lost=, comes=; "
                          "one of both)");
    if (status == 0 && ret->restart_ps > 0 && ret->mtbf_ps == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--perturb': 'restart=' says nothing without 'mtbf='");
    return status;
}
