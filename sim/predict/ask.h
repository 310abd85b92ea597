/* A question as its caller has it, made whole: fields of later versions, and what is not said. */
#ifndef TUTTI_SIM_PREDICT_ASK_H
#define TUTTI_SIM_PREDICT_ASK_H

#include "sim/calib.h"
#include "sim/predict.h"

/* `ask` has all fields that this version knows, and all that have a standard: its `protocols` may
 * be those of `costs`. Not to be copied. */
struct tutti_whole_ask {
    struct tutti_ask ask;
    struct tutti_calibrated costs;
    bool chosen; /* its algorithm is "nccl" because none was named: else tutti_ask_do_without() */
};

/* -TUTTI_EINVAL, -TUTTI_ELACK: see tutti_take(), and no machine. */
int tutti_ask_make_whole(const struct tutti_ask *given, struct tutti_whole_ask *ret,
                         struct tutti_err *err);

/* Where what NCCL would run is not modelled: "auto" in its place. */
void tutti_ask_do_without(struct tutti_whole_ask *whole);

/* Counts an algorithm that failed with `status`, and keeps the first; what does not fit is none. */
void tutti_left_out_note(struct tutti_left_out *left_out, const char *algorithm, int status,
                         const struct tutti_err *why);

/* A protocol of a whole question, by name. */
int tutti_ask_find_protocol(const struct tutti_ask *ask, const char *name,
                            const struct tutti_protocol **ret, struct tutti_err *err);

#endif
