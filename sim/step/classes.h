/* Ranks of a step that do the same at the same times: classes, refined until each knows the classes
 * of its groups and of its peers. */
#ifndef TUTTI_SIM_STEP_CLASSES_H
#define TUTTI_SIM_STEP_CLASSES_H

#include <stdint.h>

#include "sim/step.h"

/* An equitable partition: ranks of one class run one program, at one pace, in groups of equal
 * classes, with peers of equal classes over routes of equal figures. */
struct tutti_step_classes {
    uint32_t count;
    uint32_t *of;    /* [rank] */
    uint32_t *first; /* [class]: its lowest rank, which is played for all */
    /* [axis * rank_count + rank], axis 0 being all ranks: the class of the rank's group, that of
     * another axis being another; UINT32_MAX: it is in no group, or never calls there. */
    uint32_t *group;
    uint32_t group_count; /* classes of groups */
    uint32_t *kinds;      /* [group class]: how many classes of ranks it has */
    uint32_t *members;    /* [group_first[g], group_first[g + 1]): those classes */
    uint32_t *group_first;
    uint64_t step_count; /* of all ranks */
};

/* -TUTTI_ENOMEM, or -TUTTI_ECHECK for a step that is not valid. */
int tutti_step_classes_find(const struct tutti_step_opts *opts, struct tutti_step_classes *ret,
                            struct tutti_err *err);
void tutti_step_classes_done(struct tutti_step_classes *classes);

#endif
