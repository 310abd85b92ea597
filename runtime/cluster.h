/* Standing workers, and drivers that have them run functions: TensorFlow's ClusterCoordinator, and
 * what `tutti worker` and `tutti train --cluster` are made of.
 *
 * A worker is a process that waits. It serves one driver at a time, in a child of its own: there
 * the functions that the program has registered run, one after the other, and what they keep is
 * gone when the driver goes. A driver that has ended, in whatever way, is noticed by the end of its
 * connection: the child and all that it has started are killed, and the worker is idle again within
 * a second. (A host that vanishes without a word is noticed after 35 s. A worker that is killed
 * takes its child along.) Connections are those of runtime/frames.h: loopback alone, unless there
 * is a secret.
 *
 * A function is named, takes bytes and gives bytes; no code goes over the wire. */
#ifndef TUTTI_RUNTIME_CLUSTER_H
#define TUTTI_RUNTIME_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;

enum { TUTTI_CLUSTER_LINE_BYTES = 4096 }; /* longer lines of a function come in parts */

/* ---- a worker -------------------------------------------------------------------------------- */

struct tutti_cluster_worker;
struct tutti_cluster_reply; /* what a function gives back */

/* Adds to it. -TUTTI_EINVAL: more than a frame holds. */
int tutti_cluster_reply(struct tutti_cluster_reply *reply, const void *data, uint64_t bytes,
                        struct tutti_err *err);

struct tutti_cluster_function {
    const char *name;
    /* An error goes to the driver with its status and text: an error of the application, which is
     * not tried again. */
    int (*run)(void *context, const void *input, uint64_t bytes, struct tutti_cluster_reply *reply,
               struct tutti_err *err);
    void *context;
};

struct tutti_cluster_worker_opts {
    size_t size;         /* sizeof(struct tutti_cluster_worker_opts): runtime/api.h */
    const char *address; /* as of tutti_frames_listen; NULL: any port of loopback */
    const void *secret;  /* likewise */
    size_t secret_bytes;
    uint64_t bytes_max;                             /* of an input or a result; 0: 16 MiB */
    const struct tutti_cluster_function *functions; /* borrowed while it is open */
    size_t function_count;
    const char *name; /* what the worker calls itself to drivers; NULL: "worker" */
    /* Told who comes and goes, a line without its end each. NULL: nobody. */
    void (*log)(void *data, const char *line);
    void *log_data;
};

int tutti_cluster_worker_open(const struct tutti_cluster_worker_opts *opts,
                              struct tutti_cluster_worker **ret, struct tutti_err *err);
const char *tutti_cluster_worker_address(const struct tutti_cluster_worker *worker);
/* Waits up to wait_ps for a driver and serves it until it goes; *ret_served false: none came. What
 * a driver does wrong is its end, not an error. To be called again and again. While a function
 * runs, what it prints (descriptors 1 and 2) goes to the driver by lines. Forks: the program must
 * have no threads that hold locks meanwhile. */
int tutti_cluster_worker_serve(struct tutti_cluster_worker *worker, tutti_ps wait_ps,
                               bool *ret_served, struct tutti_err *err);
void tutti_cluster_worker_close(struct tutti_cluster_worker *worker); /* NULL is a no-op */

/* ---- one worker, seen by its driver ---------------------------------------------------------- */

struct tutti_cluster_link;

struct tutti_cluster_link_opts {
    size_t size;        /* sizeof(struct tutti_cluster_link_opts): runtime/api.h */
    const void *secret; /* as of tutti_frames_connect */
    size_t secret_bytes;
    uint64_t bytes_max;   /* 0: 16 MiB */
    tutti_ps deadline_ps; /* of connecting, of the worker's first word, and of sending; 0: 30 s */
    tutti_ps connect_ps;  /* of connecting alone; 0: deadline_ps */
    bool once;            /* who refuses the connection is not asked again until then */
};

/* `what` it is for this driver, "worker 1": in messages. -TUTTI_EIO: it is not there, or serves
 * another driver, which is named; -TUTTI_EINVAL: another version or secret. */
int tutti_cluster_link_open(const struct tutti_cluster_link_opts *opts, const char *address,
                            const char *what, struct tutti_cluster_link **ret,
                            struct tutti_err *err);
const char *
tutti_cluster_link_name(const struct tutti_cluster_link *link); /* "worker 1 ('10.0.0.1:4242')" */

/* Has it run a function; one at a time, so the last must have ended. */
int tutti_cluster_link_call(struct tutti_cluster_link *link, uint64_t number, const char *function,
                            const void *input, uint64_t bytes, struct tutti_err *err);

/* Sends SIGTERM to the process in which it runs: one that catches it may save, and then return; any
 * other is ended by it. */
int tutti_cluster_link_stop(struct tutti_cluster_link *link, struct tutti_err *err);

enum tutti_cluster_link_kind {
    TUTTI_CLUSTER_LINK_NOTHING, /* within the time */
    TUTTI_CLUSTER_LINK_OUT,     /* a line that the function printed to descriptor 1 */
    TUTTI_CLUSTER_LINK_NOTE,    /* to descriptor 2 */
    TUTTI_CLUSTER_LINK_DONE,    /* its result */
    TUTTI_CLUSTER_LINK_FAILED,  /* its error: status, and text in data */
    TUTTI_CLUSTER_LINK_END, /* the worker, or the process in which it ran the function, is gone */
};

struct tutti_cluster_link_event {
    enum tutti_cluster_link_kind kind;
    uint64_t number;  /* DONE, FAILED: of the call */
    int status;       /* FAILED */
    const char *data; /* the link's until the next call of it; texts end with a zero */
    uint64_t bytes;   /* of data, without that zero; END: data says why */
};

int tutti_cluster_link_next(struct tutti_cluster_link *link, tutti_ps timeout_ps,
                            struct tutti_cluster_link_event *ret, struct tutti_err *err);
bool tutti_cluster_link_ready(
    struct tutti_cluster_link *link); /* to be asked before a poll of its fd */
int tutti_cluster_link_fd(const struct tutti_cluster_link *link);
void tutti_cluster_link_close(struct tutti_cluster_link *link); /* NULL is a no-op */

/* ---- a queue of closures over several workers ------------------------------------------------ */

struct tutti_cluster_driver;

/* A closure is a call of a function that any worker may do. Each is done at least once: one whose
 * worker is lost goes back to the end of the queue, so a function has to bear being run again. */
struct tutti_cluster_opts {
    size_t size; /* sizeof(struct tutti_cluster_opts): runtime/api.h */
    const char *const *addresses;
    uint32_t address_count;
    const void *secret; /* borrowed until open returns */
    size_t secret_bytes;
    uint64_t bytes_max;   /* 0: 16 MiB */
    tutti_ps deadline_ps; /* of the first connecting, and of sending; 0: 30 s */
    tutti_ps return_ps;   /* so long none of the workers may be there; 0: 3600 s */
    uint32_t queue_bound; /* closures that wait; 0: 262144 */
    uint32_t tries;       /* a closure whose workers are lost so often is an error; 0: 8 */
    /* Told what functions print. NULL: nobody. */
    void (*line)(void *data, uint32_t worker, bool is_note, const char *line);
    void *line_data;
};

/* Connects to all; those that are not there are tried again later, but one must be. No thread:
 * everything moves while the program is in one of these calls. */
int tutti_cluster_open(const struct tutti_cluster_opts *opts, struct tutti_cluster_driver **ret,
                       struct tutti_err *err);

/* Queues one. Where the queue is full it waits for room up to timeout_ps, -TUTTI_ETIME. After a
 * closure has failed, its error comes here or in join, once, whatever comes first, with its own
 * status; then nothing was queued. */
int tutti_cluster_schedule(struct tutti_cluster_driver *cluster, const char *function,
                           const void *input, uint64_t bytes, tutti_ps timeout_ps,
                           uint64_t *ret_closure, struct tutti_err *err);

/* Waits until none is queued or running. The first error cancels all that are, and is returned. */
int tutti_cluster_join(struct tutti_cluster_driver *cluster, tutti_ps timeout_ps,
                       struct tutti_err *err);

/* Waits for one. *ret_data is the cluster's, until the closure is forgotten. Its error, or
 * -TUTTI_ECHECK: it was cancelled for another's; -TUTTI_EINVAL: there is none of that number. */
int tutti_cluster_fetch(struct tutti_cluster_driver *cluster, uint64_t closure, tutti_ps timeout_ps,
                        const void **ret_data, uint64_t *ret_bytes, struct tutti_err *err);

/* One that has ended, and its result: memory is taken by those that are not forgotten. */
void tutti_cluster_forget(struct tutti_cluster_driver *cluster, uint64_t closure);

struct tutti_cluster_stats {
    uint64_t scheduled;
    uint64_t completed;
    uint64_t cancelled; /* and those that failed */
    uint64_t lost;      /* times that a worker was lost in a closure */
    uint32_t present;   /* workers that are there now */
};

struct tutti_cluster_stats tutti_cluster_stats(const struct tutti_cluster_driver *cluster);
void tutti_cluster_close(
    struct tutti_cluster_driver *cluster); /* workers are idle again; NULL: no-op */

/* ---- a cluster in a file --------------------------------------------------------------------- */

enum { TUTTI_CLUSTER_TYPE_BYTES = 32, TUTTI_CLUSTER_ADDRESS_BYTES = 320 };

struct tutti_cluster_task {
    char type[TUTTI_CLUSTER_TYPE_BYTES]; /* chief, worker, ps or evaluator */
    uint32_t index;
    char address[TUTTI_CLUSTER_ADDRESS_BYTES];
};

/* Reads TF_CONFIG's cluster object, {"worker": ["host:port", ...], "ps": [...]}, or a whole
 * TF_CONFIG: the tasks in the order in which TensorFlow counts them, chief, workers, then ps and
 * evaluators; *ret is freed by free(). -TUTTI_EINVAL says what is wrong, also that a task lacks, or
 * two are at one address. */
int tutti_cluster_read(const char *text, struct tutti_cluster_task **ret, uint32_t *ret_count,
                       struct tutti_err *err);

TUTTI_API_END

#endif
