/* The state of ranks on a virtual clock, and the work they do; private to sim/local. */
#ifndef TUTTI_SIM_LOCAL_STAGE_H
#define TUTTI_SIM_LOCAL_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine.h"
#include "runtime/schedule.h"
#include "sim/local.h"
#include "sim/local/blocks.h"
#include "sim/local/memory.h"
#include "sim/local/messages.h"

/* What a lane is doing. */
struct local_place {
    struct tutti_post post;
    bool is_sent;               /* SEND: has its slot */
    double start_ps;            /* when it was posted */
    struct local_message *seen; /* that a fused RECV has only looked at; NULL: none */
    uint32_t from;              /* whose that is */
    uint64_t got_bytes;         /* of a message from another process, */
    uint64_t piece_bytes;       /* and of the piece at work */
    bool put_off; /* the result of the last REDUCE is not written yet: the next may add to it */
};

struct local_rank {
    uint32_t *busy; /* lanes with a posted step, oldest first */
    uint32_t busy_count;
    uint32_t *peers; /* wires with SENDs under way */
    uint32_t peer_count;
    double ready_ps; /* it has nothing else to do from then on */
    bool working;    /* on a pass of lane busy[at]: */
    uint32_t at;
    struct local_wire *sending; /* or on handing a piece to the system, over this wire */
    uint64_t piece_bytes;
    double left_ps; /* of it, if nobody else were working, */
    double all_ps;  /* and of all of it */
    double use;     /* what part of what all share it then takes */
    double speed;   /* 1: as if nobody else were working */
};

struct tutti_local_play {
    struct local_blocks *blocks; /* of a GPU: and nothing else */
    const struct tutti_schedule *schedule;
    const struct tutti_local *local; /* of this call */
    struct tutti_engine *engine;
    struct local_messages messages;
    struct local_memory memory;
    struct local_rank *ranks;
    struct local_place *places; /* [rank * lanes + lane] */
    uint32_t processor_count;
    double now_ps;
    double hop_ps;
    double step_ps;
};

static inline struct local_place *local_place_of(const struct tutti_local_play *play, uint32_t rank,
                                                 uint32_t lane)
{
    return &play->places[(uint64_t)rank * play->schedule->lane_count + lane];
}

/* The rank begins the pass of the step of its lane busy[at], which may be of no length at all. */
void tutti_local_work_start(struct tutti_local_play *play, uint32_t rank, uint32_t at);

/* The wire from another process whose pieces the step waits for or is busy with; NULL: none. */
struct local_wire *tutti_local_remote_of(const struct tutti_local_play *play, uint32_t rank,
                                         const struct local_place *place);
/* When the next of them can be taken; the pass over what is there; and that ended: true if the
 * message is complete. */
double tutti_local_remote_when(const struct local_wire *wire);
struct local_pass tutti_local_remote_take(struct tutti_local_play *play, uint32_t rank,
                                          struct local_place *place, struct local_wire *wire);
bool tutti_local_remote_took(struct local_place *place, struct local_wire *wire);

/* When the oldest SEND that has not ended does. */
double tutti_local_remote_ends(const struct tutti_local_play *play, const struct local_wire *wire);

/* From what size on messages are lent. */
uint64_t tutti_local_remote_lend_min(const struct tutti_local_play *play);

/* Whether there is a piece to be handed over; that begun; and ended. */
bool tutti_local_remote_wants(const struct local_wire *wire);
/* Whether the next belongs to a call that has begun, and so comes before all else. */
bool tutti_local_remote_goes_on(const struct local_wire *wire);
void tutti_local_remote_give(struct tutti_local_play *play, uint32_t rank, struct local_wire *wire);
void tutti_local_remote_gave(struct tutti_local_play *play, uint32_t rank);

struct local_pass tutti_local_begin_pass(struct tutti_local_play *play, uint32_t rank,
                                         enum tutti_local_parameter past);
enum tutti_local_touch tutti_local_store_of(const struct tutti_local_play *play, uint64_t bytes);
void tutti_local_work_begin(struct tutti_local_play *play, uint32_t rank, struct local_pass *pass);

#define LOCAL_NEVER_PS 9e18

/* Sets the speed of all who work: who wishes no more of what is shared than an equal part of what
 * the others leave has it, the rest share that. Ranks of one processor take turns. */
void tutti_local_work_share(struct tutti_local_play *play);

#endif
