/* A backend: something that plays a schedule, on a virtual clock (sim) or for real (threads, tcp,
 * mpi, cuda, nccl). */
#ifndef TUTTI_RUNTIME_BACKEND_H
#define TUTTI_RUNTIME_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_record;
struct tutti_schedule;
struct tutti_backend;
struct tutti_played;
struct tutti_run;

/* One performance: a schedule, played warmup_count + iteration_count times. */
struct tutti_play {
    size_t size; /* sizeof(struct tutti_play): runtime/api.h */
    const struct tutti_schedule *schedule;
    /* in[r], out[r]: rank r's buffers, as long as tutti_schedule_buf_sizes says; both NULL: the
     * backend provides zeroed ones (sim: carries no data at all). Only those of the ranks that this
     * process has (tutti_backend_ranks) are looked at. Each iteration reads `in` afresh.
     * out[r] may be in[r] where tutti_schedule_prove_in_place lets that pass; otherwise no two
     * buffers overlap: backends write results straight to where they will be received. */
    const void *const *in;
    void *const *out;
    uint32_t warmup_count;    /* played before, not timed */
    uint32_t iteration_count; /* timed; >= 1 */
    bool barrier;             /* ranks meet before each iteration, outside the timing */
    /* With a barrier of several processes, all on one host: each iteration begins at one moment by
     * its clock, which all know, so long after the last process has come; they have learnt of it by
     * then. 0: each begins as soon as it knows that all have come, up to the latency of some
     * messages apart. -TUTTI_EINVAL if there are several hosts, which have no common clock. */
    tutti_ps lead_ps;
    tutti_ps deadline_ps;        /* no wait lasts longer than this; 0: the backend's default */
    struct tutti_record *record; /* NULL, or receives the events of the last iteration */
    /* NULL, or a hook, called after each iteration but the last while all ranks of this process
     * wait; what it does to the buffers all see. `played_count` iterations have been played since
     * the run was opened, warm-ups included. 0: go on; > 0: enough, in all processes; negative,
     * with a message: all break off. It is outside the timing; ranks meet before each iteration as
     * with a barrier, and the others wait for it no longer than the
     * deadline. All processes have one or none has. -TUTTI_ELACK from backends that hold nothing
     * open. */
    int (*between)(void *context, uint64_t played_count, struct tutti_err *err);
    void *between_context;
    /* state[r]: rank r's state, as long as tutti_schedule_buf_sizes says; what it holds stays from
     * play to play. NULL: the backend provides it, zeroed when the run is opened. */
    void *const *state;
};

struct tutti_played {
    tutti_ps total_ps;   /* all timed iterations: from the common start to the last rank's end */
    tutti_ps best_ps;    /* with barrier: shortest iteration; else total / iteration_count */
    tutti_ps median_ps;  /* with barrier: median iteration; else likewise */
    uint64_t step_count; /* steps completed in one iteration, all ranks */
    /* cuda, nccl, with a barrier: the times of a record are the GPU's, put onto the host's clock,
     * where the iteration began at 0, in the middle of what the host saw of it: how far off they
     * may be. 0: they are the host's own, or count from the first step. */
    tutti_ps record_error_ps;
    tutti_ps host_ps; /* cuda, nccl: what the host takes, on average, to hand an iteration to the
                            GPUs; else 0 */
};

/* Errors of play: -TUTTI_ECHECK for a schedule that cannot finish, -TUTTI_ETIME when a deadline
 * passed (with several processes for both): they name rank, lane, step and what is waited for; then
 * no output is valid. With several processes all of them play, and all get the same status and the
 * same times, which are those of all ranks. 1: a hook has had enough before the last iteration. */
struct tutti_backend_ops {
    size_t size; /* sizeof(struct tutti_backend_ops) */
    const char *name;
    void (*close)(struct tutti_backend *backend);
    /* NULL where runs can be held open: then a play is a run of one step. */
    int (*play)(struct tutti_backend *backend, const struct tutti_play *play,
                struct tutti_played *ret, struct tutti_err *err);
    /* Of a schedule of rank_count ranks, those that this process plays. NULL: all of them. */
    void (*ranks)(const struct tutti_backend *backend, uint32_t rank_count, uint32_t *ret_first,
                  uint32_t *ret_count);
    /* As the functions of runs below; all three, or none where nothing is held open between plays.
     * What `play` points to is borrowed until close_run, the struct itself is not. */
    int (*open_run)(struct tutti_backend *backend, const struct tutti_play *play, void **ret,
                    struct tutti_err *err);
    int (*step_run)(void *run, uint32_t warmup_count, uint32_t iteration_count,
                    struct tutti_played *ret, struct tutti_err *err);
    void (*close_run)(void *run);
    /* open_run takes schedules with CALLs, which are then in records; else they are flattened
     * before. */
    bool calls;
};

struct tutti_backend {
    const struct tutti_backend_ops *ops; /* a backend embeds this struct as its first member */
};

/* Flattens if need be, checks the arguments, plays. */
int tutti_backend_play(struct tutti_backend *backend, const struct tutti_play *play,
                       struct tutti_played *ret, struct tutti_err *err);
void tutti_backend_close(struct tutti_backend *backend); /* NULL is a no-op */

/* Open once, step often: a schedule whose threads, connections and buffers stay from step to step.
 * Threads that wait for the next step spin a little, and then sleep. The same thread makes all
 * calls of a run, and plays one of its ranks in them. With several processes all of them make the
 * same calls. A backend has one run open at a time, and plays nothing else meanwhile.
 *
 * The schedule, the buffers and the record of `play` are borrowed until the run is closed; its
 * iteration_count does not matter. Buffers that the backend provides keep their bytes from step to
 * step. */
int tutti_run_open(struct tutti_backend *backend, const struct tutti_play *play,
                   struct tutti_run **ret, struct tutti_err *err);
/* Plays count >= 1 iterations, as a play of so many; the warm-ups come before those of the first
 * step. After an error the run is of no use but to be closed. */
int tutti_run_step(struct tutti_run *run, uint32_t count, struct tutti_played *ret,
                   struct tutti_err *err);
void tutti_run_close(struct tutti_run *run); /* NULL is a no-op */

/* The ranks that this process plays: [*ret_first, *ret_first + *ret_count). */
void tutti_backend_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                         uint32_t *ret_first, uint32_t *ret_count);

/* What a backend is by its name: the one table that commands, `tutti doctor` and tests read. */
struct tutti_backend_kind {
    const char *name; /* of option -B */
    const char *help; /* what it is, for people */
    bool simulated;   /* on a virtual clock of some machine: it measures nothing */
    bool grouped;     /* the ranks of several processes, joined by a process group */
    bool launched;    /* its processes find each other by Tutti: --launch, --hosts, --rendezvous */
    bool alone;    /* grouped, but one process that nobody has started along with others plays all
                         ranks, if it can */
    bool emulates; /* can be slowed down to another machine: takes a shaper */
    bool lends;    /* large messages are sent without a copy, from pages lent to the system */
    bool on_gpu;   /* ranks are on GPUs, whose costs are others than those of processors */
    bool has_library; /* has collectives of its own, as the peer to compare with: --library */
};

/* All kinds, those that this build lacks included. */
const struct tutti_backend_kind *tutti_backend_kinds(size_t *ret_count);
/* NULL: there is none of that name. */
const struct tutti_backend_kind *tutti_backend_kind_find(const char *name);

TUTTI_API_END

#endif
