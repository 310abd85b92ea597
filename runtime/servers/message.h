/* What servers, workers and the chief say to each other: a head that every message has, and what
 * follows it. Numbers are little-endian; values of variables have the machine's byte order, which
 * the first message compares. */
#ifndef TUTTI_RUNTIME_SERVERS_MESSAGE_H
#define TUTTI_RUNTIME_SERVERS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/servers.h"

struct tutti_err;

enum tutti_server_message {
    /* To a server, of whoever opens a connection: role, index and what is trained; and back. */
    TUTTI_MESSAGE_HELLO = 1,
    TUTTI_MESSAGE_WELCOME,
    /* Between server 0 and those that train: the actions and events of coordinators. */
    TUTTI_MESSAGE_START,
    TUTTI_MESSAGE_ABORT,
    TUTTI_MESSAGE_DONE, /* with a report, and the gradients of server 0's variables */
    TUTTI_MESSAGE_SET_UP,
    TUTTI_MESSAGE_IS_SET_UP,
    TUTTI_MESSAGE_SAVE,
    TUTTI_MESSAGE_SAVED,
    TUTTI_MESSAGE_SAVE_DUE,
    TUTTI_MESSAGE_STOP, /* of the chief: all is to be saved, and to end */
    TUTTI_MESSAGE_TOLD, /* to the chief: gradients that were applied; it answers with SEEN */
    TUTTI_MESSAGE_SEEN,
    TUTTI_MESSAGE_FINISH, /* with what came of it all */
    TUTTI_MESSAGE_FAIL,   /* why all is to end: a text */
    TUTTI_MESSAGE_ALIVE,  /* nothing else has happened */
    /* With every server: each of the first is answered by the second. */
    TUTTI_MESSAGE_PULL,
    TUTTI_MESSAGE_WEIGHTS,
    TUTTI_MESSAGE_PUSH, /* not to server 0: DONE has them */
    TUTTI_MESSAGE_PUSHED,
    TUTTI_MESSAGE_ASSIGN,
    TUTTI_MESSAGE_ASSIGNED,
    TUTTI_MESSAGE_SNAPSHOT,
    TUTTI_MESSAGE_COPY,
    /* Of server 0 to the others, in one order for all. */
    TUTTI_MESSAGE_VERDICT,
};

/* `generation` counts the times that the model was set up, on from the time at which server 0 was
 * started: what is of an older one is dropped. Incarnation and episode are the coordinator's.
 * `sequence` numbers the verdicts of server 0: who pulls with one waits until it is carried out. */
struct tutti_server_head {
    uint64_t generation;
    uint32_t incarnation;
    uint32_t member; /* VERDICT: the worker; ASSIGN, COPY: how many arrays of moments */
    uint64_t episode;
    uint64_t step;
    uint64_t sequence;
    uint64_t number; /* VERDICT: what is to be done; ASSIGN, COPY: updates so far */
};

/* ABORT: whatever is of that generation. */
#define TUTTI_SERVER_ALL_EPISODES UINT64_MAX

enum { TUTTI_SERVER_HEAD_BYTES = 48, TUTTI_SERVER_REPORT_BYTES = 40 };

void tutti_server_head_put(const struct tutti_server_head *head,
                           uint8_t ret[TUTTI_SERVER_HEAD_BYTES]);
/* -TUTTI_EINVAL: the message is shorter. */
int tutti_server_head_get(const void *bytes, size_t byte_count, struct tutti_server_head *ret,
                          struct tutti_err *err);

/* What a worker says of the examples that its gradient is of. */
struct tutti_server_report {
    struct tutti_sums sums;
    double gradient_norm;
    double compute_s;
};

void tutti_server_report_put(const struct tutti_server_report *report,
                             uint8_t ret[TUTTI_SERVER_REPORT_BYTES]);
void tutti_server_report_get(const uint8_t bytes[TUTTI_SERVER_REPORT_BYTES],
                             struct tutti_server_report *ret);

/* HELLO's: who it is, and two texts that say what it holds, which must be those of the server. */
struct tutti_server_hello {
    uint32_t role; /* enum tutti_servers_role */
    uint32_t index;
    uint64_t generation; /* a server's: of the weights that it has */
    const char *model;   /* zero-terminated, in the message */
    const char *training;
};

enum { TUTTI_SERVER_TEXT_BYTES = 512, TUTTI_SERVER_HELLO_BYTES = 32 + 2 * TUTTI_SERVER_TEXT_BYTES };

/* Bytes of it. */
size_t tutti_server_hello_put(const struct tutti_server_hello *hello,
                              uint8_t ret[TUTTI_SERVER_HELLO_BYTES]);
/* -TUTTI_EINVAL: it is none, or of a machine with another byte order. */
int tutti_server_hello_get(const void *bytes, size_t byte_count, struct tutti_server_hello *ret,
                           struct tutti_err *err);

/* FAIL's text, of a message whose head has been read: always -TUTTI_EIO. */
int tutti_server_failure_get(const void *bytes, size_t byte_count, struct tutti_err *err);

enum { TUTTI_SERVER_TOLD_BYTES = 80 };

void tutti_server_told_put(const struct tutti_servers_told *told,
                           uint8_t ret[TUTTI_SERVER_TOLD_BYTES]);
void tutti_server_told_get(const uint8_t bytes[TUTTI_SERVER_TOLD_BYTES],
                           struct tutti_servers_told *ret);

/* FINISH's. */
size_t tutti_server_result_bytes(uint32_t worker_count);
void tutti_server_result_put(const struct tutti_servers_result *result, uint8_t *ret);
/* `ret->by_worker`, where it is not NULL, has room for `worker_count`. */
int tutti_server_result_get(const void *bytes, size_t byte_count, uint32_t worker_count,
                            struct tutti_servers_result *ret, struct tutti_err *err);

#endif
