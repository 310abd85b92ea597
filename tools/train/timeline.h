/* A simulated step as it went on rank 0: pieces of work and collectives, lane by lane; and on the
 * first few ranks that do something else, or at another pace. */
#ifndef TUTTI_TOOLS_TRAIN_TIMELINE_H
#define TUTTI_TOOLS_TRAIN_TIMELINE_H

#include <stdbool.h>

#include "sim/train.h"
#include "tools/cli/json.h"

struct tutti_page;
struct tutti_sink;

struct tutti_train_piece {
    struct tutti_step step;
    tutti_ps begin_ps;
    tutti_ps came_ps; /* a collective: this rank had come to it */
    tutti_ps end_ps;
};

enum { TUTTI_TRAIN_OTHERS_MAX = 7 };

struct tutti_train_timeline {
    struct tutti_schedule *schedule; /* that was simulated */
    uint32_t rank;
    struct tutti_train_timeline *other[TUTTI_TRAIN_OTHERS_MAX]; /* with the same schedule */
    uint32_t other_count;
    struct tutti_train_piece *piece[TUTTI_STRATEGY_LANES];
    size_t count[TUTTI_STRATEGY_LANES];
    size_t room[TUTTI_STRATEGY_LANES];
    struct tutti_train_call *call;
    size_t call_count;
    size_t call_room;
    bool lost; /* no memory for a piece */
};

/* Makes a question tell the timeline of its step, whatever was in it before. */
int tutti_train_timeline_watch(struct tutti_train_timeline *timeline, struct tutti_train_ask *ask,
                               struct tutti_err *err);
/* After it was answered: is all there? */
int tutti_train_timeline_check(const struct tutti_train_timeline *timeline, struct tutti_err *err);
void tutti_train_timeline_done(struct tutti_train_timeline *timeline);

/* "work", "reduce", ... */
const char *tutti_train_lane_name(uint32_t lane);
/* "conv1.forward", "allreduce 102.2 MB"; in `buf`, or the schedule's own. */
enum { TUTTI_TRAIN_PIECE_BYTES = 64 };
const char *tutti_train_piece_name(const struct tutti_train_timeline *timeline,
                                   const struct tutti_train_piece *piece,
                                   char buf[TUTTI_TRAIN_PIECE_BYTES]);

/* The step as bars, its largest pieces and its collectives: for people, or in JSON. */
int tutti_train_explain(const struct tutti_train_timeline *timeline, struct tutti_page *page,
                        struct tutti_err *err);
int tutti_train_explain_json(const struct tutti_train_timeline *timeline, struct tutti_json *json,
                             struct tutti_err *err);

/* As tutti_trace_write(), with names. */
int tutti_train_trace(const struct tutti_train_timeline *timeline, const char *path,
                      const char *title, struct tutti_sink *sink, struct tutti_err *err);

#endif
