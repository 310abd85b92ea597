/* A schedule as the CUDA player plays it: all programs matched before, messages read straight from
 * the sender's memory, steps joined into operations. Host C without CUDA; private to
 * runtime/exec/cuda.
 *
 * The k-th SEND of a connection and the k-th RECV meet for certain, so that the host pairs them. A
 * SEND only counts up the connection's head; a RECV waits for that and copies, or, where the next
 * REDUCE reads what came, is the wait before that REDUCE. Then steps are joined:
 *   sources  REDUCE after REDUCE into one place become one operation of up to 8 sources, added in
 *            the order of the schedule, so that bits stay;
 *   targets  a result whose next steps send it on is written to the receivers' outputs as well, and
 *            their RECVs become waits, where no step of the receiver touches those bytes before.
 * Short messages of results go by lines: the sender puts the bytes with the number of the iteration
 * into memory of the message's own, and the receiver looks at them until they are there: no
 * counter, and no order of memory between. That serves where nothing is ordered but by the messages
 * themselves: in schedules without dependencies between lanes, in which ranks then read nothing of
 * each other's but `in`, which nobody writes.
 *
 * Waits then come earlier and releases later than in the schedule. That this never locks up is
 * tried out on the counters before anything is played: they only grow, so one order of events that
 * ends shows that all do. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_PLAN_H
#define TUTTI_RUNTIME_EXEC_CUDA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/cuda/op.h"
#include "runtime/exec/program.h"

struct tutti_err;

/* The GPUs of one host that ranks are played on: of g GPUs and n ranks rank r is on GPU r * g / n,
 * rounded down, so that each has neighbours. What lies between two ranks, lies with the GPU of the
 * one that waits: counters, lines. Where two GPUs do not reach each other's memory, it lies with
 * the host, and messages that do not go by lines are put there by the sender's block and taken from
 * there by the receiver's, in as many slots as the schedule has. */
struct tutti_cuda_spread {
    uint32_t gpu_count; /* 1 to TUTTI_CUDA_GPUS_MAX, and no more than ranks */
    /* Both reach the other's memory. */
    bool direct[TUTTI_CUDA_GPUS_MAX][TUTTI_CUDA_GPUS_MAX];
};

static inline uint32_t tutti_cuda_gpu_of(const struct tutti_cuda_spread *spread, uint32_t rank,
                                         uint32_t rank_count)
{
    return (uint32_t)((uint64_t)rank * spread->gpu_count / rank_count);
}

/* The first rank of a GPU; of GPU gpu_count: the number of ranks. */
static inline uint32_t tutti_cuda_first_rank(const struct tutti_cuda_spread *spread, uint32_t gpu,
                                             uint32_t rank_count)
{
    return (uint32_t)(((uint64_t)gpu * rank_count + spread->gpu_count - 1) / spread->gpu_count);
}

/* Bytes of a rank; or the memory of a message, whose number `rank` then is. */
struct tutti_cuda_place {
    uint64_t offset;
    uint32_t rank;
    uint32_t buf; /* enum tutti_buf, or: */
};
enum {
    TUTTI_CUDA_LINES = TUTTI_BUF_COUNT,
    TUTTI_CUDA_BASES,
    TUTTI_CUDA_STAGES = TUTTI_CUDA_BASES, /* with the same bases as lines */
};

struct tutti_cuda_planned_op {
    struct tutti_cuda_place src[TUTTI_CUDA_SOURCES_MAX];
    struct tutti_cuda_place dst[TUTTI_CUDA_TARGETS_MAX];
    uint64_t bytes;
    uint64_t duration_ps;
    uint32_t wait_first; /* of the plan's */
    uint32_t wait_count;
    uint32_t signal_first;
    uint32_t signal_count;
    uint32_t divide_by;
    uint16_t src_count;
    uint16_t dst_count;
    uint8_t code; /* as of struct tutti_cuda_op */
    bool asks;    /* work of the host's: COMPUTE `host_step` of its lane */
    uint32_t host_step;
    uint32_t step_first; /* the steps of its lane that it stands for */
    uint32_t step_end;
    bool plain;     /* its signals only give slots back */
    bool discarded; /* dst[0] is read by the next operation with data alone */
};

/* One message: the SEND and the RECV that meet. Steps are counted over all lanes of all ranks. */
struct tutti_cuda_message {
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t connection;
    uint32_t number; /* of the connection, from 0 */
    uint32_t send;
    uint32_t recv;
    bool released; /* somebody waits until it has been taken */
    bool pushed;   /* the RECV finds it in its place */
    bool lined;    /* it goes by a line */
    bool apart;    /* between GPUs that do not reach each other's memory */
    uint8_t home;  /* where its line lies, or its slot: a GPU, or with the host: gpu_count */
    uint64_t home_offset;
};

/* By a slot with the host, if it has any bytes. */
static inline bool tutti_cuda_is_staged(const struct tutti_cuda_message *message)
{
    return message->apart && !message->lined;
}

struct tutti_cuda_plan {
    const struct tutti_schedule *schedule;
    struct tutti_cuda_spread spread;
    struct tutti_program program;
    uint32_t lane_total;  /* of all ranks */
    uint32_t *step_first; /* [lane_total + 1] */
    struct tutti_cuda_message *messages;
    uint32_t message_count;
    uint32_t connection_count;
    uint32_t *connection_first; /* [connection]: its first message */
    uint32_t *message_of;       /* [step]: SEND, RECV */
    uint8_t *marks;             /* [step]: enum tutti_cuda_mark */

    struct tutti_cuda_planned_op *ops;
    uint32_t op_count;
    uint32_t op_capacity;
    uint32_t *op_first; /* [lane_total + 1] */
    struct tutti_cuda_flag *waits;
    uint32_t *wait_steps; /* [wait]: the step that waits, of its lane */
    uint32_t wait_count;
    uint32_t wait_capacity;
    struct tutti_cuda_flag *signals;
    uint32_t signal_count;
    uint32_t signal_capacity;
    struct tutti_reduction reduction; /* of all that is reduced, unless it is mixed */
    bool has_reduction;
    bool mixed; /* by several types or operators: another kernel plays it */
    bool asks;  /* some operations are work of the host's */
    bool lined; /* messages go by lines, but for those of `in` */
    /* Of all lines and slots, by where they lie. */
    uint64_t home_bytes[TUTTI_CUDA_GPUS_MAX + 1];
    uint64_t moved_bytes; /* read and written by one iteration */
    uint64_t op_bytes_max;
};

enum tutti_cuda_mark {
    TUTTI_CUDA_MARK_AWAITED = 1, /* another step depends on it, and it is no SEND */
    TUTTI_CUDA_MARK_DISCARD = 2, /* what it writes is read by the lane's next reader alone */
};

/* The counters: head and tail of each connection, then what each lane has done. */
static inline uint32_t tutti_cuda_head(uint32_t connection)
{
    return 2 * connection;
}

static inline uint32_t tutti_cuda_tail(uint32_t connection)
{
    return 2 * connection + 1;
}

static inline uint32_t tutti_cuda_done(const struct tutti_cuda_plan *plan, uint32_t lane_index)
{
    return 2 * plan->connection_count + lane_index;
}

static inline uint32_t tutti_cuda_counter_count(const struct tutti_cuda_plan *plan)
{
    return 2 * plan->connection_count + plan->lane_total;
}

enum tutti_cuda_planning { TUTTI_CUDA_PLAIN, TUTTI_CUDA_JOINED, TUTTI_CUDA_LINED };

/* Plans a flat schedule, for one GPU: an operation a step; or joined, as said above; or with lines
 * besides where they serve. -TUTTI_ECHECK, with rank, lane and step, for one that cannot be played:
 * a SEND or RECV that meets none, a pair of different lengths, a wait that nothing ends.
 * -TUTTI_ELACK: more than 2^22 steps. The plan refers to the schedule. */
int tutti_cuda_plan_open(struct tutti_cuda_plan *plan, const struct tutti_schedule *schedule,
                         enum tutti_cuda_planning planning, struct tutti_err *err);
/* The same for several GPUs. */
int tutti_cuda_plan_spread(struct tutti_cuda_plan *plan, const struct tutti_schedule *schedule,
                           enum tutti_cuda_planning planning,
                           const struct tutti_cuda_spread *spread, struct tutti_err *err);
void tutti_cuda_plan_close(struct tutti_cuda_plan *plan); /* a zeroed one is a no-op */

/* What a GPU has of a plan: neighbours, in the plan's order. */
struct tutti_cuda_part {
    uint32_t gpu;
    uint32_t rank_first;
    uint32_t rank_end;
    uint32_t lane_first; /* of all ranks */
    uint32_t lane_count;
    uint32_t op_first;
    uint32_t op_count;
};
struct tutti_cuda_part tutti_cuda_part_of(const struct tutti_cuda_plan *plan, uint32_t gpu);

/* The part as the device reads it: bases[buf][rank] is where a buffer begins there, and
 * bases[TUTTI_CUDA_LINES][home] where the lines and slots of a home do. */
void tutti_cuda_resolve(const struct tutti_cuda_plan *plan, const struct tutti_cuda_part *part,
                        const uint64_t *const bases[TUTTI_CUDA_BASES],
                        struct tutti_cuda_op *ret_ops, struct tutti_cuda_lane *ret_lanes);
/* A wait or signal as the device reads it. */
struct tutti_cuda_flag tutti_cuda_resolve_flag(const struct tutti_cuda_plan *plan,
                                               struct tutti_cuda_flag flag);

/* The operations of a plan without lines, by levels: those of level 0 may be played at any time and
 * all at once, those of level k after all of the levels before. Waits and signals are then over;
 * the order of each lane is kept where its operations touch the same bytes. Levels of operations
 * are fewer than those of steps (runtime/exec/levels.h): all sources of a sum are one, and what is
 * written to its receiver's place is none. */
struct tutti_cuda_stages {
    uint32_t *levels; /* [op]; TUTTI_CUDA_NO_LEVEL: it does nothing but wait and tell others */
    uint32_t level_count;
};
#define TUTTI_CUDA_NO_LEVEL UINT32_MAX

int tutti_cuda_stages_open(struct tutti_cuda_stages *stages, const struct tutti_cuda_plan *plan,
                           struct tutti_err *err);
void tutti_cuda_stages_close(struct tutti_cuda_stages *stages); /* a zeroed one is a no-op */

/* "rank 3, lane 0, step 17 (RECV out+64 128 B from 2)". */
enum { TUTTI_CUDA_STEP_TEXT_BYTES = 224 };
const char *tutti_cuda_step_text(const struct tutti_cuda_plan *plan, uint32_t lane_index,
                                 uint32_t step, char *buf);

/* ---- between the files ---- */

/* Pairs SENDs and RECVs; fills messages and message_of. */
int tutti_cuda_match(struct tutti_cuda_plan *plan, struct tutti_err *err);

/* Decides where the memory of messages lies: with which GPU, or with the host. */
void tutti_cuda_choose_homes(struct tutti_cuda_plan *plan);

/* Decides whether messages go by lines, and where these lie. */
void tutti_cuda_choose_lines(struct tutti_cuda_plan *plan);

/* Decides where the slots of messages between GPUs lie that do not reach each other's memory; not
 * with lines. */
void tutti_cuda_choose_stages(struct tutti_cuda_plan *plan);

/* Marks what joins need to know before operations are made: pushed messages, discarded results. */
int tutti_cuda_find_joins(struct tutti_cuda_plan *plan, struct tutti_err *err);

/* Joins the last two operations of the lane whose operations begin at `first`, as often as it goes.
 */
void tutti_cuda_join_last(struct tutti_cuda_plan *plan, uint32_t first, bool sources);

/* The lane that stores a counter, over all ranks. */
uint32_t tutti_cuda_owner(const struct tutti_cuda_plan *plan, uint32_t counter);

/* Tries the counters out: whether all operations come to their end; else *ret_lane and *ret_step
 * say who waits for ever, the first of the lowest rank. */
int tutti_cuda_rehearse(const struct tutti_cuda_plan *plan, bool *ret_ends, uint32_t *ret_lane,
                        uint32_t *ret_step, struct tutti_err *err);

static inline bool tutti_cuda_is_line(const struct tutti_cuda_place *place)
{
    return place->buf == TUTTI_CUDA_LINES;
}

static inline const struct tutti_step *tutti_cuda_step(const struct tutti_cuda_plan *plan,
                                                       uint32_t lane_index, uint32_t step)
{
    return &plan->program.lanes[lane_index].steps[step];
}

#endif
