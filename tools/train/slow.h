/* Stragglers of `tutti train`: devices that take longer for the same work. */
#ifndef TUTTI_TOOLS_TRAIN_SLOW_H
#define TUTTI_TOOLS_TRAIN_SLOW_H

#include <stdint.h>
#include <stdio.h>

#include "tools/options.h"

enum { TUTTI_TRAIN_SLOW_MAX = 64 };

#define TUTTI_TRAIN_OPTION_SLOW                                                            \
    {                                                                                      \
        .name = "slow", .type = TUTTI_OPTION_TEXT, .value = "RANK:PERCENT[,RANK:PERCENT]", \
        .help = "devices whose work takes so much longer: 3:20"                            \
    }

struct tutti_train_slow {
    uint32_t count;
    uint32_t rank[TUTTI_TRAIN_SLOW_MAX];
    uint32_t pace_ppm[TUTTI_TRAIN_SLOW_MAX];
};

int tutti_train_slow_read(const struct tutti_args *args, struct tutti_train_slow *ret,
                          struct tutti_err *err);
/* [rank_count] for struct tutti_train_ask, freed by the caller; NULL: all alike. */
int tutti_train_slow_paces(const struct tutti_train_slow *slow, uint32_t rank_count, uint32_t **ret,
                           struct tutti_err *err);
void tutti_train_slow_print(const struct tutti_train_slow *slow, FILE *out);

#endif
