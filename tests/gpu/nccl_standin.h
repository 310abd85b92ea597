/* What the parts of the stand-in for NCCL share: calls, communicators, and the results of
 * collectives once all inputs are there. */
#ifndef TUTTI_TESTS_GPU_NCCL_STANDIN_H
#define TUTTI_TESTS_GPU_NCCL_STANDIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { IN_PROGRESS = 7 };

enum kind {
    SEND,
    RECV,
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    ALLTOALL,
    SPLIT, /* ranks gather what each has said */
};

struct comm;

struct call {
    enum kind kind;
    struct comm *comm;
    void *stream; /* of the stand-in for the driver */
    const char *in;
    char *out;
    size_t count;
    int type;
    int op;
    int peer;     /* or root */
    void **child; /* of SPLIT: where the new communicator goes */
    bool done;
};

/* What a rank says to a split. */
struct says {
    int color; /* -1: in none */
    int key;
};

/* A rank's end. Where it blocks all ranks are in this process; where it does not, its calls go on
 * in a thread, over sockets of this host. */
struct comm {
    uint64_t id;
    int rank;
    int rank_count;
    bool blocks;
    int listen_fd;
    int *to;   /* [rank]: sockets, or -1 */
    int *from; /* likewise */
    uint64_t split_count;
    struct says said;      /* to the split under way */
    struct says *all_said; /* [rank] */
    pthread_t thread;
    bool has_thread;
    struct call *calls; /* that the thread does */
    int call_count;
    atomic_int state;
    atomic_bool aborted;
    atomic_int users; /* of a comm that does not block: its owner, and what is in streams */
};

uint64_t standin_setting(const char *name, uint64_t standard);

size_t standin_bytes_of(int type);

/* Until what was put on the calls' streams before them is done: only then their bytes are there. */
void standin_wait(const struct call *calls, int count);
/* What the stand-in for the driver has by that name; NULL: nothing. */
void *standin_symbol(const char *name);

/* Bytes that each rank gives, or gets. */
size_t standin_in_bytes(const struct call *call);

/* What a rank gets of a collective: ins[rank] of all ranks. Returns its length. */
size_t standin_result(const struct call *call, const char *const *ins, char *out);

/* Makes the communicator that a SPLIT comes to, once all have said where they belong. False: it
 * cannot. */
bool standin_split(const struct call *call);

/* ---- nccl_standin_far.c ---- */

bool standin_far_open(struct comm *comm);
/* Also breaks off; frees the communicator, now or once no stream has a call of it. */
void standin_far_free(struct comm *comm);
/* Copies the calls, and does them in a thread. */
int standin_far_begin(struct comm *comm, const struct call *calls, int call_count);
int standin_far_state(struct comm *comm);

#endif
