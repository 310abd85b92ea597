/* Launch identity: which of how many processes this is, by what its launcher left in the
 * environment, and where process 0 can be found. Nothing is started, resolved or connected. */
#ifndef TUTTI_RUNTIME_LAUNCH_H
#define TUTTI_RUNTIME_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* An environment: that of this process, or one of a test. */
struct tutti_env {
    const char *(*get)(const void *context, const char *name); /* NULL: not set */
    const void *context;
};

extern const struct tutti_env tutti_env_process; /* getenv */

enum {
    TUTTI_LAUNCH_HOST_BYTES = 256, /* a name of DNS has at most 253 characters */
    TUTTI_LAUNCH_JOB_BYTES = 256,
    TUTTI_LAUNCH_ROLE_BYTES = 32,
    TUTTI_LAUNCH_COUNT_MAX = 1 << 24,
};

struct tutti_launch {
    const char *name;     /* as tutti_launch_names has it: "slurm"; "none" */
    const char *by;       /* for people: "Slurm's srun"; "no launcher" */
    bool member;          /* false: has a role that plays nothing: a parameter server */
    uint32_t index;       /* of this process */
    uint32_t count;       /* of all; 0: the launcher does not say */
    uint32_t local_index; /* among those of its host */
    uint32_t local_count; /* of those; 0: not said (then local_index is not known either) */
    uint32_t host_index;  /* of its host */
    uint32_t host_count;  /* 0: not said */
    bool has_pmi;         /* the launcher answers PMI-1 on the descriptor PMI_FD */
    uint16_t root_port;   /* where process 0 is to listen; 0: not said */
    char root_host[TUTTI_LAUNCH_HOST_BYTES]; /* "": not said; IPv6 without brackets */
    char role[TUTTI_LAUNCH_ROLE_BYTES];      /* TF_CONFIG's "chief", "worker", "ps"...; "" */
    char job[TUTTI_LAUNCH_JOB_BYTES]; /* one text for all processes of a run, no other's; "" */
};

/* Reads who this is. `launcher` is one of tutti_launch_names, or NULL: the innermost one that has
 * left its variables, in the order of tutti_launch_names. What another one says must then fit: it
 * may have started one process here (1 of 1), these same processes, or the agents of the hosts that
 * started them (torchrun under srun: one task a host; what an mpirun takes from Slurm says nothing
 * of its processes). Anything else is refused, with both shown. TUTTI_SIZE completes what a
 * launcher does not say, TUTTI_ROOT=HOST:PORT replaces it. -TUTTI_EINVAL names the variable. */
int tutti_launch_read(const struct tutti_env *env, const char *launcher, struct tutti_launch *ret,
                      struct tutti_err *err);

/* What one launcher left, whatever others did: false if it has left nothing, or nothing sound. */
bool tutti_launch_by(const struct tutti_env *env, const char *launcher, struct tutti_launch *ret);

/* "tutti|torchrun|...|none": the innermost first. */
const char *tutti_launch_names(void);

/* HOST:PORT, [IPV6]:PORT; `what` names the text in errors: "option '--root'". */
int tutti_launch_address(const char *what, const char *text, char host[TUTTI_LAUNCH_HOST_BYTES],
                         uint16_t *ret_port, struct tutti_err *err);

/* What the launcher calls process `index`, for people, and where it is to be found: "worker 1 at
 * '10.0.0.2:2222'" of TF_CONFIG. False: it says neither. */
bool tutti_launch_task(const struct tutti_env *env, const struct tutti_launch *launch,
                       uint32_t index, char *buf, size_t buf_bytes);

enum { TUTTI_LAUNCH_SHARE_BYTES = 512 };

/* Process 0 hands one word (no blanks, below TUTTI_LAUNCH_SHARE_BYTES) to all others, by what the
 * launcher offers where it does not say where process 0 is: a socket named after the job, on one
 * host; or PMI. Collective. In process 0 `word` is read, in the others written. -TUTTI_EINVAL if
 * the launcher offers neither; -TUTTI_ETIME names the processes that have not come. Processes of
 * other users are not spoken to. */
int tutti_launch_share(const struct tutti_env *env, const struct tutti_launch *launch,
                       char word[TUTTI_LAUNCH_SHARE_BYTES], tutti_ps deadline_ps,
                       struct tutti_err *err);

/* Whether it offers one of these. */
bool tutti_launch_can_share(const struct tutti_launch *launch);

/* ---- a cluster of TensorFlow's --------------------------------------------------------------- */

enum { TUTTI_TASKS_MAX = 4096 };

/* The tasks of a TF_CONFIG, whichever of them is asked. Hosts are numbered from 0 on by their names
 * or addresses, without ports: first those of workers in order (where there are no servers, the
 * chief before them: beside servers it leads and computes nothing), then those of servers alone. */
struct tutti_tf_tasks {
    uint32_t chief_count; /* 0 or 1; of TF 1 also called master */
    uint32_t worker_count;
    uint32_t server_count; /* "ps" */
    uint32_t evaluator_count;
    uint32_t host_count;
    uint32_t chief_host;
    const uint32_t *worker_host; /* [worker] */
    const uint32_t *server_host; /* [server] */
    struct tutti_arena *arena;
};

/* `text` is what TF_CONFIG holds. -TUTTI_EINVAL says what is wrong with it; no cluster is wrong as
 * well. */
int tutti_tf_tasks_parse(const char *text, struct tutti_tf_tasks **ret, struct tutti_err *err);
void tutti_tf_tasks_free(struct tutti_tf_tasks *tasks); /* NULL is a no-op */

TUTTI_API_END

#endif
