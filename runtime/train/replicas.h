/* The inside of what replica.h opens: the replicas of all processes. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_REPLICAS_H
#define TUTTI_RUNTIME_TRAIN_REPLICAS_H

#include <stdatomic.h>

#include "runtime/group.h"
#include "runtime/model.h"
#include "runtime/replica.h"
#include "runtime/strategy.h"

struct tutti_replicas {
    struct tutti_replicas_params params;
    struct tutti_strategy strategy;
    struct tutti_group *group;     /* NULL: one process */
    struct tutti_backend *backend; /* both of params, or its own */
    bool is_own;
    uint32_t process_count;
    uint32_t count;                        /* of replicas, of all processes */
    uint32_t first;                        /* of this process */
    uint32_t own_count;                    /* likewise */
    struct tutti_servers_cluster *cluster; /* of parameter servers; NULL: none */
    atomic_bool stop;
    char title[160];
};

/* ---- by parameter servers (replica_servers.c) ------------------------------------------------ */

/* Who this process is among them. */
int tutti_replicas_find_servers(struct tutti_replicas *replicas, struct tutti_err *err);
/* Whether it is the chief. */
bool tutti_replicas_leads_servers(const struct tutti_replicas *replicas);
int tutti_replicas_train_by_servers(struct tutti_replicas *replicas,
                                    const struct tutti_replica_model *model,
                                    const struct tutti_replica_training *training, float *weights,
                                    struct tutti_replica_result *ret, struct tutti_err *err);

/* ---- a model as a learner -------------------------------------------------------------------- */

struct tutti_replica_learner;

static inline uint64_t tutti_replica_elements(const struct tutti_replica_variable *v)
{
    return v->rows * (v->columns > 0 ? v->columns : 1);
}

/* A layer that holds all variables. */
struct tutti_replica_workload {
    struct tutti_workload model; /* of the next two, and borrowed names */
    struct tutti_layer layer;
    struct tutti_variable *variables;
    uint64_t elements; /* of all */
};

/* *ret must stay where it is, and is given back with done, whatever this returns. */
int tutti_replica_workload_make(const struct tutti_replica_model *model,
                                struct tutti_replica_workload *ret, struct tutti_err *err);
void tutti_replica_workload_done(struct tutti_replica_workload *workload);

/* Of examples and batches; the rest is the trainer's. `model` is borrowed. *ret and *ret_learner
 * end with free. */
int tutti_replica_learner_new(const struct tutti_replicas *replicas,
                              const struct tutti_replica_model *model,
                              const struct tutti_replica_training *training,
                              struct tutti_replica_learner **ret, struct tutti_learner *ret_learner,
                              struct tutti_err *err);
void tutti_replica_learner_free(struct tutti_replica_learner *learner); /* NULL is a no-op */
uint64_t tutti_replica_learner_held_out(const struct tutti_replica_learner *learner);
/* Steps until a replica has seen all examples; of a stream, as many as keep `parts` of it apart. */
uint64_t tutti_replica_learner_epoch(const struct tutti_replica_learner *learner, uint32_t parts);
bool tutti_replica_learner_has_classes(const struct tutti_replica_learner *learner);

#endif
