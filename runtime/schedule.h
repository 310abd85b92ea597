/* The schedule: for each rank, lanes of small steps with dependencies. Collectives only write
 * schedules; simulators and real backends only read them. What a generator may declare of its steps
 * beside them (struct tutti_schedule_ops) is for the simulator, which folds by it. */
#ifndef TUTTI_RUNTIME_SCHEDULE_H
#define TUTTI_RUNTIME_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/data.h"
#include "runtime/schedule_hints.h"
#include "runtime/units.h"
#include "runtime/work.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* ---- a step -------------------------------------------------------------------------------- */

/* What a step does. All lengths in bytes; a step of 0 bytes is legal and still takes part in order,
 * matching and dependencies. */
enum tutti_step_kind {
    TUTTI_SEND = 1,    /* send src[0, bytes) to `peer` */
    TUTTI_RECV = 2,    /* receive `bytes` bytes from `peer` into dst */
    TUTTI_REDUCE = 3,  /* dst = acc op src, element by element */
    TUTTI_COPY = 4,    /* dst = src; 0 bytes: a plain join, carries a dependency only */
    TUTTI_COMPUTE = 5, /* works for `duration_ps`, or `flops` at the device's rate if that is 0;
                          what it reads and writes says entry number `peer` of the work table */
    TUTTI_CALL = 6,    /* run schedule number `peer` of the callee table on the rank's group of an
                          axis; see tutti_schedule_flatten */
};

enum tutti_buf {
    TUTTI_BUF_NONE = 0,
    TUTTI_BUF_IN = 1,      /* the caller's input, read only */
    TUTTI_BUF_OUT = 2,     /* the caller's output */
    TUTTI_BUF_SCRATCH = 3, /* private to the schedule; contents undefined at the start */
    TUTTI_BUF_STATE = 4,   /* the caller's, kept from play to play: weights, moments, counters */
    TUTTI_BUF_COUNT
};

enum tutti_step_flag {
    TUTTI_STEP_DEP = 1,  /* dep_lane and dep_step hold: starts only when that step has completed */
    TUTTI_STEP_LAST = 2, /* REDUCE, COPY: dst now holds all contributions; avg divides here */
    TUTTI_STEP_FUSE = 4, /* RECV into scratch: only the next step of this lane, a REDUCE, will read
                            these bytes, as its `src`, all of them; a backend may skip the store */
};

/* Order inside a lane: steps start in program order; a step starts when every earlier step of its
 * lane has completed, except that an earlier SEND need only have *started* (a SEND is asynchronous,
 * like MPI_Isend). A SEND starts when its connection has a free slot, and keeps the slot until it
 * completes. It completes when the matching RECV has completed (with FUSE: when the REDUCE that
 * reads it has): until then its source bytes must not be written. That is what
 * tutti_schedule_check holds schedules to, so that any backend may copy late or not at all. */
struct tutti_step {
    uint8_t kind;    /* enum tutti_step_kind */
    uint8_t flags;   /* enum tutti_step_flag, or-ed */
    uint8_t dst_buf; /* enum tutti_buf: RECV REDUCE COPY CALL */
    uint8_t src_buf; /* SEND REDUCE COPY CALL */
    uint8_t acc_buf; /* REDUCE: the left operand */
    union {
        uint8_t axis;      /* CALL: 0 all ranks, k: axes[k - 1] of the schedule */
        uint8_t reduction; /* REDUCE, COPY with LAST: 0 type and operator of the contract, else
                              those of tutti_reduction_code */
    };
    uint16_t dep_lane;
    uint32_t peer;     /* SEND: to; RECV: from; CALL: index of the callee; COMPUTE: 0 or 1 + the
                          index of its entry in the work table; REDUCE, COPY with LAST: what avg
                          divides by, 0: the number of ranks */
    uint32_t dep_step; /* index of a step in dep_lane of the same rank, counted from 0 */
    union {
        uint64_t bytes;
        uint64_t flops; /* COMPUTE */
    };
    union {
        uint64_t dst_offset;  /* CALL: where the callee's output begins in dst_buf */
        tutti_ps duration_ps; /* COMPUTE */
    };
    uint64_t src_offset; /* CALL: where the callee's input begins in src_buf; COMPUTE: the regions
                            of its entry that lie in src_buf lie so much further on */
    uint64_t acc_offset; /* CALL: where the callee's scratch begins in scratch */
};
TUTTI_STATIC_ASSERT(sizeof(struct tutti_step) <= 64, "a step fits in a cache line");

struct tutti_schedule;

/* How a REDUCE reduces, or how a step with LAST finishes. */
struct tutti_reduction {
    enum tutti_dtype dtype;
    enum tutti_op op;
    uint32_t divisor; /* of avg */
};

/* What goes into tutti_step.reduction for a type and operator of the step's own; never 0. */
uint8_t tutti_reduction_code(enum tutti_dtype dtype, enum tutti_op op);
/* What a step of `schedule` says; unknown codes have been refused by tutti_schedule_check. */
struct tutti_reduction tutti_step_reduction(const struct tutti_schedule *schedule,
                                            const struct tutti_step *step);

/* ---- what a schedule is for ---------------------------------------------------------------- */

/* `count` is nccl-tests' count column, n the number of ranks; buffers in elements:
 *   allreduce, broadcast, reduce  in count, out count (in or out of the root alone where rooted)
 *   reducescatter                 in n*count, out count: rank r gets block r
 *   allgather                     in count, out n*count: block r from rank r
 *   alltoall                      in n*count, out n*count: block j of rank i becomes block i of j
 *   sendrecv                      in count, out count: rank r's input arrives at rank (r+1) mod n
 *   barrier                       no data: no rank ends before every rank has begun
 *   custom                        no contract: cannot be proved, only checked */
enum tutti_collective {
    TUTTI_ALLREDUCE,
    TUTTI_REDUCESCATTER,
    TUTTI_ALLGATHER,
    TUTTI_BROADCAST,
    TUTTI_REDUCE_TO_ROOT,
    TUTTI_ALLTOALL,
    TUTTI_SENDRECV,
    TUTTI_BARRIER,
    TUTTI_CUSTOM,
    TUTTI_COLLECTIVE_COUNT
};

/* Names: allreduce reducescatter allgather broadcast reduce alltoall sendrecv barrier custom; the
 * reader also takes nccl-tests' spelling with underscores (all_reduce). */
const char *tutti_collective_name(enum tutti_collective collective);
int tutti_collective_find(const char *name, enum tutti_collective *ret, struct tutti_err *err);

/* The "size" column of nccl-tests for `count` elements on n ranks, and the bus bandwidth factor
 * busbw/algbw (facts: nccl-tests PERFORMANCE.md): 2(n-1)/n for allreduce, (n-1)/n for
 * reducescatter, allgather, alltoall, else 1. count_for is the inverse: the largest count of that
 * size or less. */
uint64_t tutti_collective_bytes(enum tutti_collective collective, uint64_t count,
                                enum tutti_dtype dtype, uint32_t rank_count);
uint64_t tutti_collective_count_for(enum tutti_collective collective, uint64_t bytes,
                                    enum tutti_dtype dtype, uint32_t rank_count);
double tutti_collective_bus_factor(enum tutti_collective collective, uint32_t rank_count);
bool tutti_collective_reduces(enum tutti_collective collective);   /* then it has an operator */
bool tutti_collective_is_rooted(enum tutti_collective collective); /* broadcast and reduce */

struct tutti_contract {
    enum tutti_collective collective;
    enum tutti_dtype dtype;
    enum tutti_op op;
    uint32_t root;  /* broadcast, reduce */
    uint64_t count; /* elements, as above */
};

/* ---- a schedule ---------------------------------------------------------------------------- */

/* Bytes of the four buffers of a rank. */
struct tutti_buf_sizes {
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t scratch_bytes;
    uint64_t state_bytes;
};

enum { TUTTI_ROUND_STEPS_MAX = 16, TUTTI_LANES_MAX = 4096, TUTTI_SLOTS_DEFAULT = 8 };

/* The steps of one round of one lane: what a generator writes at a time. */
struct tutti_round {
    uint32_t step_count;
    struct tutti_step step[TUTTI_ROUND_STEPS_MAX];
};

/* How the steps come to be. A lane is a sequence of rounds, each of at most TUTTI_ROUND_STEPS_MAX
 * steps; a generator computes any round of any lane of any rank on demand, from its parameters
 * alone, so nothing ever needs all programs in memory. Both must be pure functions, callable from
 * any thread. `emit` finds out->step_count == 0. */
struct tutti_schedule_ops {
    size_t size; /* sizeof(struct tutti_schedule_ops) */
    uint64_t (*round_count)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane);
    void (*emit)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                 uint64_t round, struct tutti_round *out);
    /* Optional: `count` rounds from `round` on, into out[0, count), all with step_count == 0: the
     * same as so many calls of `emit`, for generators that can do it faster. */
    void (*emit_run)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t round, uint32_t count, struct tutti_round *out);
    /* Optional, for schedules where all ranks run one program but for names: on each lane the same
     * number of rounds, and step by step the same kinds, lengths, flags and dependencies; a SEND
     * goes to the k-th partner of its rank where that of another goes to its own k-th, and a RECV
     * likewise. Writes at most `capacity` partners of a rank and returns how many there are; 0:
     * programs differ, as where the data cannot be cut into equal parts. */
    uint32_t (*partners)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         struct tutti_partners *out, uint32_t capacity);
    /* Optional: of the `count` rounds from `round` on, how many are relays, from the first on, and
     * which; at most TUTTI_RELAYS_MAX. For who keeps time only, at a fraction of the price. */
    uint32_t (*relays)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                       uint64_t round, uint32_t count, struct tutti_relays *ret);
    /* Optional: the phases that a lane of every rank consists of, where all of it is such. Writes
     * at most `capacity` of them and returns how many there are; 0: it is not made like that. */
    uint32_t (*ring_phases)(const struct tutti_schedule *schedule, uint32_t lane,
                            struct tutti_ring_phase *out, uint32_t capacity);
    /* Optional, for lanes of one phase whose chunks may be of different lengths: that phase, with
     * the bytes of the chunk that `rank` sends first, and that goes round from there, each round
     * one seat on. False: the lane is not made like that. */
    bool (*ring_chunk)(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank,
                       struct tutti_ring_phase *ret);
    /* Optional: how many rounds from `round` on repeat themselves: those that are *ret_period (at
     * least 1) apart are the same but for offsets, LAST, and the indices of the steps they depend
     * on, which go on as the programs of their lanes do: lanes of a rank that depend on each other
     * repeat together, one period for one. 0: none do. */
    uint64_t (*steady)(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                       uint64_t round, uint64_t *ret_period);
    /* Optional: part `part` (0, 1, ...) of the lane of every rank, and the length of the messages
     * that `rank` decides on, where lanes consist of such parts alone and are of equally many steps
     * for all ranks. False: there are no more; of part 0: they do not. */
    bool (*exchange)(const struct tutti_schedule *schedule, uint32_t lane, uint64_t part,
                     uint32_t rank, struct tutti_exchange *ret);
    /* Optional: ranks of equal numbers run one program but for names and offsets: lane by lane the
     * same kinds, lengths, flags, dependencies, callees, axes and work, and SENDs and RECVs to and
     * from the k-th peer where the other has its k-th, in the order of first use. */
    uint64_t (*program)(const struct tutti_schedule *schedule, uint32_t rank);
    /* Optional, where buffers of ranks differ: those of `rank`, none larger than the schedule's. */
    void (*sizes)(const struct tutti_schedule *schedule, uint32_t rank,
                  struct tutti_buf_sizes *ret);
    /* Optional: a tree of a schedule that consists of such alone. False: it does not. */
    bool (*tree)(const struct tutti_schedule *schedule, uint32_t number,
                 struct tutti_rank_tree *ret);
    /* With `tree`: ranks of equal numbers have subtrees that are the same but for names, children
     * in the same order. */
    uint64_t (*subtree)(const struct tutti_schedule *schedule, uint32_t number, uint32_t rank);
};

/* Frozen once made; may be shared by threads. A generator's own state follows it: generators embed
 * this struct as their first member, allocated in `arena`. */
struct tutti_schedule {
    const struct tutti_schedule_ops *ops;
    struct tutti_arena *arena; /* everything of the schedule, itself included, lives here */
    const char *name;          /* "ring", or what the text form says */
    struct tutti_contract contract;
    uint32_t rank_count;
    uint32_t lane_count; /* the same for every rank; a lane may be empty */
    uint32_t slot_count; /* messages a connection (from, to, lane) holds before SEND waits; >= 1 */
    uint32_t callee_count; /* length of `callees` */
    uint64_t in_bytes;  /* of the rank that has most: tutti_schedule_buf_sizes; of contracts but */
    uint64_t out_bytes; /* custom in and out are the same for all */
    uint64_t scratch_bytes;
    uint64_t state_bytes;
    /* 0, or: contract.count elements are so many chunks, and all offsets and lengths are whole
     * chunks; see tutti_schedule_scale. */
    uint64_t chunk_count;
    const struct tutti_schedule *const *callees; /* for CALL; owned by this schedule */
    /* All that it was made of: schedules of equal ops and equal words are equal. 0: not told. */
    const uint64_t *recipe;
    uint32_t recipe_count;         /* words */
    const struct tutti_axis *axes; /* for CALL and struct tutti_region */
    uint32_t axis_count;
    uint32_t work_count;
    const struct tutti_work *work; /* for COMPUTE */
    /* Regions of state that several steps, or several schedules in play at once, update in any
     * order, each update whole: the check takes no such accesses for races. */
    const struct tutti_region *atomics;
    uint32_t atomic_count;
};

/* What a rank's buffers hold. */
void tutti_schedule_buf_sizes(const struct tutti_schedule *schedule, uint32_t rank,
                              struct tutti_buf_sizes *ret);
uint64_t tutti_buf_size_of(const struct tutti_buf_sizes *sizes, enum tutti_buf buf);

/* Axis `number` as steps count them: 0 all ranks, k axes[k - 1]. */
struct tutti_axis tutti_schedule_axis(const struct tutti_schedule *schedule, uint32_t number);

/* Ends a schedule and its callees; NULL is a no-op. */
void tutti_schedule_free(struct tutti_schedule *schedule);

/* Sizes of in and out in bytes that the contract asks for. */
void tutti_contract_bytes(const struct tutti_contract *contract, uint32_t rank_count,
                          uint64_t *ret_in_bytes, uint64_t *ret_out_bytes);

/* ---- reading a program ---------------------------------------------------------------------- */

/* Walks one lane of one rank in program order, round by round, without allocating. */
struct tutti_cursor {
    const struct tutti_schedule *schedule;
    uint32_t rank;
    uint32_t lane;
    uint64_t round; /* next round to emit */
    uint64_t round_count;
    uint64_t step_index; /* index in the lane of the step that `next` returns next */
    uint32_t position;   /* in `batch` */
    struct tutti_round batch;
};

void tutti_cursor_open(struct tutti_cursor *cursor, const struct tutti_schedule *schedule,
                       uint32_t rank, uint32_t lane);

/* The next step, valid until the next call, or NULL at the end of the lane. */
const struct tutti_step *tutti_cursor_next(struct tutti_cursor *cursor);

/* Writes `count` rounds of a lane from `round` on, however the schedule does it best. */
void tutti_schedule_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, uint32_t count, struct tutti_round *out);

/* Number of steps of a lane; walks it. */
uint64_t tutti_schedule_step_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane);

/* ---- building one step by step --------------------------------------------------------------- */

/* For schedules that come from a file, a test or a strategy: steps are stored, 48 bytes each. */
struct tutti_builder;

struct tutti_schedule_desc {
    const char *name;
    struct tutti_contract contract;
    uint32_t rank_count;    /* >= 1 */
    uint32_t lane_count;    /* >= 1, at most TUTTI_LANES_MAX */
    uint32_t slot_count;    /* 0: TUTTI_SLOTS_DEFAULT */
    uint64_t in_bytes;      /* custom only; otherwise the contract decides and this must be 0 */
    uint64_t out_bytes;     /* custom only */
    uint64_t scratch_bytes; /* per rank */
    uint64_t chunk_count;   /* 0, or as in the schedule: steps are then held to it */
    uint64_t state_bytes;   /* per rank */
    const struct tutti_axis *axes; /* these tables are copied, names and regions too */
    uint32_t axis_count;
    uint32_t work_count;
    const struct tutti_work *work;
    const struct tutti_region *atomics; /* of state */
    uint32_t atomic_count;
    /* 0: each rank has a program of its own. Else steps are added to so many programs in the place
     * of ranks, and rank r runs number (r / program_stride) % program_count, where the peer of a
     * SEND or RECV is a distance: (rank + peer) % rank_count. Nothing then grows with the ranks. */
    uint32_t program_count;
    uint32_t program_stride; /* 0: 1 */
};

int tutti_builder_new(const struct tutti_schedule_desc *desc, struct tutti_builder **ret,
                      struct tutti_err *err);
/* Appends a step to a lane; returns 0 or an error (rank or lane out of range, memory). The first
 * error is kept: nothing is added any more, and finish returns it. So a generator may leave all
 * else unlooked at. */
int tutti_builder_add(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
                      const struct tutti_step *step, struct tutti_err *err);

/* The steps that generators are made of. Flags are or-ed into them: s.flags |= TUTTI_STEP_LAST. */
struct tutti_buf_at {
    enum tutti_buf buf;
    uint64_t offset;
};
struct tutti_step tutti_step_send(struct tutti_buf_at src, uint64_t bytes, uint32_t to);
struct tutti_step tutti_step_recv(struct tutti_buf_at dst, uint64_t bytes, uint32_t from);
struct tutti_step tutti_step_reduce(struct tutti_buf_at dst, struct tutti_buf_at acc,
                                    struct tutti_buf_at src, uint64_t bytes);
struct tutti_step tutti_step_copy(struct tutti_buf_at dst, struct tutti_buf_at src, uint64_t bytes);
/* Entry `index` of the work table, with its cost. */
struct tutti_step tutti_step_compute(const struct tutti_work *work, uint32_t index);
/* Callee `callee` on the rank's group of axis `axis` (0: all ranks). */
struct tutti_step tutti_step_call(uint32_t callee, uint8_t axis, struct tutti_buf_at in,
                                  struct tutti_buf_at out, uint64_t scratch_offset);

/* The buffers of a rank that has less than the description says; -TUTTI_EINVAL for more. Of a
 * contract but custom only scratch and state may differ. */
int tutti_builder_set_sizes(struct tutti_builder *builder, uint32_t rank,
                            const struct tutti_buf_sizes *sizes, struct tutti_err *err);

/* Adds a schedule that CALL steps can name; takes ownership on success; *ret_index is its number.
 */
int tutti_builder_add_callee(struct tutti_builder *builder, struct tutti_schedule *callee,
                             uint32_t *ret_index, struct tutti_err *err);
/* Freezes, or returns what went wrong before; the builder is gone afterwards, also on failure. */
int tutti_builder_finish(struct tutti_builder *builder, struct tutti_schedule **ret,
                         struct tutti_err *err);
void tutti_builder_free(struct tutti_builder *builder); /* to give up early */

/* A stored copy of any schedule (all ranks, all lanes): what mutation tests and editors work on. */
int tutti_schedule_store(const struct tutti_schedule *schedule, struct tutti_builder **ret,
                         struct tutti_err *err);

/* The same schedule without CALL steps: each call site becomes lanes of its own, forked and joined
 * by dependencies (zero-byte COPY steps). Lanes belong to an axis called from a lane, not to a
 * group: all its groups use the same. Members of a group call from the same lane, one call after
 * the other, in one order (tutti_schedule_check). Peers of a callee's rank i are members of the
 * group; its REDUCEs keep their type and operator. Backends play only flat schedules. The result
 * refers to `schedule`, which must outlive it. A schedule without callees gives a cheap
 * pass-through. Callees that themselves CALL, compute or have state are refused (one level). */
int tutti_schedule_flatten(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                           struct tutti_err *err);

/* A collective played by all groups of an axis at once: rank i of a group does what rank i of
 * `callee`, of as many ranks as a group, does among the members; ranks in no group do nothing.
 * -TUTTI_EINVAL for an axis that does not fit. What the callee's generator says of it holds on, as
 * far as groups let it. The result, a custom schedule, refers to `callee`, which must outlive it
 * and has no callees, work or state. */
int tutti_schedule_on_axis(const struct tutti_schedule *callee, const struct tutti_axis *axis,
                           uint32_t rank_count, struct tutti_schedule **ret, struct tutti_err *err);

/* The bytes of one chunk of a schedule in chunks; 0 of another. */
uint64_t tutti_schedule_chunk_bytes(const struct tutti_schedule *schedule);

/* The same schedule for `count` elements. One in chunks is for any multiple of its chunk_count:
 * its steps move chunks of another length, and what was checked or proved of it holds of this
 * one too. Another is for its own count alone. -TUTTI_EINVAL says which counts would do. The
 * result, which has no CALL steps, refers to `schedule`, which must outlive it. */
int tutti_schedule_scale(const struct tutti_schedule *schedule, uint64_t count,
                         struct tutti_schedule **ret, struct tutti_err *err);

/* ---- check, prove, print, parse ---------------------------------------------------------------
 */

/* Refuses (-TUTTI_ECHECK, message with rank, lane and step) a schedule that
 *   - addresses bytes outside its buffers, writes `in`, names a peer, lane or step that is not
 * there, sends to itself, uses FUSE other than described, reduces a fraction of an element;
 *   - has a SEND without RECV or the reverse, or a pair of different lengths;
 *   - has a group whose members call on one lane in different orders, or not equally often;
 *   - cannot finish: a cycle through lane order, dependencies, matching and slots (slot_count
 *     messages in flight per connection);
 *   - has two accesses to the same bytes, one a write, that nothing orders; what COMPUTE steps read
 *     and write by the work table counts, and `atomics` do not.
 * The order considered is happens-before over all ranks. Memory grows with steps * lanes * ranks:
 * meant for schedules of up to a few million steps. */
int tutti_schedule_check(const struct tutti_schedule *schedule, struct tutti_err *err);

/* Runs the schedule on sets of contributions instead of bytes and refuses (-TUTTI_ECHECK, naming
 * rank and step) one that does not fulfil its contract exactly: a contribution missing, doubled or
 * at the wrong place; LAST missing or applied early or twice; bytes read before they were written;
 * bytes overwritten, or left in scratch, that nobody read. Implies what is needed of check's
 * matching. With axes or a work table each callee is proved by itself, and a CALL does what its
 * contract says (sound where the check passes: nobody else touches a callee's buffers). What a
 * COMPUTE writes is a contribution of its rank, the same for all ranks that do entry k for the j-th
 * time; a region that it reads `whole` must hold those of all members of the group, reduced and
 * finished. A custom contract then promises nothing of `out`; without axes or work it cannot be
 * proved. */
int tutti_schedule_prove(const struct tutti_schedule *schedule, struct tutti_err *err);

/* As check and prove, of a schedule that is played in place as NCCL has it: in is out (all-reduce,
 * reduce, broadcast), in is the rank's block of out (all-gather), out is its block of in
 * (reduce-scatter). Refuses (-TUTTI_ECHECK) one that overwrites what it still needs, and
 * (-TUTTI_EINVAL) other collectives. */
int tutti_schedule_prove_in_place(const struct tutti_schedule *schedule, struct tutti_err *err);

/* The same steps with in and out in one buffer, `state`, laid out by that convention: any backend
 * plays it as it is, a custom schedule with neither in nor out. It refers to `schedule`, which must
 * outlive it. Refuses what prove_in_place does, and (-TUTTI_ELACK) what is too large to prove. */
int tutti_schedule_in_place(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                            struct tutti_err *err);
/* Where in and out of a rank begin in that buffer. False: there is no such convention. */
bool tutti_schedule_place(const struct tutti_schedule *schedule, uint32_t rank, uint64_t *ret_in,
                          uint64_t *ret_out);

/* What a schedule costs in the terms of every cost model, counted on its steps. */
struct tutti_price {
    uint64_t step_count;
    uint64_t send_count;        /* messages, those of 0 bytes included */
    uint64_t sent_bytes;        /* by all ranks together */
    uint64_t sent_bytes_max;    /* by the rank that sends most */
    uint64_t reduced_bytes_max; /* by the rank that reduces most */
    uint64_t copied_bytes_max;
    uint64_t round_count; /* messages one after another on the longest path: how often the latency
                             counts; lane order, dependencies, matching and slots considered */
};

/* Refuses what cannot finish, as check does. Memory grows with the steps of all ranks. */
int tutti_schedule_price(const struct tutti_schedule *schedule, struct tutti_price *ret,
                         struct tutti_err *err);

/* The text form; parse(print(s)) prints the same text again. print writes the whole text to *ret,
 * which the caller frees with free(). Grammar at the top of runtime/schedule/text.c and in the man
 * page. parse: `name` is the file name for messages ("file: line 3: ..."). */
int tutti_schedule_print(const struct tutti_schedule *schedule, char **ret, struct tutti_err *err);
int tutti_schedule_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_schedule **ret, struct tutti_err *err);

/* "SEND out+64 128 B to 3" and the like, one step for people; returns `buf`. */
enum { TUTTI_STEP_TEXT_BYTES = 224 };
const char *tutti_step_text(const struct tutti_step *step, char *buf);

TUTTI_API_END

#endif
