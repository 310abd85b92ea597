/* What the closed form and the play of a long run share: its times, made of what was asked. */
#ifndef TUTTI_SIM_LONG_RUN_RUN_H
#define TUTTI_SIM_LONG_RUN_RUN_H

#include "sim/long_run.h"

/* After an interruption, in this order. */
enum { RECOVERY_PARTS = 3 };
struct tutti_recovery {
    double part_s[RECOVERY_PARTS]; /* detect, swap, restart */
};

enum tutti_spare {
    TUTTI_SPARE_NONE_NEEDED,
    TUTTI_SPARE_HOT,
    TUTTI_SPARE_COLD,
    TUTTI_SPARE_AWAITED, /* until one was back, by when the failure is long known */
    TUTTI_SPARE_MISSING, /* goes on without */
    TUTTI_SPARE_COUNT
};

struct tutti_run_times {
    struct tutti_long_run run;
    double rate[TUTTI_FAILURE_CAUSES_MAX];  /* of each cause, a second, all devices there */
    bool noticed[TUTTI_FAILURE_CAUSES_MAX]; /* with time enough for a checkpoint */
    double rate_sum;
    double stall_s;   /* of a checkpoint */
    double write_s;   /* beside training */
    double save_s;    /* of one that is waited for whole: before a stop that is known */
    double load_s;    /* read from storage, */
    double copied_s;  /* and from the memory of hosts */
    double restart_s; /* without reading */
    double every_s;
    double step_s;  /* 0: intervals are of any length */
    uint32_t level; /* checkpoints for one that is written: 1 or more */
    uint32_t host_devices;
    uint32_t hosts;
    uint32_t spares;
    uint32_t missing_max; /* hosts that it may go on without */
};

/* Checks and copies; `every_ps` 0 leaves every_s 0. */
int tutti_run_times_of(const struct tutti_long_run *run, struct tutti_run_times *ret,
                       struct tutti_err *err);
/* No shorter than storage takes checkpoints, and whole steps. */
void tutti_run_times_every(struct tutti_run_times *t, double every_s);
void tutti_run_recovery(const struct tutti_run_times *t, uint32_t cause, enum tutti_spare spare,
                        struct tutti_recovery *ret);
/* With so many hosts away when another one goes: what takes its place. */
enum tutti_spare tutti_run_spare(const struct tutti_run_times *t, uint32_t away);
/* The part of its rate without so many hosts: replicas that are whole, of all. */
double tutti_run_pace(const struct tutti_run_times *t, uint32_t missing);
/* What both say of the run beside its times. */
void tutti_run_describe(const struct tutti_run_times *t, struct tutti_long_run_times *ret);

/* The closed form at t->every_s. */
void tutti_run_expected(const struct tutti_run_times *t, struct tutti_long_run_times *ret);
double tutti_run_best_s(const struct tutti_run_times *t);

#endif
