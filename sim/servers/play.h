/* Parameter servers while they are simulated: what a worker does (episode.c), who says so (lead.c)
 * and the loop over what ends next (servers.c). */
#ifndef TUTTI_SIM_SERVERS_PLAY_H
#define TUTTI_SIM_SERVERS_PLAY_H

#include "runtime/random.h"
#include "sim/servers.h"
#include "sim/servers/sharing.h"

/* Of a worker: it is gone, waits for the coordinator, has transfers under way, waits for the
 * latency of one, computes, waits for the servers to take its gradient; of the chief beside that:
 * it reads a checkpoint, sends it to the servers; of the saver: it writes one. */
enum phase {
    AWAY,
    IDLE,
    PULLING,
    PULLED,
    COMPUTING,
    PUSHING,
    PUSHED,
    TAKEN,
    READING,
    SETTING,
    SET,
    WRITING,
    PHASES
};

struct worker {
    enum phase phase;
    tutti_ps end_ps;   /* of a phase that takes a known time; INT64_MAX: it waits for transfers */
    tutti_ps begin_ps; /* of the episode; COMPUTING: of that */
    tutti_ps since_ps; /* of the phase */
    bool has_weights;  /* of an episode before */
    tutti_ps computed_ps;
    tutti_ps spent_ps[PHASES];
    uint32_t transfers; /* under way, counted when one has ended */
};

/* A worker's process or a server's: when it is lost or, if it is not there, comes. */
struct process {
    bool is_present;
    tutti_ps change_ps;
    uint32_t next_change; /* of the list: those before have happened */
};

struct tutti_err;

struct servers {
    struct tutti_servers_opts opts;
    struct tutti_coordinator *coordinator; /* NULL: nobody may train, see `supervisor` */
    struct tutti_coordinator *supervisor;  /* NULL: nobody supervises */
    struct cards cards;
    struct worker *worker;   /* [workers], and the saver */
    struct process *process; /* [workers], [servers] */
    uint64_t *host_bytes;    /* [host]: what its servers keep */
    tutti_ps *host_free_ps;  /* [host]: when its servers have taken all gradients so far */
    tutti_ps *host_busy_ps;  /* [host]: how long they took gradients */
    uint64_t bytes;          /* of all servers */
    bool changed;            /* transfers began or ended: rates are to be shared anew */
    bool finished;
    tutti_ps now_ps;
    tutti_ps half_ps; /* when half of the steps were done; 0: not yet */
    uint64_t half_step;
    uint64_t half_applied;
    uint64_t failures;
    /* supervised */
    tutti_ps save_ps;  /* when a checkpoint is due; INT64_MAX: never */
    uint64_t saving;   /* the episode of the one being written */
    uint64_t reported; /* the step that the supervisor knows of */
    tutti_ps stood_ps; /* since when nobody may train, or could not the last time */
    tutti_ps standing_ps;
    uint64_t checkpoints;
    uint64_t repeated;
    struct tutti_coordinator_stats before; /* of coordinators that are no more */
    int status;                            /* -TUTTI_ENOMEM: there is none for one more */
    struct tutti_err *err;
    struct tutti_random random;
};

static inline uint32_t servers_workers(const struct servers *s)
{
    return s->opts.params.member_count;
}

static inline uint32_t servers_processes(const struct servers *s)
{
    return s->opts.params.member_count + s->opts.server_count;
}

/* Who pulls the weights for a checkpoint, beside the chief and on its host. */
static inline uint32_t servers_saver(const struct servers *s)
{
    return s->opts.params.member_count;
}

/* episode.c: a worker turns to another phase, which ends at a time or with its transfers. */
void tutti_served_turn(struct servers *s, uint32_t worker, enum phase phase, tutti_ps end_ps);
/* Begins what transfers weights to a worker (PULLING) or from it (PUSHING, SETTING). */
void tutti_served_transfer(struct servers *s, uint32_t worker, enum phase phase);
/* What it computes with the weights that it has pulled. */
void tutti_served_compute(struct servers *s, uint32_t worker);
void tutti_served_stop(struct servers *s, uint32_t worker, enum phase phase);
/* A phase that takes a known time has ended. */
void tutti_served_go_on(struct servers *s, uint32_t worker);
/* Of workers whose transfers have all ended, the latency is left. */
void tutti_served_end_transfers(struct servers *s);

/* servers.c: -TUTTI_EINVAL for what makes no sense; what each host's servers keep. */
int tutti_served_check(const struct tutti_servers_opts *opts, struct tutti_err *err);
void tutti_served_add_bytes(struct servers *s);

/* lead.c: makes the coordinators, and lets those who are there at the start join. */
int tutti_served_lead(struct servers *s, struct tutti_err *err);
void tutti_served_begin(struct servers *s);
/* A gradient is taken; the model is set up; a checkpoint is written. */
void tutti_served_done(struct servers *s, uint32_t worker);
void tutti_served_set_up(struct servers *s);
void tutti_served_saved(struct servers *s);
/* What is to happen by now: a process is lost or comes, a checkpoint is due. */
void tutti_served_change(struct servers *s, uint32_t process);
void tutti_served_save_due(struct servers *s);
/* Of all coordinators that there were. */
struct tutti_coordinator_stats tutti_served_stats(const struct servers *s);
uint64_t tutti_served_step(const struct servers *s);

#endif
