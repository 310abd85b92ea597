/* The proof: runs a schedule on sets of contributions instead of bytes. Each byte of out and
 * scratch knows which byte of whose inputs it stands for; a step that mixes what does not belong
 * together is refused on the spot, and at the end out must hold what the contract promises. */
#include "runtime/schedule/prove.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/schedule/clock.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

/* The map that a place of a buffer lies in; in place, `in` and `out` are one. */
static struct tutti_value_map *map_of(const struct tutti_proof *proof, uint32_t rank,
                                      unsigned buffer, uint64_t *offset)
{
    uint64_t in = 0;
    uint64_t out = 0;

    if (proof->in_place && buffer <= TUTTI_BUF_OUT) {
        (void)tutti_in_place(proof->schedule, rank, &in, &out);
        *offset += buffer == TUTTI_BUF_IN ? in : out;
        return &proof->out[rank];
    }
    assert(buffer >= TUTTI_BUF_OUT && buffer < TUTTI_BUF_COUNT);
    return buffer == TUTTI_BUF_OUT       ? &proof->out[rank]
           : buffer == TUTTI_BUF_SCRATCH ? &proof->scratch[rank]
                                         : &proof->state[rank];
}

int tutti_proof_read(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                     unsigned buffer, uint64_t offset, uint64_t bytes, struct tutti_pieces *pieces,
                     struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];
    struct tutti_value_map *map;
    uint64_t hole = 0;
    int status = 1;

    pieces->count = 0;
    if (bytes == 0)
        return 0;
    if (buffer == TUTTI_BUF_IN && !proof->in_place) {
        if (!tutti_pieces_add(
                pieces, (struct tutti_piece){0, bytes, offset, proof->single[chain->rank], false}))
            status = -1;
    } else {
        map = map_of(proof, chain->rank, buffer, &offset);
        status = tutti_value_read(map, offset, offset + bytes, pieces, &hole);
    }
    if (status < 0)
        return tutti_nomem(err);
    if (status == 0)
        return tutti_fail(err, TUTTI_ECHECK,
                          "%s: reads %s byte %" PRIu64 ", which holds nothing yet",
                          tutti_dry_run_where(chain, where), tutti_buf_name(buffer), hole);
    return 0;
}

int tutti_proof_write(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                      unsigned buffer, uint64_t offset, uint64_t bytes,
                      const struct tutti_pieces *pieces, struct tutti_err *err)
{
    static const struct tutti_pieces nothing = {NULL, 0, 0, NULL};
    const struct tutti_segment *unread = NULL;
    struct tutti_value_map *map;
    char where[TUTTI_STEP_WHERE_BYTES];

    if (bytes == 0)
        return 0;
    map = map_of(proof, chain->rank, buffer, &offset);
    if (buffer != TUTTI_BUF_STATE) /* what is kept need not have been read */
        unread = tutti_value_unread(map, offset, offset + bytes);
    if (unread != NULL)
        return tutti_fail(
            err, TUTTI_ECHECK,
            "%s: overwrites %s bytes %" PRIu64 "..%" PRIu64 ", written by lane %u, step %" PRIu64
            ", before anyone read them",
            tutti_dry_run_where(chain, where), tutti_buf_name(buffer),
            unread->piece.offset > offset ? unread->piece.offset : offset,
            (unread->piece.end < offset + bytes ? unread->piece.end : offset + bytes) - 1,
            unread->lane, unread->step);
    if (!tutti_value_write(map, offset, offset + bytes, pieces == NULL ? &nothing : pieces,
                           chain->lane, chain->index))
        return tutti_nomem(err);
    return 0;
}

/* LAST: `pieces` must be complete, and not finished before. */
static int finish(const struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                  struct tutti_pieces *pieces, struct tutti_err *err)
{
    const bool custom = proof->schedule->contract.collective == TUTTI_CUSTOM;
    char where[TUTTI_STEP_WHERE_BYTES];
    uint32_t missing = 0;

    for (size_t i = 0; i < pieces->count; i++) {
        struct tutti_piece *piece = &pieces->items[i];

        if (piece->last)
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: LAST a second time on byte %" PRIu64 " of its result",
                              tutti_dry_run_where(chain, where), piece->offset);
        /* Of a custom schedule a step alone does not say whose contributions make a whole. */
        if (!custom && tutti_rank_set_beyond(proof->all, piece->set, &missing))
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: LAST too early: byte %" PRIu64
                              " of its result lacks the contribution of rank %u",
                              tutti_dry_run_where(chain, where), piece->offset, missing);
        piece->last = true;
    }
    return 0;
}

/* Operands of a REDUCE are whole elements, nothing of them finished. */
static int valid_operand(const struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                         const struct tutti_pieces *pieces, struct tutti_err *err)
{
    uint64_t element_bytes =
        tutti_dtype_bytes(tutti_step_reduction(proof->schedule, chain->step).dtype);
    char where[TUTTI_STEP_WHERE_BYTES];

    for (size_t i = 0; i < pieces->count; i++) {
        const struct tutti_piece *piece = &pieces->items[i];

        if (piece->offset % element_bytes != 0 || piece->source % element_bytes != 0)
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: an operand is put together from pieces of elements at byte "
                              "%" PRIu64,
                              tutti_dry_run_where(chain, where), piece->offset);
        if (piece->last)
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: byte %" PRIu64 " of an operand is finished already (LAST)",
                              tutti_dry_run_where(chain, where), piece->offset);
    }
    return 0;
}

int tutti_proof_merge(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                      const struct tutti_piece *acc, const struct tutti_piece *src, uint64_t offset,
                      uint64_t end, struct tutti_pieces *ret, struct tutti_err *err)
{
    const struct tutti_step *step = chain->step;
    uint64_t acc_source = acc->source + (offset - acc->offset);
    uint64_t src_source = src->source + (offset - src->offset);
    const struct tutti_rank_set *set;
    char where[TUTTI_STEP_WHERE_BYTES];
    uint32_t twice = 0;

    if (acc_source != src_source)
        return tutti_fail(err, TUTTI_ECHECK,
                          "%s: at %s byte %" PRIu64 " it reduces byte %" PRIu64
                          " of the inputs with byte %" PRIu64,
                          tutti_dry_run_where(chain, where), tutti_buf_name(step->dst_buf),
                          step->dst_offset + offset, acc_source, src_source);
    if (tutti_rank_set_meet(acc->set, src->set, &twice))
        return tutti_fail(err, TUTTI_ECHECK,
                          "%s: contribution of rank %u to %s byte %" PRIu64 " counted twice",
                          tutti_dry_run_where(chain, where), twice, tutti_buf_name(step->dst_buf),
                          step->dst_offset + offset);
    set = tutti_rank_sets_join(proof->sets, acc->set, src->set);
    if (set == NULL ||
        !tutti_pieces_add(ret, (struct tutti_piece){offset, end, acc_source, set, false}))
        return tutti_nomem(err);
    return 0;
}

static int reduce(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                  struct tutti_err *err)
{
    const struct tutti_step *step = chain->step;
    size_t a = 0;
    size_t b = 0;
    int status = tutti_proof_read(proof, chain, step->acc_buf, step->acc_offset, chain->step->bytes,
                                  &proof->acc, err);

    if (status == 0)
        status = tutti_proof_read(proof, chain, step->src_buf, step->src_offset, chain->step->bytes,
                                  &proof->src, err);
    if (status == 0)
        status = valid_operand(proof, chain, &proof->acc, err);
    if (status == 0)
        status = valid_operand(proof, chain, &proof->src, err);
    proof->dst.count = 0;
    for (uint64_t at = 0; at < step->bytes && status == 0;) {
        const struct tutti_piece *acc = &proof->acc.items[a];
        const struct tutti_piece *src = &proof->src.items[b];
        uint64_t end = acc->end < src->end ? acc->end : src->end;

        status = tutti_proof_merge(proof, chain, acc, src, at, end, &proof->dst, err);
        a += acc->end == end;
        b += src->end == end;
        at = end;
    }
    if (status == 0 && (step->flags & TUTTI_STEP_LAST) != 0)
        status = finish(proof, chain, &proof->dst, err);
    if (status == 0 && chain->fused != NULL) /* the bytes need never have been stored */
        status = tutti_proof_write(proof, chain, step->src_buf, step->src_offset,
                                   chain->step->bytes, NULL, err);
    if (status == 0)
        status = tutti_proof_write(proof, chain, step->dst_buf, step->dst_offset,
                                   chain->step->bytes, &proof->dst, err);
    return status;
}

static int copy(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                struct tutti_err *err)
{
    const struct tutti_step *step = chain->step;
    int status = tutti_proof_read(proof, chain, step->src_buf, step->src_offset, chain->step->bytes,
                                  &proof->dst, err);

    if (status == 0 && (step->flags & TUTTI_STEP_LAST) != 0)
        status = finish(proof, chain, &proof->dst, err);
    if (status == 0)
        status = tutti_proof_write(proof, chain, step->dst_buf, step->dst_offset,
                                   chain->step->bytes, &proof->dst, err);
    return status;
}

static int send(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct tutti_pieces *pieces = proof->free_pieces;

    if (pieces != NULL)
        proof->free_pieces = pieces->next;
    else
        pieces = calloc(1, sizeof(*pieces));
    if (pieces == NULL)
        return tutti_nomem(err);
    message->payload = pieces;
    return tutti_proof_read(proof, chain, chain->step->src_buf, chain->step->src_offset,
                            chain->step->bytes, pieces, err);
}

static int prove_step(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                      struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct tutti_proof *proof = user;
    const struct tutti_step *step = chain->step;

    (void)run;
    switch (step->kind) {
    case TUTTI_SEND:
        return send(proof, chain, message, err);
    case TUTTI_RECV:
        return tutti_proof_write(proof, chain, step->dst_buf, step->dst_offset, chain->step->bytes,
                                 message->payload, err);
    case TUTTI_REDUCE:
        return reduce(proof, chain, err);
    case TUTTI_COPY:
        return copy(proof, chain, err);
    case TUTTI_COMPUTE:
        return tutti_proof_compute(proof, chain, err);
    default:
        return 0;
    }
}

static int prove_call(void *user, struct tutti_dry_run *run, struct tutti_dry_run_meeting *meeting,
                      struct tutti_err *err)
{
    (void)run;
    return tutti_proof_call(user, meeting, err);
}

static int prove_complete(void *user, struct tutti_dry_run *run,
                          struct tutti_dry_run_chain *receiver,
                          struct tutti_dry_run_message *message, struct tutti_err *err)
{
    struct tutti_proof *proof = user;
    struct tutti_pieces *pieces = message->payload;

    (void)run;
    (void)receiver;
    (void)err;
    pieces->next = proof->free_pieces;
    proof->free_pieces = pieces;
    return 0;
}

/* In place, the one buffer holds `in` from the beginning. */
static bool fill_in_place(struct tutti_proof *proof, uint32_t rank)
{
    const uint64_t bytes = proof->schedule->in_bytes;
    struct tutti_piece piece = {0, bytes, 0, proof->single[rank], false};
    const struct tutti_pieces in = {&piece, 1, 1, NULL};
    struct tutti_value_map *map = &proof->out[rank];
    uint64_t hole = 0;
    uint64_t at = 0;
    uint64_t out = 0;

    if (bytes == 0)
        return true;
    (void)tutti_in_place(proof->schedule, rank, &at, &out);
    proof->acc.count = 0;
    return tutti_value_write(map, at, at + bytes, &in, 0, 0) &&
           tutti_value_read(map, at, at + bytes, &proof->acc, &hole) > 0; /* it is nobody's write */
}

static int init(struct tutti_proof *proof, struct tutti_err *err)
{
    uint32_t n = proof->schedule->rank_count;

    proof->sets = tutti_rank_sets_new();
    proof->single = calloc(n, sizeof(*proof->single));
    proof->out = calloc(n, sizeof(*proof->out));
    proof->scratch = calloc(n, sizeof(*proof->scratch));
    proof->state = calloc(n, sizeof(*proof->state));
    if (proof->sets == NULL || proof->single == NULL || proof->out == NULL ||
        proof->scratch == NULL || proof->state == NULL)
        return tutti_nomem(err);
    proof->all = tutti_rank_sets_range(proof->sets, 0, n);
    for (uint32_t rank = 0; rank < n; rank++) {
        proof->single[rank] = tutti_rank_sets_range(proof->sets, rank, rank + 1);
        if (proof->all == NULL || proof->single[rank] == NULL ||
            (proof->in_place && !fill_in_place(proof, rank)))
            return tutti_nomem(err);
    }
    return proof->composed ? tutti_proof_init_work(proof, err) : 0;
}

static void done(struct tutti_proof *proof)
{
    struct tutti_pieces *pieces;

    for (uint32_t rank = 0; rank < proof->schedule->rank_count; rank++) {
        if (proof->out != NULL)
            free(proof->out[rank].items);
        if (proof->scratch != NULL)
            free(proof->scratch[rank].items);
        if (proof->state != NULL)
            free(proof->state[rank].items);
    }
    while ((pieces = proof->free_pieces) != NULL) {
        proof->free_pieces = pieces->next;
        free(pieces->items);
        free(pieces);
    }
    free(proof->acc.items);
    free(proof->src.items);
    free(proof->dst.items);
    free(proof->out);
    free(proof->scratch);
    free(proof->state);
    free(proof->work_source);
    free(proof->work_done);
    free(proof->wholes);
    free(proof->first_whole);
    free(proof->in_place_proved);
    free(proof->single);
    tutti_rank_sets_free(proof->sets);
}

/* After a failed run messages are still under way: their pieces go to the free list too. */
static void collect_payloads(struct tutti_proof *proof, const struct tutti_dry_run *run)
{
    for (uint32_t i = 0; i < run->chain_count; i++) {
        for (struct tutti_dry_run_message *m = run->chains[i].first_sent; m != NULL;
             m = m->next_sent) {
            struct tutti_pieces *pieces = m->payload;

            if (pieces == NULL)
                continue;
            pieces->next = proof->free_pieces;
            proof->free_pieces = pieces;
        }
    }
}

static int prove_data(struct tutti_proof *proof, struct tutti_err *err)
{
    static const struct tutti_dry_run_ops ops = {
        .step = prove_step, .complete = prove_complete, .call = prove_call};
    struct tutti_dry_run *run = NULL;
    int status = tutti_dry_run_new(proof->schedule, &run, err);

    if (status < 0)
        return status;
    status = init(proof, err);
    if (status == 0)
        status = tutti_dry_run_play(run, &ops, proof, err);
    if (status == 0)
        status = tutti_proof_final(proof, err);
    collect_payloads(proof, run);
    done(proof);
    tutti_dry_run_free(run);
    return status;
}

int tutti_prove_in_place(const struct tutti_schedule *flat, struct tutti_err *err)
{
    struct tutti_proof proof = {.schedule = flat, .in_place = true};

    return prove_data(&proof, err);
}

static int prove_barrier(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    int status = tutti_schedule_flatten(schedule, &flat, err);

    if (status == 0)
        status = tutti_clock_check(flat, true, err);
    tutti_schedule_free(flat);
    return status;
}

/* Each callee by itself, then the caller, whose calls do what they promise. */
static int prove_composed(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_proof proof = {.schedule = schedule, .composed = true};
    int status = 0;

    for (uint32_t i = 0; i < schedule->callee_count && status == 0; i++) {
        const struct tutti_schedule *callee = schedule->callees[i];

        status = tutti_schedule_prove(callee, err);
        if (status < 0)
            status = tutti_wrap(err, status, "callee '%s'", callee->name);
    }
    if (status == 0)
        status = prove_data(&proof, err);
    if (status == 0 && schedule->contract.collective == TUTTI_BARRIER)
        status = prove_barrier(schedule, err);
    return status;
}

static int prove_flat(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_proof proof = {.schedule = NULL};
    struct tutti_schedule *flat = NULL;
    int status = tutti_schedule_flatten(schedule, &flat, err);

    proof.schedule = flat;
    if (status == 0)
        status = prove_data(&proof, err);
    if (status == 0 && schedule->contract.collective == TUTTI_BARRIER)
        status = tutti_clock_check(flat, true, err);
    if (status < 0 && flat != NULL && schedule->callee_count > 0)
        status = tutti_wrap(err, status, "with its calls laid out");
    tutti_schedule_free(flat);
    return status;
}

int tutti_schedule_prove(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    if (schedule->axis_count + schedule->work_count > 0)
        return prove_composed(schedule, err);
    if (schedule->contract.collective == TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_EINVAL,
                          "schedule '%s' is custom: without a contract there is nothing to prove "
                          "(check it instead)",
                          schedule->name);
    return prove_flat(schedule, err);
}
