/* The inside of what replica.h opens: the replicas of all processes. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_REPLICAS_H
#define TUTTI_RUNTIME_TRAIN_REPLICAS_H

#include <stdatomic.h>

#include "runtime/group.h"
#include "runtime/replica.h"
#include "runtime/strategy.h"

struct tutti_replicas {
    struct tutti_replicas_params params;
    struct tutti_strategy strategy;
    struct tutti_group *group;     /* NULL: one process */
    struct tutti_backend *backend; /* both of params, or its own */
    bool is_own;
    uint32_t process_count;
    uint32_t count;     /* of replicas, of all processes */
    uint32_t first;     /* of this process */
    uint32_t own_count; /* likewise */
    atomic_bool stop;
    char title[160];
};

/* ---- a model as a learner -------------------------------------------------------------------- */

struct tutti_replica_learner;

static inline uint64_t tutti_replica_elements(const struct tutti_replica_variable *v)
{
    return v->rows * (v->columns > 0 ? v->columns : 1);
}

/* Of examples and batches; the rest is the trainer's. `model` is borrowed. *ret and *ret_learner
 * end with free. */
int tutti_replica_learner_new(const struct tutti_replicas *replicas,
                              const struct tutti_replica_model *model,
                              const struct tutti_replica_training *training,
                              struct tutti_replica_learner **ret, struct tutti_learner *ret_learner,
                              struct tutti_err *err);
void tutti_replica_learner_free(struct tutti_replica_learner *learner); /* NULL is a no-op */
uint64_t tutti_replica_learner_held_out(const struct tutti_replica_learner *learner);
bool tutti_replica_learner_has_classes(const struct tutti_replica_learner *learner);

#endif
