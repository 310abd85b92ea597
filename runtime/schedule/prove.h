/* The state of a proof: what all buffers of all ranks hold. */
#ifndef TUTTI_RUNTIME_SCHEDULE_PROVE_H
#define TUTTI_RUNTIME_SCHEDULE_PROVE_H

#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/value.h"

struct tutti_proof {
    const struct tutti_schedule *schedule; /* flat, unless it is composed */
    /* The schedule has axes or work: calls do what their contracts say, and what a COMPUTE writes
     * is a contribution of its rank. */
    bool composed;
    /* `in` lies within `out`, or `out` within `in`, as NCCL has it in place; see
     * tutti_prove_in_place. */
    bool in_place;
    struct tutti_rank_sets *sets;
    const struct tutti_rank_set **single; /* [rank]: {rank} */
    const struct tutti_rank_set *all;
    struct tutti_value_map *out; /* [rank]; in place: the larger of in and out */
    struct tutti_value_map *scratch;
    struct tutti_value_map *state;
    uint64_t *work_source; /* [entry]: where the bytes that its COMPUTEs write are counted from */
    uint32_t *work_done;   /* [rank * work_count + entry]: COMPUTEs so far */
    const struct tutti_rank_set *
        *wholes; /* [first_whole[axis] + group]: its ranks; NULL: not yet */
    size_t *first_whole;
    bool *in_place_proved; /* [callee] */
    struct tutti_pieces *free_pieces;
    struct tutti_pieces acc; /* work of one step */
    struct tutti_pieces src;
    struct tutti_pieces dst;
};

/* What a region of a rank's buffer holds, into `pieces`, for the step that `chain` is at. */
int tutti_proof_read(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                     unsigned buffer, uint64_t offset, uint64_t bytes, struct tutti_pieces *pieces,
                     struct tutti_err *err);

/* A copy of `pieces`, or with NULL nothing at all, becomes the contents of a region. */
int tutti_proof_write(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                      unsigned buffer, uint64_t offset, uint64_t bytes,
                      const struct tutti_pieces *pieces, struct tutti_err *err);

/* Two pieces that cover [offset, end) of a reduction become one, behind those of `ret`: the same
 * bytes of the inputs, of different ranks. */
int tutti_proof_merge(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                      const struct tutti_piece *acc, const struct tutti_piece *src, uint64_t offset,
                      uint64_t end, struct tutti_pieces *ret, struct tutti_err *err);

/* Of composed schedules: a COMPUTE, and a call with all members of its group. */
int tutti_proof_compute(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                        struct tutti_err *err);
int tutti_proof_call(struct tutti_proof *proof, const struct tutti_dry_run_meeting *meeting,
                     struct tutti_err *err);
/* Their tables; freed with the proof. */
int tutti_proof_init_work(struct tutti_proof *proof, struct tutti_err *err);

/* What is left at the end: that out holds what the contract promises, and nothing was in vain. */
int tutti_proof_final(const struct tutti_proof *proof, struct tutti_err *err);

/* Where out begins in the one buffer of a rank that plays in place, and where in does: NCCL's
 * convention. All-reduce, reduce, broadcast: in is out. All-gather: in is block `rank` of out.
 * Reduce-scatter: out is block `rank` of in. False: there is no such convention. */
bool tutti_in_place(const struct tutti_schedule *schedule, uint32_t rank, uint64_t *ret_in,
                    uint64_t *ret_out);

/* What the bytes come to, played in place; who orders whose accesses is the check's. `flat` has no
 * callees. */
int tutti_prove_in_place(const struct tutti_schedule *flat, struct tutti_err *err);

#endif
