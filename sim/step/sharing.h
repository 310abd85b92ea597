/* Calls and work that are under way at once: how fast each of them goes on. */
#ifndef TUTTI_SIM_STEP_SHARING_H
#define TUTTI_SIM_STEP_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/queue/queue.h"
#include "sim/step.h"

/* A call of a class of groups, or a COMPUTE of a class of ranks. */
struct tutti_activity {
    const struct tutti_call_price *price; /* NULL: work */
    const uint32_t *members;              /* [member_count]: classes of ranks; work has one */
    uint32_t member_count;
    bool active;
    bool frozen; /* while rates are found */
    uint32_t stamp;
    uint32_t rate;     /* of TUTTI_SHARE_ONE: what it does in a picosecond */
    uint32_t new_rate; /* while rates are found */
    tutti_ps rest_ps;  /* at full rate, at `since_ps` */
    tutti_ps since_ps;
};

/* Rates are max-min fair: all calls under way go on alike, up to full rate, until a link of some
 * rank is full; those that use it stay where they are, the others go on rising (progressive
 * filling, Bertsekas & Gallager 1992, 6.5.2). Work goes on as fast as the calls on its device
 * leave it. Rates are integers, and what has been done is counted anew only when a rate changes,
 * so that a class does to the picosecond what each of its ranks would. */
struct tutti_sharing {
    struct tutti_queue *queue;         /* ends of activities, by id */
    struct tutti_activity *activities; /* [activity_count] by id */
    uint32_t *under_way;               /* [class * slots + i]: ids */
    uint32_t *under_way_count;         /* [class] */
    uint32_t *class_stamp;             /* [class] */
    uint32_t *touched;                 /* [class]: those whose activities changed */
    uint32_t *found;                   /* [class]: of a component */
    uint32_t touched_count;
    uint32_t found_count;
    uint32_t class_count;
    uint32_t slots; /* activities of a class under way at most: its lanes */
    uint32_t stamp;
};

struct tutti_arena;

int tutti_sharing_open(struct tutti_sharing *sharing, struct tutti_queue *queue,
                       struct tutti_arena *arena, uint32_t class_count, uint32_t lane_count,
                       uint32_t activity_count);
/* Begins an activity of `takes_ps` > 0, its first four fields being set. */
void tutti_sharing_begin(struct tutti_sharing *sharing, uint32_t id, tutti_ps takes_ps,
                         tutti_ps now_ps);
/* It has ended. */
void tutti_sharing_end(struct tutti_sharing *sharing, uint32_t id);
/* All that begins or ends at `now_ps` has: finds rates anew where something changed, and puts ends
 * into the queue. */
void tutti_sharing_settle(struct tutti_sharing *sharing, tutti_ps now_ps);

#endif
