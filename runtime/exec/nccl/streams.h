/* Steps of training by streams, whose CALLs are NCCL's own collectives. Private to
 * runtime/exec/nccl. */
#ifndef TUTTI_RUNTIME_EXEC_NCCL_STREAMS_H
#define TUTTI_RUNTIME_EXEC_NCCL_STREAMS_H

#include "runtime/exec/cuda/streams.h"
#include "runtime/exec/nccl/ranks.h"

/* A CALL, or a meeting of all ranks. */
struct tutti_nccl_call {
    struct tutti_contract contract;
    struct tutti_axis axis; /* of all ranks, or number `axis_number` of the schedule */
    uint32_t axis_number;   /* 0: all ranks */
    uint64_t *in;           /* [own] */
    uint64_t *out;
    void **begun; /* events: [own] */
    void **ended;
    int64_t since_ns; /* 0, or when it was seen first that all ranks here had come to it */
    struct tutti_nccl_call *next; /* that was started after it */
};

struct tutti_nccl_streams {
    struct tutti_nccl_loaded run; /* first: it is connected and aborted as any run */
    struct tutti_streams *streams;
    struct tutti_gpu **gpus; /* [own] */
    void **state;            /* [rank of the schedule] */
    struct tutti_nccl_call *meeting;
    struct tutti_nccl_call *first; /* of those that were started and have not been seen to end */
    struct tutti_nccl_call *last;
};

/* ---- streams_calls.c ---- */

extern const struct tutti_streams_calls tutti_nccl_calls; /* context: struct tutti_nccl_streams */

/* A meeting is a call, too, which all ranks take part in. */
int tutti_nccl_meeting_open(struct tutti_nccl_streams *streams, struct tutti_err *err);
void tutti_nccl_meeting_close(struct tutti_nccl_streams *streams);
/* All ranks of all processes are here. */
int tutti_nccl_meet(struct tutti_nccl_streams *streams, struct tutti_err *err);

/* ---- streams.c: as the functions of a player ---- */

int tutti_nccl_streams_load(struct tutti_player *player, const struct tutti_load *load, void **ret,
                            struct tutti_err *err);
int tutti_nccl_streams_connect(void *loaded, struct tutti_err *err);
int tutti_nccl_streams_start(void *loaded, const struct tutti_burst *burst, struct tutti_err *err);
int tutti_nccl_streams_times(void *loaded, struct tutti_times *times, struct tutti_record *record,
                             struct tutti_err *err);
void tutti_nccl_streams_unload(void *loaded);

#endif
