/* A player: what plays the ranks of one process. Above it stands one run loop (run.c), the same for
 * all: it takes the buffers, agrees with the other processes, calls the hook, listens for processes
 * that are gone, and makes times and records of what the player says. Players: the host's
 * (host/player.c: ranks are threads, which a transport connects with other processes), CUDA's
 * (cuda/: whole programs in a kernel). Private to runtime/exec.
 *
 * A run goes so, all of it in the calling thread but for abort:
 *
 *     load            what this process needs by itself; nothing of other processes
 *     connect         with the others; all have loaded the same
 *     start, poll ... a burst of iterations, again and again: `open once, step often`
 *     times           of a burst that has ended well
 *     unload          also after an error, and if connect failed
 *
 * load and connect open everything: from then on nothing is taken. After a negative status of start
 * or poll nothing is called any more but unload. */
#ifndef TUTTI_RUNTIME_EXEC_RUN_PLAYER_H
#define TUTTI_RUNTIME_EXEC_RUN_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/device/device.h"
#include "runtime/schedule.h"

struct tutti_err;
struct tutti_group;
struct tutti_player;
struct tutti_record;

/* Where a process is. */
struct tutti_home {
    uint64_t host;    /* the same for all that share its processors */
    uint64_t network; /* the same for all that reach each other without leaving the host; 0: who
                         knows */
};

/* The buffers of the ranks of this process, in the memory of the player's device. */
struct tutti_rank_buffers {
    uint32_t first_rank;
    uint32_t rank_count;
    tutti_handle (*handles)[TUTTI_BUF_COUNT]; /* [rank - first_rank][enum tutti_buf] */
};

/* What is to be played. All it points to stays as it is until unload. */
struct tutti_load {
    const struct tutti_schedule *schedule; /* flat, unless the player takes CALLs */
    const struct tutti_rank_buffers
        *buffers;        /* some may be where others are: out[r] may be in[r] */
    uint32_t first_rank; /* of this process; 0 ranks where there are more processes than ranks */
    uint32_t own_count;
    struct tutti_group *group;      /* of one process, or of several, if the player connects */
    const struct tutti_home *homes; /* [process] */
    tutti_ps deadline_ps;           /* of one wait */
    tutti_ps lead_ps;               /* as of struct tutti_play */
    bool meets;  /* ranks meet before each iteration; else before those that are not timed, and
                    before the first that is */
    bool hooked; /* some processes may have enough: `enough` of bursts */
    bool recorded;
    uint32_t iterations_max; /* of a burst, most likely: longer ones may come */
};

/* Iterations that the player plays by itself, one after the other. */
struct tutti_burst {
    uint32_t warmup_count;    /* not timed */
    uint32_t iteration_count; /* >= 1 */
    bool recorded;            /* the events of the last one are wanted */
    /* With several processes, and `hooked`: this process wants no more. All processes meet, and
     * then, if one of them has said so, nothing is played; times say it to all. */
    bool enough;
};

/* What the player says of the burst that has ended, as far as its own ranks go. */
struct tutti_times {
    /* [iteration_count], or, where ranks do not meet before each, one for all: how long each took,
     * from when the last rank had come (with other processes: from when the meeting was over here)
     * to the end of the last rank here. The caller's memory. */
    tutti_ps *took_ps;
    uint64_t step_count;      /* steps in one iteration */
    tutti_ps host_ps;         /* as of struct tutti_played */
    tutti_ps record_error_ps; /* likewise, of the ranks here */
    int64_t opened_ns; /* when the last meeting was over here, on the host's monotonic clock; 0:
                            nobody knows, or there are no ranks */
    bool enough;       /* some process had enough, and nothing was played */
};

/* One const struct a kind. Statuses of all: 0 or negative; the message names rank, lane and step
 * where there is one. */
struct tutti_player_ops {
    size_t size; /* sizeof(struct tutti_player_ops) */
    const char *name;
    bool calls; /* `load` takes schedules with CALLs; else they are flattened before */
    void (*close)(struct tutti_player *player);
    int (*load)(struct tutti_player *player, const struct tutti_load *load, void **ret,
                struct tutti_err *err);
    /* Collective; with the same status in all processes. NULL: the player plays alone. */
    int (*connect)(void *loaded, struct tutti_err *err);
    /* Begins a burst; `burst` is copied. May play in the calling thread, and then lasts. */
    int (*start)(void *loaded, const struct tutti_burst *burst, struct tutti_err *err);
    /* Waits until the burst has ended, or not so long: 1: it has, 0: look again. -TUTTI_ECHECK: it
     * can never end; -TUTTI_ETIME: a deadline has passed; the status of abort. Nothing of it goes
     * on after an error, here, and the others are told as far as there is a way. */
    int (*poll)(void *loaded, struct tutti_err *err);
    /* From any thread, after connect and before unload: what goes on shall end soon, with this
     * status and message unless it has failed already; and a burst that begins later at once, with
     * the others told. The first call counts. */
    void (*abort)(void *loaded, int status, const struct tutti_err *err);
    /* Of the last burst. `record`: NULL, or the events of its last iteration are added, timed from
     * when the last meeting was over. */
    int (*times)(void *loaded, struct tutti_times *times, struct tutti_record *record,
                 struct tutti_err *err);
    void (*unload)(void *loaded); /* NULL is a no-op */
};

/* The kind embeds this struct as its first member. */
struct tutti_player {
    const struct tutti_player_ops *ops;
    const struct tutti_device *device; /* where its buffers lie; borrowed */
};

struct tutti_backend;

/* A backend of this player, alone (group NULL) or, collectively, with the processes of a group,
 * which is borrowed. The player is taken over, also on failure; `name` lives as long as it. */
int tutti_player_backend_open(const char *name, struct tutti_player *player,
                              struct tutti_group *group, struct tutti_backend **ret,
                              struct tutti_err *err);

/* The player of such a backend. */
struct tutti_player *tutti_backend_player(const struct tutti_backend *backend);

#endif
