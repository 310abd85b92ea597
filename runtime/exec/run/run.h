/* The run loop: what is the same whoever plays. Takes buffers by handle, agrees with the other
 * processes, calls the hook, listens for who is gone, and makes times and records of all that is
 * said. Private to runtime/exec/run. */
#ifndef TUTTI_RUNTIME_EXEC_RUN_RUN_H
#define TUTTI_RUNTIME_EXEC_RUN_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/backend.h"
#include "runtime/exec/run/player.h"
#include "runtime/group.h"
#include "runtime/record.h"
#include "runtime/status.h"

/* A backend of a player. */
struct tutti_player_backend {
    struct tutti_backend base; /* first member: the backend casts back */
    struct tutti_backend_ops ops;
    struct tutti_player *player;
    struct tutti_group *group; /* `alone` if there is nobody else */
    struct tutti_group alone;
    struct tutti_home *homes; /* [process] */
    bool has_run;             /* one is open */
};

/* Listens for processes that give up or are gone, while the run is open. */
struct tutti_guard {
    pthread_t thread;
    bool has_thread;
    atomic_bool over;
};

/* What a process says first after a step. */
struct tutti_verdict {
    int64_t status;
    uint64_t event_count;
    uint64_t step_count;
    uint64_t timed_count; /* iterations; 0 also where a process has no ranks */
    tutti_ps took_ps;     /* of the first taken one */
    int64_t opened_ns;    /* as of struct tutti_times */
    int64_t ended_ns;     /* by the wall clock, which hosts have about the same */
    struct tutti_err err;
};

/* A run that is open. */
struct tutti_player_run {
    struct tutti_player_backend *backend;
    struct tutti_play play; /* its counts are those of the step */
    struct tutti_load load;
    struct tutti_rank_buffers buffers;
    bool (*borrowed)[TUTTI_BUF_COUNT]; /* [own]: memory of the caller */
    bool copies; /* some buffers of the caller are out of the player's reach */
    void *loaded;
    struct tutti_guard guard;
    uint64_t played_count;      /* iterations since the run was opened, warm-ups included */
    uint32_t timed_count;       /* iterations that this step really had, warm-ups aside */
    uint32_t taken_count;       /* iterations of which the times are kept: those, or one for all */
    uint32_t taken_max;         /* room for so many */
    tutti_ps *took_ps;          /* [taken]: how long the iterations took */
    struct tutti_times times;   /* of the last burst; took_ps aside */
    struct tutti_record record; /* of the ranks here */
    struct tutti_verdict *verdicts; /* [process] */
    int status;                     /* of the last step */
};

/* ---- buffers.c ---- */

/* Buffers of the ranks here: those of the caller where the player reaches them, else its own. */
int tutti_run_buffers_open(struct tutti_player_run *run, struct tutti_err *err);
void tutti_run_buffers_close(struct tutti_player_run *run);
/* Before and after something is played; what is borrowed is not copied. */
int tutti_run_buffers_write(struct tutti_player_run *run, struct tutti_err *err);
int tutti_run_buffers_read(struct tutti_player_run *run, struct tutti_err *err);

/* ---- guard.c ---- */

/* Where there are other processes, and ranks here. */
int tutti_guard_start(struct tutti_player_run *run, struct tutti_err *err);
void tutti_guard_end(struct tutti_player_run *run); /* also if it has not been started */

/* ---- run.c ---- */

/* As the functions of struct tutti_backend_ops. With several processes all of them call them;
 * status, message and times are then the same. */
int tutti_player_run_open(struct tutti_backend *backend, const struct tutti_play *play, void **ret,
                          struct tutti_err *err);
int tutti_player_run_step(void *run, uint32_t warmup_count, uint32_t iteration_count,
                          struct tutti_played *ret, struct tutti_err *err);
void tutti_player_run_close(void *run);

/* ---- result.c ---- */

/* What all processes say after a step: the same status and message in all of them, and then the
 * same times and records. `status` and *err are those of this process. 1: a hook has had enough. */
int tutti_player_run_conclude(struct tutti_player_run *run, int status, struct tutti_played *ret,
                              struct tutti_err *err);

#endif
