/* `tutti train -B tcp --strategy parameter-server`: servers, workers and the chief, each a process
 * of its own. */
#ifndef TUTTI_TOOLS_TRAIN_PS_H
#define TUTTI_TOOLS_TRAIN_PS_H

#include <signal.h>

#include "runtime/servers.h"
#include "tools/train/ps_emulate.h"
#include "tools/train/real.h"

struct tutti_sink;
struct tutti_tensorboard;

/* Whether training is by servers: the strategy says so, or who is to be launched, or TF_CONFIG. */
bool tutti_train_is_ps(const struct tutti_args *args);
int tutti_train_ps(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err);

/* By what rules, of the options and behind the strategy's name: the words are the simulator's. */
int tutti_train_ps_rules(const struct tutti_args *args, struct tutti_servers_params *ret,
                         struct tutti_err *err);

/* ---- who is started (ps_launch.c) ---- */

struct tutti_train_tasks {
    uint32_t servers;
    uint32_t workers;
    uint32_t chiefs;     /* 0 or 1 */
    uint32_t evaluators; /* likewise */
};

/* "ps=2,worker=4,chief=1,evaluator=1". */
int tutti_train_tasks_read(const char *text, struct tutti_train_tasks *ret, struct tutti_err *err);

/* Starts a process for each task here and waits for all (*ret_started). In each of them it returns
 * as well, not *ret_started: TF_CONFIG of its environment says who it is, and *ret_listen_fd is
 * where a server listens already, else -1. */
int tutti_train_tasks_start(const struct tutti_args *args, const struct tutti_train_tasks *tasks,
                            bool *ret_started, int *ret_listen_fd, struct tutti_sink *sink,
                            struct tutti_err *err);

/* ---- what the chief prints (ps_print.c) ---- */

struct tutti_train_ps_page {
    struct tutti_sink *sink; /* NULL: another process prints */
    bool table;
    struct tutti_tensorboard *events; /* NULL: none are written */
    const struct tutti_train_real *real;
    const struct tutti_train_ps_emulation *emulation;
    struct tutti_servers_told last;
    double before_s; /* when the step before was made */
    double flushed_s;
    uint64_t printed;
};

int tutti_train_ps_page_open(const struct tutti_args *args, const struct tutti_train_real *real,
                             const struct tutti_servers_params *params, struct tutti_sink *sink,
                             struct tutti_train_ps_page *ret, struct tutti_err *err);
int tutti_train_ps_print_step(struct tutti_train_ps_page *page,
                              const struct tutti_servers_told *told, struct tutti_err *err);
/* `held_out` NULL: nothing was evaluated. */
int tutti_train_ps_print_final(struct tutti_train_ps_page *page,
                               const struct tutti_servers_result *result,
                               const struct tutti_sums *held_out, uint64_t weights_hash,
                               struct tutti_err *err);
int tutti_train_ps_page_done(struct tutti_train_ps_page *page, struct tutti_err *err);

#endif
