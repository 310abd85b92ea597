/* A synchronous training of days: what failures, checkpoints, restarts and missing spares leave of
 * its time. In closed form, as it is expected, and event by event, as it may go under a seed.
 *
 * The training loses all ranks when it loses one. Failures come at random (exponential, each cause
 * by its own mean time, independent of age and of each other) while the training runs, is restarted
 * or is detected to hang, not while it waits for a host. After one it is detected, a spare host
 * takes the place of one that is away, ranks meet again and read the newest checkpoint; another
 * failure meanwhile begins that anew. Not modelled: failures of spares and of storage, several
 * hosts lost at once, hardware that fails more often when it is new.
 *
 * Young, "A first order approximation to the optimum checkpoint interval", 1974. Daly, "A higher
 * order estimate of the optimum checkpoint interval for restart dumps", 2006. */
#ifndef TUTTI_SIM_LONG_RUN_H
#define TUTTI_SIM_LONG_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;

enum { TUTTI_FAILURE_CAUSES_MAX = 32 };

/* Why a training is interrupted. Means of a year and of thousands of them are more picoseconds than
 * there is room for, so these are seconds. */
struct tutti_failure_cause {
    const char *name;
    double mtbf_s;      /* mean time between two at one device; of all: by device_count */
    tutti_ps detect_ps; /* until it is known: a collective's time-out, a person */
    /* It is known so long before (a spot instance, a planned stop): where that is enough for a
     * checkpoint, nothing is lost but its time. 0: it is not known. */
    tutti_ps notice_ps;
    /* The device's host is away for so long: repaired, or until another is given. 0: it stays, and
     * processes alone are started again. */
    tutti_ps away_ps;
    bool keeps_memory; /* checkpoints in the memory of hosts outlive it */
};

struct tutti_long_run {
    size_t size; /* sizeof(struct tutti_long_run): runtime/api.h */
    uint32_t device_count;
    uint32_t host_devices; /* of a host, which is lost and replaced whole; 0: 1 */
    const struct tutti_failure_cause *causes;
    uint32_t cause_count;
    /* ---- checkpoints */
    uint64_t state_bytes;             /* of one, all devices together */
    uint64_t save_bytes_per_s;        /* of the storage, shared by all; 0: takes no time */
    uint64_t device_save_bytes_per_s; /* of each device, all at once; 0: takes no time */
    bool async; /* training stands still only while state is copied to the memory of hosts; it is
                   written beside, and is of use once that is done */
    uint64_t copy_bytes_per_s; /* of each device to its host; 0: takes no time */
    /* Of checkpoints in the memory of hosts one in so many is written to storage, beside training;
     * 0, 1: each. More than 1: `async`. */
    uint32_t storage_every;
    tutti_ps every_ps; /* of training between two; 0: the best, by the closed form */
    /* ---- after a failure */
    tutti_ps restart_ps;        /* until all processes have started and met, and */
    tutti_ps restart_device_ps; /* this for each device: rendezvous and communicators grow */
    uint32_t hot_spares;        /* hosts that stand by, and take so long to come in: */
    tutti_ps hot_swap_ps;
    uint32_t cold_spares; /* hosts that are taken from elsewhere or started: */
    tutti_ps cold_swap_ps;
    /* Without a spare the training waits for a host; or, where this is not 0 and less than
     * device_count, it goes on without the replicas that miss one, at their share of its rate, down
     * to so many devices. */
    uint32_t least_devices;
    uint32_t replica_devices; /* of a replica; 0: 1 */
    /* ---- how long: whichever comes first; one of them at least */
    double wall_s; /* that pass; 0: no end */
    double work_s; /* of training without interruptions; 0: no end */
    uint64_t seed;
    tutti_ps step_ps; /* checkpoints lie a whole number of steps of so long apart; 0: any time */
};

/* Where the time of the training goes. */
enum tutti_long_run_part {
    TUTTI_RUN_USEFUL,     /* steps that are not lost, at the full rate */
    TUTTI_RUN_CHECKPOINT, /* standing still for checkpoints */
    TUTTI_RUN_LOST,       /* steps since the last checkpoint, which are made again */
    TUTTI_RUN_DETECT,
    TUTTI_RUN_SWAP,    /* a spare comes in */
    TUTTI_RUN_RESTART, /* and the checkpoint is read */
    TUTTI_RUN_WAIT,    /* for a host, without a spare */
    TUTTI_RUN_FEWER,   /* what replicas would have done that were not there */
    TUTTI_RUN_PART_COUNT
};

struct tutti_long_run_times {
    double total_s;
    double part_s[TUTTI_RUN_PART_COUNT]; /* add up to it */
    double goodput;                      /* useful of total; 0 where it never gets on */
    double interruptions;                /* of all causes; whole where it was played */
    double by_cause[TUTTI_FAILURE_CAUSES_MAX];
    double checkpoints;
    double mtbf_s;         /* of the training, of all causes; 0: nothing fails */
    double mtbf_unknown_s; /* of those that are not known long enough before to save */
    tutti_ps every_ps;     /* between checkpoints: as given, the best, or as quick as storage takes
                          them; in whole steps, up */
    tutti_ps stall_ps;     /* of one: standing still */
    tutti_ps write_ps;     /* of one: beside training, until it is of use */
};

/* What is expected over a long time. Exact for one level of checkpoints and fixed times under
 * exponential failures: a run between failures of rate f keeps floor((X - write) / L) intervals of
 * its length X, L = every + stall, so that a checkpoint takes (1/f + recovery)(e^(f L) - 1) e^(f
 * write), for synchronous ones Daly's equation 20; waiting for hosts is Erlang's loss formula, of
 * spares + 1 lines. With checkpoints in memory and in storage, and with fewer replicas, to first
 * order: within 3 % of what is played where goodput is more than 3/4.
 * -TUTTI_EINVAL for what makes no sense, names it. */
int tutti_long_run_expect(const struct tutti_long_run *run, struct tutti_long_run_times *ret,
                          struct tutti_err *err);

/* The same played event by event: the same seed, the same times. -TUTTI_ECHECK if it fails more
 * often than it gets on: a thousand times as long as its work. */
int tutti_long_run_play(const struct tutti_long_run *run, struct tutti_long_run_times *ret,
                        struct tutti_err *err);

/* Intervals of training between two checkpoints that stall for so long: sqrt(2 stall mtbf), Young
 * 1974; Daly 2006, equation 37; and where the closed form is best, of all that was said (a search;
 * the whole interval of a week where nothing fails). */
tutti_ps tutti_long_run_young(tutti_ps stall_ps, double mtbf_s);
tutti_ps tutti_long_run_daly(tutti_ps stall_ps, double mtbf_s);
int tutti_long_run_best(const struct tutti_long_run *run, tutti_ps *ret, struct tutti_err *err);

/* The longest restart (detection, swap and reading are as they are) that still leaves so much
 * goodput at the best interval; -1: none does. */
int tutti_long_run_restart_for(const struct tutti_long_run *run, double goodput, tutti_ps *ret,
                               struct tutti_err *err);

/* Llama 3's pre-training of 54 days on 16,384 H100: 419 unexpected interruptions by kind, of which
 * 78 % by hardware, and 47 planned (Llama Team 2024, table 5). Per device; detection, repair and
 * notice are what the caller sets. */
extern const struct tutti_failure_cause tutti_failures_llama3[];
extern const uint32_t tutti_failures_llama3_count;

const char *tutti_long_run_part_name(enum tutti_long_run_part part); /* "checkpoints" */

TUTTI_API_END

#endif
