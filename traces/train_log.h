/* What a training makes of itself for those who watch: lines of JSON, or on a terminal a progress
 * line, and TensorBoard's events; of a training as runtime/replica.h has it. */
#ifndef TUTTI_TRACES_TRAIN_LOG_H
#define TUTTI_TRACES_TRAIN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_replica_training;

/* Sets `seen` and `seen_context` of a training, which from then on is told of.
 *
 * `out` (borrowed): a terminal gets one line that goes on, a line for each evaluation, and one at
 * the end; else a line of JSON each, as of `tutti train -B`: {"step":1,"loss":...},
 * {"held_out":{...}}, last {"final":{...}}. NULL: neither.
 * `tensorboard`: a folder for events: scalars of each step and evaluation, histograms of the
 * weights with each evaluation and at the end. It is made with the first event, so that of several
 * processes only process 0 writes. NULL: none. */
int tutti_train_log_open(struct tutti_replica_training *training, FILE *out,
                         const char *tensorboard, struct tutti_err *err);

/* Writes what is kept and frees, the latter in any case. A training without a log is left alone. */
int tutti_train_log_close(struct tutti_replica_training *training, struct tutti_err *err);

TUTTI_API_END

#endif
