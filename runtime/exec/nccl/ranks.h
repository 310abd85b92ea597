/* The ranks of a process, each with its GPU and its end of the communicator, and the run that they
 * have loaded. Private to runtime/exec/nccl. */
#ifndef TUTTI_RUNTIME_EXEC_NCCL_RANKS_H
#define TUTTI_RUNTIME_EXEC_NCCL_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/exec/levels.h"
#include "runtime/exec/nccl/library.h"
#include "runtime/exec/program.h"
#include "runtime/exec/run/player.h"
#include "runtime/nccl.h"
#include "runtime/status.h"

/* A rank's GPU and its end of the communicator: kept from run to run. */
struct tutti_nccl_rank {
    struct tutti_gpu gpu;
    uint32_t rank;
    void *comm;
    void **groups;      /* [axis_count of the player]: of its group of an axis; NULL: in none */
    uint64_t simulated; /* memory that NCCL is told of while it simulates */
};

struct tutti_nccl_player {
    struct tutti_player base; /* first member: the player casts back */
    struct tutti_nccl_opts opts;
    struct tutti_nccl_library library;
    struct tutti_nccl_rank *ranks; /* [own_count] */
    uint32_t own_count;            /* those that are open */
    uint32_t first_rank;
    uint32_t rank_count;     /* of the communicator */
    struct tutti_axis *axes; /* whose groups have communicators of their own */
    uint32_t axis_count;
    bool connected; /* all ranks have their end of it */
    bool blocks;    /* calls of NCCL return when the work is in the stream */
    bool shares;    /* GPUs, with other ranks */
};

/* A SEND or RECV of a level. */
struct tutti_nccl_message {
    uint64_t at; /* in its buffer, and then of the device */
    uint64_t bytes;
    uint32_t level;
    uint32_t peer;
    uint32_t lane;
    uint32_t number; /* of the connection */
    uint8_t buf;     /* enum tutti_buf; TUTTI_BUF_COUNT: what comes with FUSE */
    bool is_send;
};

/* What a rank does at one time by itself: some lanes of a kernel. */
struct tutti_nccl_launch {
    struct tutti_level_stage at;
    void *kernel;
    uint32_t lane_first; /* of the part's, all that it uploads */
    uint32_t lane_count;
    const struct tutti_step *work; /* NULL, or a COMPUTE that the host does, instead */
    uint32_t work_lane;            /* where it is in the rank's program */
    uint64_t work_index;
};

/* What a rank does one after the other: messages of a level, or a launch; of a record. */
struct tutti_nccl_unit {
    struct tutti_level_stage at;
    void *end; /* an event */
};

/* What a rank has of a run. */
struct tutti_nccl_part {
    struct tutti_nccl_rank *rank;
    uint64_t memory; /* of the device: buffers, what comes with FUSE, operations, lanes */
    uint64_t addresses[TUTTI_BUF_COUNT];
    uint64_t staging;
    uint64_t flag; /* a byte: in a meeting, whether a rank has had enough */
    uint64_t ops;
    uint64_t lanes;
    struct tutti_buf_sizes sizes;
    struct tutti_nccl_message *messages; /* by level, peer, lane, number */
    uint32_t message_count;
    struct tutti_nccl_launch *launches; /* by level and stage */
    uint32_t launch_count;
    uint32_t message_next; /* of this iteration */
    uint32_t launch_next;
    void **marks;      /* [MARKS]: events: how far the stream has come */
    void *begin;       /* event: of the iteration that is recorded */
    tutti_ps began_ps; /* and when that was, on the host's clock */
    struct tutti_nccl_unit *units;
    uint32_t unit_count;
    uint32_t unit_next;
};

enum { TUTTI_NCCL_MARKS = 32 };

/* Where a level is asked for: ranks are being connected, meet between iterations, or call. */
#define TUTTI_NCCL_CONNECTING UINT32_MAX
#define TUTTI_NCCL_MEETING    (UINT32_MAX - 1)
#define TUTTI_NCCL_CALLING    (UINT32_MAX - 2) /* a CALL of streams is put in */

struct tutti_nccl_loaded {
    struct tutti_nccl_player *player;
    struct tutti_load load;
    struct tutti_program program;
    struct tutti_levels levels;
    struct tutti_nccl_part *parts; /* [own_count] */
    struct tutti_burst burst;
    tutti_ps *took_ps; /* of the burst: [took_max] */
    uint32_t took_count;
    uint32_t took_max;
    tutti_ps host_ps; /* of the burst: to hand its timed iterations to the GPUs */
    uint32_t timed_count;
    tutti_ps record_error_ps;
    int64_t opened_ns;
    uint64_t iteration; /* that is played, since the run was opened */
    bool enough;
    /* Marks are numbered on; each stands at the end of a level, of all ranks. */
    uint64_t mark_count;
    uint64_t mark_done;
    uint32_t mark_levels[TUTTI_NCCL_MARKS];
    atomic_bool aborted;
    pthread_mutex_t lock; /* of the two below */
    int abort_status;
    struct tutti_err abort_err;
};

int64_t tutti_nccl_now_ns(void);

/* ---- communicator.c ---- */

/* The GPUs of the ranks of a load; also those that are there already stay. */
int tutti_nccl_ranks_open(struct tutti_nccl_player *player, const struct tutti_load *load,
                          struct tutti_err *err);
void tutti_nccl_ranks_close(struct tutti_nccl_player *player);
/* Connects all ranks; collective. Nothing is done where they are. */
int tutti_nccl_connect(struct tutti_nccl_loaded *run, struct tutti_err *err);
/* What a new communicator is like. */
struct tutti_nccl_config tutti_nccl_config_of(const struct tutti_nccl_player *player);
/* Past all that NCCL has under way. */
void tutti_nccl_abort(struct tutti_nccl_player *player);
/* Ends the communicators of axes: in peace if the others do so too. */
void tutti_nccl_leave_axes(struct tutti_nccl_player *player);

/* ---- axes.c ---- */

/* Communicators for the groups of the axes of the run's schedule, made of that of all ranks, which
 * are connected; collective. Nothing is done where they are there. -TUTTI_ELACK: NCCL cannot. */
int tutti_nccl_split(struct tutti_nccl_loaded *run, struct tutti_err *err);

/* ---- parts.c ---- */

/* Memory, messages and launches of the ranks here. */
int tutti_nccl_parts_open(struct tutti_nccl_loaded *run, struct tutti_err *err);
void tutti_nccl_parts_close(struct tutti_nccl_loaded *run);
/* To the GPUs before a burst, and back after it. */
int tutti_nccl_parts_write(struct tutti_nccl_loaded *run, struct tutti_err *err);
int tutti_nccl_parts_read(struct tutti_nccl_loaded *run, struct tutti_err *err);

/* ---- work.c ---- */

/* REDUCEs, COPYs and COMPUTEs of a part as operations, in the order of play, those of a launch next
 * to each other. Each stands on its own: they wait for nothing. */
struct tutti_nccl_op;
struct tutti_nccl_work {
    struct tutti_nccl_op *ops; /* as planned */
    uint32_t op_count;
    struct tutti_cuda_op *pieces;  /* as the device reads them: cut for many blocks */
    struct tutti_cuda_lane *lanes; /* of a piece or more each */
    uint32_t piece_count;
    uint32_t lane_count;
};

/* `staged`: [step of the program]: where what came with FUSE lies in the staging memory. Addresses
 * are those of part->addresses, and offsets from them as long as these are 0. */
int tutti_nccl_work_plan(const struct tutti_nccl_loaded *run, const struct tutti_nccl_part *part,
                         const uint64_t *staged, struct tutti_nccl_work *work,
                         struct tutti_err *err);
/* Once the part has memory: pieces, lanes, and the launches of the part. */
int tutti_nccl_work_cut(struct tutti_nccl_part *part, struct tutti_nccl_work *work,
                        struct tutti_err *err);
/* Pieces at most, before they are cut. */
uint32_t tutti_nccl_work_pieces(const struct tutti_nccl_part *part,
                                const struct tutti_nccl_work *work);
void tutti_nccl_work_free(struct tutti_nccl_work *work);

/* ---- host_work.c ---- */

/* Work of the host's, for a part whose stream is done with all that comes before it. */
int tutti_nccl_host_work(const struct tutti_nccl_loaded *run, uint32_t own,
                         const struct tutti_nccl_launch *launch, struct tutti_err *err);

/* ---- play.c ---- */

/* The burst, from its meetings to its end. */
int tutti_nccl_play(struct tutti_nccl_loaded *run, struct tutti_err *err);
/* What breaks off what is under way: an abort, or what NCCL has met with behind its calls.
 * *ret_settled: all that was asked for is in the streams. */
int tutti_nccl_look(struct tutti_nccl_loaded *run, bool *ret_settled, struct tutti_err *err);
/* After a group: waits until it is in the streams, within the deadline. */
int tutti_nccl_settle(struct tutti_nccl_loaded *run, uint32_t level, struct tutti_err *err);

/* ---- native.c ---- */

/* -TUTTI_EINVAL, -TUTTI_ELACK: NCCL has no collective for it. */
int tutti_nccl_native_check(const struct tutti_nccl_loaded *run, struct tutti_err *err);
/* A rank among those who take part. */
struct tutti_nccl_member {
    const struct tutti_gpu *gpu;
    void *comm;
    uint32_t rank;
    uint32_t rank_count;
};

/* Puts the collective of a rank into a group. */
int tutti_nccl_native(const struct tutti_nccl_library *library,
                      const struct tutti_nccl_member *member, const struct tutti_contract *contract,
                      uint64_t in, uint64_t out, struct tutti_err *err);
/* Of all ranks. */
struct tutti_nccl_member tutti_nccl_member_of(const struct tutti_nccl_player *player,
                                              const struct tutti_nccl_rank *rank);

/* ---- player.c ---- */

/* A burst begins: there is room for its times. */
int tutti_nccl_begin(struct tutti_nccl_loaded *run, const struct tutti_burst *burst,
                     struct tutti_err *err);
/* After an error: what is under way ends, or its GPU is given up; other processes are told. */
void tutti_nccl_give_up(struct tutti_nccl_loaded *run, int status, const struct tutti_err *err);

#endif
