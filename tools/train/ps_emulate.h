/* `tutti train -B tcp --launch ps=N,worker=M --emulate SPEC`: servers and workers that are real, at
 * the pace of another machine: workers compute as long as is simulated of their devices, and
 * transfers take what the network cards of its hosts leave to each (tutti_servers_pacer). */
#ifndef TUTTI_TOOLS_TRAIN_PS_EMULATE_H
#define TUTTI_TOOLS_TRAIN_PS_EMULATE_H

#include <stdio.h>

#include "runtime/servers.h"
#include "sim/train_servers.h"
#include "tools/options.h"
#include "tools/train/slow.h"

struct tutti_topo;
struct tutti_train_ps_shared;
struct tutti_train_real;

struct tutti_train_ps_emulation {
    struct tutti_topo *topo; /* NULL: nothing is emulated */
    struct tutti_train_slow slow;
    struct tutti_train_ps_shared *shared; /* of all processes */
    uint64_t scale;                       /* 0: not known yet */
    bool automatic;
    uint32_t worker;
    struct tutti_servers_pacing pacing;
    struct tutti_train_servers_answer predicted;
    /* Of steps from half of them on, in that machine's time. */
    double half_s;
    uint64_t half_step;
    double last_s;
    uint64_t last_step;
};

/* Before the processes are started, who share it. */
int tutti_train_ps_emulation_open(const struct tutti_args *args,
                                  struct tutti_train_ps_emulation *ret, struct tutti_err *err);
void tutti_train_ps_emulation_close(struct tutti_train_ps_emulation *emulation);

/* In a process, once it knows what it trains: what is simulated, and the pace of this worker, which
 * params->pacing is set to. */
int tutti_train_ps_emulation_begin(const struct tutti_args *args,
                                   struct tutti_train_ps_emulation *emulation,
                                   const struct tutti_train_real *real,
                                   struct tutti_servers_params *params, struct tutti_err *err);

/* A step as it was told, in that machine's time. */
void tutti_train_ps_emulation_step(struct tutti_train_ps_emulation *emulation, uint64_t steps,
                                   struct tutti_servers_told *told);

void tutti_train_ps_emulation_head(const struct tutti_train_ps_emulation *emulation, FILE *out);
/* A line for people, or a member of an open object. */
void tutti_train_ps_emulation_print(const struct tutti_train_ps_emulation *emulation, FILE *out);
void tutti_train_ps_emulation_json(const struct tutti_train_ps_emulation *emulation, FILE *out);

#endif
