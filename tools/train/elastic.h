/* `tutti train SPEC --elastic MIN:MAX`: a training simulated from its begin to its end, whose
 * workers are lost, leave and come; see struct tutti_elastic_opts. */
#ifndef TUTTI_TOOLS_TRAIN_ELASTIC_H
#define TUTTI_TOOLS_TRAIN_ELASTIC_H

#include <stdio.h>

#include "sim/servers.h"
#include "tools/cli/json.h"
#include "tools/train/found.h"

#define TUTTI_TRAIN_ELASTIC_TEXT                                                                  \
    "\n\nSimulated, --elastic MIN:MAX is of the workers of SPEC (its hosts, or the devices of a " \
    "single one): --perturb says who is lost and who comes, as above, and leaves=WHO@TIME who "   \
    "goes with notice, at the end of a step. The global batch stays. Whenever the group changes " \
    "it meets anew (rendezvous=TIME); who comes has the state by a broadcast; a step in which "   \
    "somebody is lost is made again, once that is known (detect=TIME)."

struct tutti_train_elastic {
    bool asked;
    uint32_t members;        /* at most */
    uint32_t member_devices; /* of each */
    struct tutti_elastic result;
};

/* After the step on the machine as named, `found`. Does nothing without the option. */
int tutti_train_elastic_ask(const struct tutti_args *args, const struct tutti_train_question *q,
                            const struct tutti_train_found *found, struct tutti_train_elastic *ret,
                            struct tutti_err *err);
/* A line for people, an object in JSON; nothing where it was not asked. */
void tutti_train_elastic_print(const struct tutti_train_elastic *elastic, FILE *out);
void tutti_train_elastic_json(const struct tutti_train_elastic *elastic, struct tutti_json *json);

#endif
