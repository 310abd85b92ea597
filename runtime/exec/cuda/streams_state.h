/* The inside of what plays steps by streams. Private to runtime/exec/cuda/streams*.c. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_STREAMS_STATE_H
#define TUTTI_RUNTIME_EXEC_CUDA_STREAMS_STATE_H

#include "runtime/exec/cuda/queue.h"
#include "runtime/exec/cuda/streams.h"

/* A step, the same of all ranks. */
struct tutti_streams_entry {
    struct tutti_step step;
    uint32_t lane;
    uint32_t index;      /* in its lane */
    uint32_t dependency; /* the entry that it waits for, of another lane; UINT32_MAX: none */
    bool awaited;        /* some lane waits for it */
    void *call;          /* of a CALL: what the backend has opened */
    void **events;       /* [own_count]: its end on the lane's stream; where awaited, or a CALL */
    void **ends;         /* [own_count], of a CALL: its end on the stream of the rank's GPU */
};

struct tutti_streams_rank {
    struct tutti_gpu *gpu;
    bool first_of_gpu; /* which stands for it */
    uint64_t memory;
    void *shadow[TUTTI_BUF_COUNT];  /* where the host's work finds bytes */
    bool lent[TUTTI_BUF_COUNT];     /* that is the caller's */
    struct tutti_cuda_queue *lanes; /* [lane_count] */
    void **times;                   /* NULL, or events of a record: streams_record.c */
};

struct tutti_streams {
    struct tutti_play play;
    struct tutti_streams_opts opts;
    struct tutti_cublas blas;
    struct tutti_buf_sizes sizes;
    struct tutti_streams_rank *ranks;     /* [own_count] */
    uint64_t *addresses[TUTTI_BUF_COUNT]; /* [rank of the schedule]; 0: another process's */
    struct tutti_streams_entry *entries;  /* in the order in which they are put in */
    uint32_t entry_count;
    bool staged;      /* some work is the host's */
    bool recording;   /* the iteration that is played now */
    tutti_ps took_ps; /* the last one */
    uint64_t played_count;
};

/* Reads the program, which all ranks here must have, into s->entries, and says whether some work is
 * the host's. */
int tutti_streams_order(struct tutti_streams *streams, struct tutti_err *err);

/* ---- streams_record.c ---- */

int tutti_streams_record_open(struct tutti_streams *streams, struct tutti_err *err);
void tutti_streams_record_close(struct tutti_streams *streams);
int tutti_streams_record_begin(struct tutti_streams *streams, struct tutti_err *err);
/* Where the entry begins, or ends, on its lane of a rank, whose GPU is the thread's; nothing where
 * this iteration is not recorded. */
int tutti_streams_record_mark(struct tutti_streams *streams,
                              const struct tutti_streams_entry *entry, uint32_t own, bool ends,
                              struct tutti_err *err);

#endif
