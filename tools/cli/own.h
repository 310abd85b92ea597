/* Algorithms of one's own that a command line names: a schedule of --schedule, plugins of -a. */
#ifndef TUTTI_TOOLS_CLI_OWN_H
#define TUTTI_TOOLS_CLI_OWN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "tools/cli/json.h"
#include "tools/cli/sizes.h"
#include "tools/options.h"

enum { TUTTI_OWN_NAME_BYTES = 32 };

struct tutti_own {
    struct tutti_algorithm_set *set; /* for the `added` of params; NULL: there are none */
    /* What -a names, plugins replaced by the algorithms in them, and the schedule added to them;
     * or "auto", "all" alone, which stand for those too. From malloc. */
    char *algorithms;
    const char *file;                      /* of --schedule; NULL: none */
    const struct tutti_schedule *schedule; /* in it; of the set */
    char name[TUTTI_OWN_NAME_BYTES];       /* by which it is an algorithm: that of the file */
    bool alone;                            /* no other algorithm is asked for */
    bool proved;
    struct tutti_err why_not; /* it is not proved */
};

#define TUTTI_OPTION_SCHEDULE                                                                 \
    {                                                                                         \
        .name = "schedule", .type = TUTTI_OPTION_TEXT, .value = "FILE",                       \
        .help = "a schedule of one's own, in our text form ('-' is stdin): alone, or beside " \
                "what -a names; in chunks it is for any size, else for its own"               \
    }

/* What --help says about both. */
#define TUTTI_OWN_TEXT                                                                             \
    "With --schedule FILE a schedule of one's own is taken as it stands ('tutti schedule' shows, " \
    "checks and proves it): the file says for which collective, type, operator, root and number "  \
    "of ranks it is, and options that say otherwise are refused. It is checked first, and "        \
    "whether it is proved is said in a line. One in chunks ('chunks N' in its head) is for any "   \
    "size, rounded down to N equal parts; another has its own size alone. In -a, a name that "     \
    "ends with .so or has a slash is a plugin: its algorithms are named, or are among 'auto' "     \
    "and 'all' where these stand beside it."

/* Loads the plugins of -a, and the file of --schedule if the table has that option: then, without
 * -a, the schedule is alone, or stands beside all algorithms where a command takes all. What cannot
 * be read is -TUTTI_EINVAL, what does not check is -TUTTI_ECHECK. */
int tutti_own_open(const struct tutti_args *args, bool has_schedule, struct tutti_own *ret,
                   struct tutti_err *err);
void tutti_own_done(struct tutti_own *own);

/* Writes what the schedule says into params (of which `added` is set in any case) and refuses the
 * options that contradict it. */
int tutti_own_params(const struct tutti_args *args, const struct tutti_own *own,
                     struct tutti_coll_params *params, struct tutti_err *err);

/* The sizes: those of the options, or the one of a schedule that has but one. */
int tutti_own_sizes(const struct tutti_args *args, const struct tutti_own *own,
                    struct tutti_sizes *ret, struct tutti_err *err);

/* The count at a size: what nccl-tests makes of it, or what the schedule can be cut into. */
uint64_t tutti_own_count(const struct tutti_own *own, const struct tutti_coll_params *params,
                         uint64_t bytes, uint32_t rank_count);

/* -TUTTI_EINVAL: the schedule is for another number of ranks than `where` ("'dgx-h100'") has. */
int tutti_own_fits(const struct tutti_own *own, uint32_t rank_count, const char *where,
                   struct tutti_err *err);

struct tutti_topo;
int tutti_own_fits_machine(const struct tutti_own *own, const struct tutti_topo *topo,
                           struct tutti_err *err);

/* A line of '#' and a member "schedule" of an open JSON object; nothing without a schedule. */
void tutti_own_print(const struct tutti_own *own, FILE *out);
void tutti_own_json(const struct tutti_own *own, struct tutti_json *json);

#endif
