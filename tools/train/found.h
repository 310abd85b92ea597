/* Asks for a step on each machine that `tutti train` was asked for. */
#ifndef TUTTI_TOOLS_TRAIN_FOUND_H
#define TUTTI_TOOLS_TRAIN_FOUND_H

#include <stdint.h>
#include <stdio.h>

#include "sim/train.h"
#include "sim/train_servers.h"
#include "tools/train/ask.h"
#include "tools/train/interval.h"

/* What was found on one machine. Nothing in it may be moved: parts of it point to others. */
struct tutti_train_found {
    struct tutti_train_answer answer;
    struct tutti_train_servers_answer servers; /* parameter-server: of them */
    struct tutti_strategy strategy;            /* that of the question, or what goes with hosts */
    struct tutti_framework framework;          /* with the constants of --calib */
    size_t calibrated_count;                   /* of these */
    tutti_ps host_ps; /* of what is computed: by which the host is slower than the device */
    struct tutti_interval interval; /* of measured steps of the kind; of 0 rows: there are none */
    uint32_t device_count;
    uint32_t batch;
};

/* What was found: of machines of several sizes, those that there are and that hold the model. */
struct tutti_train_found_all {
    struct tutti_train_found machine[TUTTI_TRAIN_MACHINES_MAX];
    uint32_t count;
    struct tutti_train_found too_large; /* the last that does not hold it; of 0 devices: none */
};

int tutti_train_ask_one(const struct tutti_args *args, const struct tutti_train_question *question,
                        const struct tutti_topo *topo, struct tutti_train_found *ret,
                        struct tutti_err *err);
/* What was measured of steps of a class, by what is compiled in; of 0 rows: nothing. */
int tutti_train_interval_of(const struct tutti_interval *wanted, enum tutti_precision precision,
                            struct tutti_interval *ret, struct tutti_err *err);
/* The step at P10 or P90 (`share`: interval.low or high); NAN without an interval. */
double tutti_train_interval_s(const struct tutti_train_found *found, double share);
int tutti_train_ask_all(const struct tutti_args *args, const struct tutti_train_question *question,
                        struct tutti_train_found_all *ret, struct tutti_err *err);

/* Lines of a file of costs, and of what sparse gradients send (slices.h), where there are any. */
void tutti_train_found_print_costs(const struct tutti_train_question *question,
                                   const struct tutti_train_found *found, FILE *out);

/* A line of an interval that has rows. */
void tutti_train_interval_print(const struct tutti_interval *interval, uint32_t device_count,
                                double step_s, FILE *out);
/* How far measured steps of the kind were off; said once for machines alike. */
void tutti_train_found_print_intervals(const struct tutti_train_found *found, uint32_t count,
                                       FILE *out);

#endif
