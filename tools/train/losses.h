/* Who is lost and who comes while training is simulated, as `--perturb` says it. */
#ifndef TUTTI_TOOLS_TRAIN_LOSSES_H
#define TUTTI_TOOLS_TRAIN_LOSSES_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/servers.h"
#include "tools/cli/json.h"
#include "tools/options.h"

struct tutti_err;

enum { TUTTI_TRAIN_CHANGES_MAX = 256 };

#define TUTTI_TRAIN_LOSSES_TEXT                                                                   \
    "\n\nSimulated, --perturb says who is lost, and when, from the begin of a training of "       \
    "--steps steps: lost=WHO@TIME and comes=WHO@TIME, for the first time or back, where WHO is "  \
    "chief, worker0, worker1, ps0, ...; or mtbf=TIME, drawn with that mean for each of them, "    \
    "who is back after restart=TIME. A worker's gradient is lost with it, and the others go on. " \
    "The chief (worker 0) or a server is lost only where there are checkpoints to go back to: "   \
    "every --save-secs seconds, written and read at --save-rate; steps since the newest are "     \
    "made again."

struct tutti_train_losses {
    struct tutti_servers_change change[TUTTI_TRAIN_CHANGES_MAX]; /* in the order of time */
    uint32_t change_count;
    tutti_ps mtbf_ps;
    tutti_ps restart_ps;
    tutti_ps rendezvous_ps;
    tutti_ps detect_ps;
    bool of_groups;   /* one of the last two is said, or somebody leaves: of --elastic */
    bool supervised;  /* the chief or a server is lost */
    const char *text; /* as it was typed; NULL: nothing is lost */
};

/* -TUTTI_EINVAL with the words that there are. */
int tutti_train_losses_read(const struct tutti_args *args, struct tutti_train_losses *ret,
                            struct tutti_err *err);

#endif
