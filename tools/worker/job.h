/* A training as a standing worker runs it for a driver: what is sent, and the two functions that
 * `tutti worker` registers (runtime/cluster.h). They run in a child of the worker. */
#ifndef TUTTI_TOOLS_WORKER_JOB_H
#define TUTTI_TOOLS_WORKER_JOB_H

#include "runtime/cluster.h"

struct tutti_args;

#define TUTTI_JOB_PREPARE "tutti prepare" /* input none; result: u32, a port for this training */
#define TUTTI_JOB_TRAIN   "tutti train"   /* input: a job; result: u32, the exit code */

enum { TUTTI_JOB_WORDS_MAX = 320, TUTTI_JOB_BYTES_MAX = 16 << 20 };

struct tutti_job_text {
    uint32_t word_count;
    const char *words[TUTTI_JOB_WORDS_MAX]; /* behind `tutti train`; none of a model in a file */
    const char *model;                      /* the text of that; "": none */
    const char *tf_config;
};

/* The words of a command as they were typed, but for --cluster, and --model of a file. */
int tutti_job_words(const struct tutti_args *args, struct tutti_job_text *ret,
                    struct tutti_err *err);

/* *ret is freed by free(). */
int tutti_job_write(const struct tutti_job_text *job, uint8_t **ret, uint64_t *ret_bytes,
                    struct tutti_err *err);
/* The texts lie in the data. */
int tutti_job_read(const uint8_t *data, uint64_t bytes, struct tutti_job_text *ret,
                   struct tutti_err *err);

/* What the options of a job may do to this host: reads and writes below `dir` (absolute, without
 * links; NULL: none at all), and starts nothing. "/" is for who wants to know before he asks what
 * no worker does. -TUTTI_EINVAL names the option. */
int tutti_job_check(const struct tutti_args *args, const char *dir, struct tutti_err *err);

struct tutti_job_place {
    const char *dir; /* as above */
    int port_fd;     /* in the child: holds the port that was given out; -1 at first */
};

/* The two functions, for a worker with this place, which is borrowed. */
enum { TUTTI_JOB_FUNCTIONS = 2 };
void tutti_job_functions(struct tutti_job_place *place,
                         struct tutti_cluster_function ret[TUTTI_JOB_FUNCTIONS]);

#endif
