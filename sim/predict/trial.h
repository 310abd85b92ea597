/* One schedule, or one algorithm, tried under the protocols that a question asks for. */
#ifndef TUTTI_SIM_PREDICT_TRIAL_H
#define TUTTI_SIM_PREDICT_TRIAL_H

#include "runtime/backend.h"
#include "sim/predict.h"

struct tutti_fold_known;

/* What is tried: one algorithm under one protocol. */
struct tutti_trial_entry {
    const struct tutti_algorithm *algorithm;
    const struct tutti_protocol *protocol; /* NULL: none */
};

struct tutti_outcome {
    struct tutti_trial_entry entry;
    struct tutti_played played;
    tutti_ps copy_ps;          /* more, for what is copied besides: see struct tutti_nccl_run */
    uint32_t channel_count;    /* of NCCL's choice; else 0 */
    uint32_t class_count;      /* ranks simulated, each for all that do the same; 0: not folded */
    struct tutti_protocol own; /* that of the entry may be this one, of the best outcome */
};

enum tutti_trial_way {
    TUTTI_TRIAL_ANY,      /* folded where that can be, else every rank */
    TUTTI_TRIAL_FOLDED,   /* folded, or not at all */
    TUTTI_TRIAL_UNFOLDED, /* every rank: it is known that it does not fold */
};

struct tutti_trial {
    const struct tutti_ask *ask;
    const struct tutti_protocol *only; /* NULL: none */
    bool all_protocols;                /* those of the question, in place of `only` */
    enum tutti_trial_way way;
    struct tutti_err *unfolded; /* why it does not fold: found by TUTTI_TRIAL_FOLDED, given to
                                   TUTTI_TRIAL_UNFOLDED; else NULL */
};

/* What a trial in the way TUTTI_TRIAL_FOLDED returns where something does not fold. */
enum { TUTTI_TRIAL_NOT_FOLDED = 1 };

struct tutti_sim_opts tutti_trial_opts(const struct tutti_ask *ask,
                                       const struct tutti_protocol *protocol);

/* What NCCL would run, where that is a schedule. */
int tutti_trial_nccl_schedule(const struct tutti_ask *ask, struct tutti_schedule **ret,
                              struct tutti_err *err);

/* Writes the schedule of an algorithm. Those that do not run on rings get one channel, as they do
 * not spread over links by more. */
int tutti_trial_schedule(const struct tutti_ask *ask, const struct tutti_algorithm *algorithm,
                         struct tutti_schedule **ret, struct tutti_err *err);

/* Plays the entry of *outcome once. `known` and `record` may be NULL; a record wants every rank. */
int tutti_trial_play(const struct tutti_trial *trial, const struct tutti_schedule *schedule,
                     struct tutti_fold_known *known, struct tutti_record *record,
                     struct tutti_outcome *outcome, struct tutti_err *err);

/* Plays a schedule under the protocols asked for, but those that cannot be as fast as one played
 * before; keeps the fastest in *ret, and of equals the first of the table. */
int tutti_trial_protocols(const struct tutti_trial *trial, const struct tutti_schedule *schedule,
                          struct tutti_outcome *ret, struct tutti_err *err);

/* The same for the schedule of an algorithm. */
int tutti_trial_algorithm(const struct tutti_trial *trial, const struct tutti_algorithm *algorithm,
                          struct tutti_outcome *ret, struct tutti_err *err);

#endif
