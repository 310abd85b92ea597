/* The play of a quotient: one lane of each class runs its program, and its messages stand for those
 * of all lanes of the class. Shared by the player and by what lets it skip rounds that repeat. */
#ifndef TUTTI_SIM_FOLD_CLASS_PLAY_H
#define TUTTI_SIM_FOLD_CLASS_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "sim/fold/quotient.h"
#include "sim/net/net.h"
#include "sim/queue/queue.h"

struct tutti_err;
struct tutti_sim_opts;

/* A message in a slot of a wire; message number m of wire w is known to the network model as
 * w * slot_count + m mod slot_count. All wires of a class have it at once: so every lane's wires of
 * the class send it at one instant. If a lane takes it from several at different times, that does
 * not matter as long as no sender waits for a slot, or for a SEND to be complete. */
struct tutti_class_slot {
    tutti_ps sent_ps;
    tutti_ps taken_ps; /* by the first wire that did */
    uint64_t bytes;
    uint32_t sends; /* wires of the sending lane that have sent it */
    uint32_t takes; /* wires of the receiving lane that have taken it */
};

struct tutti_class_wire {
    tutti_ps latency_ps;
    uint64_t sent_count; /* messages, by the first wire to send each */
    uint64_t arrived_count;
    uint64_t taken_count; /* by the first wire to take each */
    uint64_t completed_count;
    uint64_t bytes; /* sent so far, as they are without a protocol */
    bool loose;     /* like wires' messages were taken at different times: nobody may look when */
    bool awaited;   /* somebody looks: waits for the oldest message to be complete */
};

/* A step as a lane plays it. */
struct tutti_class_step {
    uint64_t bytes;
    uint32_t place; /* SEND, RECV: which of the lane's wires */
    uint32_t dep_step;
    uint16_t dep_lane;
    uint8_t kind;
    uint8_t flags;
    uint8_t round;  /* counted from the first that the lane holds */
    uint8_t number; /* in its round */
};

/* Most lanes hold few steps, which lie close together; the longest period is eight slices of an
 * item of a tree with two children. */
enum { TUTTI_CLASS_HELD_FEW = 8, TUTTI_CLASS_HELD_MAX = 48 };

/* A lane holds the steps of one round, or of a period of rounds that repeat: then they are written
 * and their peers looked up once. */
struct tutti_class_lane {
    struct tutti_class_step *steps;
    const struct tutti_class_step *step; /* the next one; NULL: the lane has ended */
    uint32_t step_count;
    uint32_t held_rounds;
    bool one_by_one;      /* its periods cannot be held */
    uint64_t first_round; /* of those held */
    uint64_t same_end;    /* rounds before this one repeat those held; 0: none do */
    uint64_t round_count;
    uint64_t index;       /* of the next step */
    uint32_t fused;       /* wire, and which of the lane's it is, that the coming REDUCE */
    uint32_t fused_place; /* reads, or UINT32_MAX */
    uint32_t out_guess;   /* places of the last peers: programs repeat themselves */
    uint32_t in_guess;
    uint32_t waiter_first; /* lanes that depend on this one */
    uint32_t waiter_next;
    tutti_ps busy_ps; /* until when its step takes, or -1 */
    bool listed;      /* is in the list of lanes to be tried */
};

/* The first rounds that a play has skipped: what one run of them does. Its arrays belong to whoever
 * asks for it. */
struct tutti_class_skip {
    uint64_t runs; /* that were skipped; 0: none */
    tutti_ps run_ps;
    uint64_t step_count; /* of all ranks */
    uint64_t *rounds;    /* [lane]: by how many rounds it went on */
    uint64_t *run_bytes; /* [wire]: sent in a run */
    uint64_t *bytes;     /* [wire]: sent in all of the play */
};
void tutti_class_skip_done(struct tutti_class_skip *skip);

struct tutti_class_play {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    const struct tutti_quotient *quotient;
    tutti_ps now;
    struct tutti_net *net;
    struct tutti_queue timers; /* ids are lanes */
    struct tutti_class_lane *lanes;
    struct tutti_class_step *few;  /* [lane * TUTTI_CLASS_HELD_FEW]: what a lane holds, */
    struct tutti_class_step *many; /* or [lane * TUTTI_CLASS_HELD_MAX], where it is more */
    struct tutti_class_step held[TUTTI_CLASS_HELD_MAX]; /* while it is written */
    struct tutti_round round;                           /* as it was last written */
    struct tutti_class_wire *wires;
    struct tutti_class_slot *slots; /* [wire * slot_count + message mod slot_count] */
    uint64_t *out_sent;             /* [place of a lane's wire]: messages it has sent */
    uint64_t *in_taken;             /* [place]: messages it has taken */
    uint64_t *send_index;           /* [place * slot_count + message mod slot_count]: the step */
    uint32_t *todo;                 /* ring of lanes to be tried, each at most once */
    uint32_t todo_first;
    uint32_t todo_count;
    struct tutti_class_skip *skip; /* to be filled */
    uint64_t simulated_count;      /* steps */
    uint64_t look_count;           /* of its network, when last asked whether it may go on */
    tutti_ps drain_ps_max;         /* the most that a message took beyond its latency */
    const char *unsuited;          /* why, or NULL */
};

/* Makes a lane hold a round, and those after it that repeat with it; the next step is the first of
 * them, or NULL at the end. */
void tutti_class_hold(struct tutti_class_play *play, uint32_t id, uint64_t round);

/* What repeats. */
struct tutti_steady;

int tutti_steady_new(const struct tutti_class_play *play, struct tutti_steady **ret,
                     struct tutti_err *err);
void tutti_steady_free(struct tutti_steady *steady);

/* To be called when all that happens at play->now has happened; the next event is at `event_ps`.
 * Once the play is where it was some rounds ago but for the time, and the programs go on as since
 * then, it skips as many such runs of rounds as there are: 0 or -TUTTI_ENOMEM. */
int tutti_steady_watch(struct tutti_steady *steady, struct tutti_class_play *play,
                       tutti_ps event_ps);

struct tutti_class_played {
    tutti_ps end_ps;
    uint64_t step_count;
    tutti_ps load_ps; /* what crossed the busiest link takes it, as it is without a protocol */
    struct tutti_hop_loads loads;
    tutti_ps drain_ps_max;    /* the most that a message took beyond its latency */
    uint64_t simulated_count; /* steps, of those of one lane of each class */
    uint64_t look_count;      /* at flows of links: see tutti_play_goes_on() */
};

/* Plays a schedule under `fair` by its quotient: 0, or -TUTTI_ELACK and why. */
int tutti_class_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     const struct tutti_quotient *quotient, uint64_t step_count_max,
                     struct tutti_class_played *ret, struct tutti_err *err);

/* The same; also tells what it skipped first. `skip` begins zeroed; the caller ends it. */
int tutti_class_play_noting(const struct tutti_sim_opts *opts,
                            const struct tutti_schedule *schedule,
                            const struct tutti_quotient *quotient, uint64_t step_count_max,
                            struct tutti_class_skip *skip, struct tutti_class_played *ret,
                            struct tutti_err *err);

/* The loads of a play that has skipped `more` runs more, into *ret. */
int tutti_class_load(const struct tutti_quotient *quotient, const struct tutti_class_skip *skip,
                     int64_t more, struct tutti_class_played *ret, struct tutti_err *err);

#endif
