/* Where the variables of a model lie on servers, and what one server keeps of them: weights, the
 * optimizer's moments, gradients that have come and are not yet decided, and a copy of one step. No
 * clock and no I/O: a store does what verdicts say, in their order, and so do all servers alike. */
#ifndef TUTTI_RUNTIME_SERVERS_STORE_H
#define TUTTI_RUNTIME_SERVERS_STORE_H

#include "runtime/servers/message.h"

struct tutti_arena;

/* ---- where they lie -------------------------------------------------------------------------- */

/* Elements side by side, in the row of all variables and on their server. */
struct tutti_server_run {
    uint64_t flat;
    uint64_t at;
    uint64_t count;
};

struct tutti_server_layout {
    struct tutti_arena *arena;
    uint64_t elements;        /* of the model */
    uint32_t layer_count;     /* each repeat of a layer is one */
    uint32_t *first_variable; /* [layer_count + 1] */
    uint64_t *variable_at;    /* [variables + 1] in the row of all */
    uint32_t server_count;
    uint64_t *server_elements; /* [server_count] */
    uint32_t *first_run;       /* [server_count + 1] */
    struct tutti_server_run *runs;
};

/* -TUTTI_EINVAL: variables that are not trained. */
int tutti_server_layout_new(const struct tutti_servers_params *params,
                            struct tutti_server_layout **ret, struct tutti_err *err);
void tutti_server_layout_free(struct tutti_server_layout *layout); /* NULL is a no-op */

/* From the row of all variables to a server's part of it, and back. */
void tutti_server_gather(const struct tutti_server_layout *layout, uint32_t server,
                         const float *all, float *part);
void tutti_server_scatter(const struct tutti_server_layout *layout, uint32_t server,
                          const float *part, float *all);

/* ---- what a server keeps --------------------------------------------------------------------- */

/* A gradient that waits for its verdict: one a worker, since the next is pushed after it. */
struct tutti_server_staged {
    bool is_there;
    struct tutti_server_head of;
    float *values;
};

enum { TUTTI_SERVER_MOMENTS = 2 };

struct tutti_store {
    struct tutti_update_rule rule;
    struct tutti_rate rate;
    uint64_t count; /* elements here */
    uint32_t moment_count;
    uint32_t worker_count;
    float *weights;
    float *moments[TUTTI_SERVER_MOMENTS];
    float *sum;                         /* synchronous: of the gradients of a step; */
    uint32_t sum_count;                 /* how many */
    struct tutti_server_staged *staged; /* [worker_count] */
    float *copy;                        /* weights, then moments, as they were at `copied` */
    uint64_t generation;
    uint64_t step;
    uint64_t updates;  /* that were made to these weights, those of a checkpoint included */
    uint64_t sequence; /* of the last verdict carried out */
    struct tutti_server_head copied;
    uint64_t dropped; /* gradients put aside for a newer one, or for an older generation */
};

int tutti_store_new(const struct tutti_servers_params *params,
                    const struct tutti_server_layout *layout, uint32_t server,
                    struct tutti_store **ret, struct tutti_err *err);
void tutti_store_free(struct tutti_store *store); /* NULL is a no-op */

/* Elements that ASSIGN and COPY carry: weights and all moments. */
uint64_t tutti_store_row(const struct tutti_store *store);

/* All of it is now this, of generation, step and updates as the head says. */
void tutti_store_assign(struct tutti_store *store, const struct tutti_server_head *head,
                        const float *row);
/* A worker's gradient has come. */
void tutti_store_stage(struct tutti_store *store, uint32_t worker,
                       const struct tutti_server_head *head, const float *gradient);

/* What server 0 says is to be done. */
enum tutti_server_verdict {
    TUTTI_VERDICT_APPLY = 1, /* asynchronous: into the weights; synchronous: to the sum */
    TUTTI_VERDICT_ADVANCE,   /* the mean of the sum into the weights */
    TUTTI_VERDICT_DROP,      /* what has come of that worker is left aside */
    TUTTI_VERDICT_MARK,      /* the weights of here are copied: a snapshot */
};

/* False: the gradient is not there, which the order of messages rules out. Verdicts of another
 * generation do nothing but count. */
bool tutti_store_carry_out(struct tutti_store *store, bool synchronous,
                           const struct tutti_server_head *verdict);

#endif
