/* What the play of components is made of; see components.h. */
#ifndef TUTTI_SIM_FOLD_COMPONENT_H
#define TUTTI_SIM_FOLD_COMPONENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/fold/quotient.h"
#include "sim/net/maxmin.h"

struct tutti_err;
struct tutti_schedule;
struct tutti_sim_opts;

enum { TUTTI_COMPONENT_WIRES_MAX = 64 };

/* A mark that does not come. */
#define TUTTI_COMPONENT_NEVER_PS (INT64_MAX - 1)

/* A message in a slot of a wire. at_ps: when its latency is over; once it has arrived, when it did;
 * once it was taken, since when the slot is free. */
struct tutti_component_slot {
    tutti_ps at_ps;
    double bytes; /* on the wire */
};

/* A wire, and the lane that sends over it: wires are numbered component by component. Of its
 * messages in slots the oldest have arrived, the others are queued, the first of them perhaps
 * draining. */
struct tutti_component_wire {
    tutti_ps now_ps; /* of the lane: when its last step was taken */
    tutti_ps latency_ps;
    tutti_ps slice_ps;
    uint64_t sent_count;
    uint64_t received_count; /* by the lane, over `prev` */
    uint32_t prev;           /* the wire that the lane receives over */
    uint32_t next;           /* that the receiver sends over */
    uint32_t component;
    uint32_t queued_count;
    uint32_t arrived_count;
    uint32_t sent_slot; /* the next to be filled, then the oldest queued, the oldest arrived */
    uint32_t queued_slot;
    uint32_t arrived_slot;
    double carried_bytes; /* of the message that the lane sends next */
    double left_bytes;    /* of the draining message, at since_ps */
    double rate;          /* bytes per second; 0: not solved yet */
    tutti_ps since_ps;
    double full_bytes; /* what draining a whole message took last */
    double full_rate;
    tutti_ps full_ps;
    uint64_t meets;       /* wires of its component that share links with it, by part only */
    uint64_t chunk_bytes; /* that the lane sends first, without a protocol */
};

/* What the rates of a component's wires are kept by. */
enum tutti_component_by {
    TUTTI_COMPONENT_BY_SET,   /* which of them drain */
    TUTTI_COMPONENT_BY_COUNT, /* how many */
    TUTTI_COMPONENT_BY_PART,  /* which of those that meet, directly or through others that drain */
};

struct tutti_component {
    uint64_t draining;  /* wires, one bit each */
    uint64_t beginning; /* those whose oldest queued message is at its slice, see sim/protocol.h */
    uint64_t changed;   /* those that have begun or ended draining */
    uint32_t first;     /* wire */
    uint32_t count;
    tutti_ps next_ps; /* the earliest of its wires' events, INT64_MAX: none */
    enum tutti_component_by by;
    uint32_t place_count; /* sets whose rates are kept; by part: a power of two */
    uint64_t key_first;   /* in keys, of place 0 */
    uint64_t rates_first; /* in rates, likewise */
};

struct tutti_components {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    const struct tutti_quotient *quotient;
    struct tutti_maxmin maxmin; /* flows are wires, none active between two looks */
    struct tutti_component *components;
    uint32_t component_count;
    uint32_t wire_count;
    uint32_t slot_count;
    struct tutti_component_wire *wires;
    tutti_ps *event_ps; /* [wire] end of the latency or of draining of the oldest queued message */
    struct tutti_component_slot *slots; /* [wire * slot_count + slot] */
    uint64_t *keys;                     /* what the rates of a place are of; 0: none */
    double *rates;                      /* [of a component: place * its count + wire of it] */
    uint32_t *number;                   /* [wire of the quotient]: its number here */
    uint64_t round_count;               /* messages of each wire */
    uint64_t reduce_count;              /* of them, as received */
    tutti_ps least_ps;                  /* the least latency */
    uint64_t simulated_count;           /* steps */
    tutti_ps drain_ps_max;              /* the most that a message took beyond its latency */
    bool vague;       /* some rates are not exact: see sim/fold/component_rates.c */
    tutti_ps mark_ps; /* when to look whether rounds repeat; INT64_MAX: when what wire 0 sends next
                         is ready */
};

/* Divides the wires into components and numbers them; -TUTTI_ELACK where one has too many. */
int tutti_components_find(struct tutti_components *components, struct tutti_err *err);

/* The rates of a component's wires, by wire, if those of a set drain: one or more. */
const double *tutti_component_rates(struct tutti_components *components,
                                    const struct tutti_component *component, uint64_t set);

/* All lanes begin. */
void tutti_components_begin(struct tutti_components *components, tutti_ps begin_ps);

/* Plays a component up to a time, which no message that is still to be sent is ready before. */
void tutti_component_run(struct tutti_components *components, struct tutti_component *component,
                         tutti_ps end_ps);

/* What repeats, as in class_play.h. */
struct tutti_component_steady;

int tutti_component_steady_new(const struct tutti_components *components,
                               struct tutti_component_steady **ret, struct tutti_err *err);
void tutti_component_steady_free(struct tutti_component_steady *steady);

/* To be called when all before mark_ps has happened. Once all is as it was some rounds ago but for
 * the time, it skips as many such runs of rounds as there are. */
void tutti_component_steady_watch(struct tutti_component_steady *steady,
                                  struct tutti_components *components);

#endif
