/* The files of --log, read once: first for the machine that they name, then for what they measured.
 */
#ifndef TUTTI_TOOLS_VALIDATE_LOGS_H
#define TUTTI_TOOLS_VALIDATE_LOGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traces/nccl_tests.h"

struct tutti_args;
struct tutti_err;
struct tutti_topo;

struct tutti_log_file {
    const char *path;             /* as typed */
    const char *name;             /* for messages */
    bool is_csv;                  /* else what nccl-tests prints */
    struct tutti_nccl_log tables; /* of it */
};

struct tutti_logs {
    struct tutti_log_file *logs;
    uint32_t log_count;
    bool tell_machine; /* nobody has typed a SPEC */
    char machine[128]; /* what they tell then: "host:gpu=h100,gpus=8" */
};

/* Reads all files of --log ("-": stdin). On error there is nothing to be done away. */
int tutti_logs_read(const struct tutti_args *args, struct tutti_logs *ret, struct tutti_err *err);
void tutti_logs_done(struct tutti_logs *logs);

/* Loads the machine of `spec`, or, if that is NULL, of the hosts and GPUs that the logs list: as
 * such hosts usually are, on the network that lines of NCCL INFO name, if any. -TUTTI_EINVAL with
 * what is missing where they do not list them all, or list different ones, or GPUs that no preset
 * knows. */
int tutti_logs_load_machine(struct tutti_logs *logs, const char *spec, uint32_t nodes,
                            struct tutti_topo **ret, struct tutti_err *err);

#endif
