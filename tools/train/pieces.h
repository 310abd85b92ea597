/* What a record of a played step tells of the step as it was written: its COMPUTEs, its CALLs and
 * its messages between stages, lane by lane, and what the work waited for. Real, emulated and
 * simulated steps leave such records (of the schedule laid out, tutti_schedule_flatten; or, from
 * GPUs, of the schedule). */
#ifndef TUTTI_TOOLS_TRAIN_PIECES_H
#define TUTTI_TOOLS_TRAIN_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"

struct tutti_err;
struct tutti_layer;
struct tutti_record;
struct tutti_sink;
struct tutti_workload;

struct tutti_train_real_piece {
    tutti_ps begin_ps;
    tutti_ps end_ps;
    struct tutti_step step; /* as the strategy wrote it: COMPUTE, CALL, SEND or RECV */
    uint64_t index;         /* in its lane */
    uint32_t rank;
    uint32_t lane;
};

struct tutti_train_pieces {
    const struct tutti_schedule *schedule; /* borrowed */
    struct tutti_train_real_piece *pieces; /* by rank, lane and index */
    size_t count;
};

/* The record is of one step, of all ranks. -TUTTI_EINVAL where it is of another schedule. */
int tutti_train_pieces_make(const struct tutti_schedule *schedule,
                            const struct tutti_record *record, struct tutti_train_pieces *ret,
                            struct tutti_err *err);
void tutti_train_pieces_done(struct tutti_train_pieces *pieces);

/* Where a step's time goes, on average over ranks; they add up to it. */
struct tutti_train_parts {
    double step_s;
    double compute_s; /* forward and backward */
    double exposed_s; /* communication that no work hides, and waiting for others */
    double input_s;
    double update_s; /* sums of micro-batches, the report, the optimizer */
};

/* Of what took `step_ps`; of local SGD, which plays several steps at once, of one of them. */
struct tutti_train_parts tutti_train_pieces_parts(const struct tutti_train_pieces *pieces,
                                                  tutti_ps step_ps);

enum tutti_train_work_class {
    TUTTI_TRAIN_WORK_LAYER, /* forward or backward */
    TUTTI_TRAIN_WORK_INPUT,
    TUTTI_TRAIN_WORK_UPDATE
};
/* "hidden.3.backward-add": the layer of the model, and whether it is a backward pass; NULL: of no
 * layer. */
const struct tutti_layer *tutti_train_work_layer(const struct tutti_workload *model,
                                                 const char *work, bool *ret_backward);
/* What an entry of a strategy's work table is, by its name. */
enum tutti_train_work_class tutti_train_work_class(const struct tutti_schedule *schedule,
                                                   uint32_t entry);

/* Writes the record as a trace, FILE.json or FILE.csv: for each rank a track of its work, with
 * layers by name and what it waited for, one of each lane of collectives, and the messages. */
int tutti_train_pieces_trace(const struct tutti_train_pieces *pieces,
                             const struct tutti_record *record, const char *path, const char *title,
                             struct tutti_sink *sink, struct tutti_err *err);

#endif
