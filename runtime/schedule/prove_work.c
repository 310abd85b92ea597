/* The proof of a schedule with groups and work: a call gives each member what its contract says of
 * what the members brought, and a COMPUTE leaves contributions of its rank. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/schedule/prove.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/tables.h"
#include "runtime/status.h"

/* Bytes of the inputs count from 0, of state at the beginning from here, of work from there. */
static const uint64_t state_source = UINT64_C(1) << 62;
static const uint64_t work_source = UINT64_C(1) << 63;

/* ---- tables ---------------------------------------------------------------------------------- */

static uint64_t written_bytes(const struct tutti_work *work)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < work->write_count; i++)
        bytes += work->writes[i].bytes;
    return bytes;
}

/* How often the rank that does an entry most often does it. */
static void count_work(const struct tutti_schedule *s, uint32_t rank, uint32_t *done)
{
    for (uint32_t lane = 0; lane < s->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, s, rank, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            if (step->kind == TUTTI_COMPUTE && step->peer > 0)
                done[step->peer - 1]++;
    }
}

/* Sources of all that is ever written by work: entry after entry, each so often as it is done. */
static int place_work(struct tutti_proof *proof, struct tutti_err *err)
{
    const struct tutti_schedule *s = proof->schedule;
    uint64_t at = work_source;

    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        count_work(s, rank, proof->work_done + (size_t)rank * s->work_count);
    for (uint32_t i = 0; i < s->work_count; i++) {
        uint64_t most = 0;
        uint64_t bytes;

        for (uint32_t rank = 0; rank < s->rank_count; rank++) {
            uint32_t *done = &proof->work_done[(size_t)rank * s->work_count + i];

            most = most > *done ? most : *done;
            *done = 0;
        }
        proof->work_source[i] = at;
        if (__builtin_mul_overflow(written_bytes(&s->work[i]), most, &bytes) ||
            __builtin_add_overflow(at, bytes, &at))
            return tutti_fail(err, TUTTI_EINVAL,
                              "the work of schedule '%s' writes 2^63 bytes or more", s->name);
    }
    return 0;
}

/* State holds something of its rank's from the beginning. */
static int fill_state(struct tutti_proof *proof, struct tutti_err *err)
{
    struct tutti_buf_sizes sizes;
    uint64_t hole = 0;

    for (uint32_t rank = 0; rank < proof->schedule->rank_count; rank++) {
        struct tutti_piece piece = {0, 0, state_source, proof->single[rank], false};
        const struct tutti_pieces pieces = {&piece, 1, 1, NULL};

        tutti_schedule_buf_sizes(proof->schedule, rank, &sizes);
        piece.end = sizes.state_bytes;
        proof->acc.count = 0;
        if (piece.end > 0 &&
            (!tutti_value_write(&proof->state[rank], 0, piece.end, &pieces, 0, 0) ||
             tutti_value_read(&proof->state[rank], 0, piece.end, &proof->acc, &hole) < 1))
            return tutti_nomem(err);
    }
    return 0;
}

int tutti_proof_init_work(struct tutti_proof *proof, struct tutti_err *err)
{
    const struct tutti_schedule *s = proof->schedule;
    size_t group_count = 0;
    int status;

    proof->work_source = calloc(s->work_count + 1u, sizeof(*proof->work_source));
    proof->work_done = calloc((size_t)s->rank_count * s->work_count + 1, sizeof(*proof->work_done));
    proof->first_whole = calloc(s->axis_count + 1u, sizeof(*proof->first_whole));
    proof->in_place_proved = calloc(s->callee_count + 1u, sizeof(*proof->in_place_proved));
    if (proof->work_source == NULL || proof->work_done == NULL || proof->first_whole == NULL ||
        proof->in_place_proved == NULL)
        return tutti_nomem(err);
    for (uint32_t axis = 0; axis <= s->axis_count; axis++) {
        struct tutti_axis rule = tutti_schedule_axis(s, axis);

        proof->first_whole[axis] = group_count;
        group_count += tutti_axis_group_count(&rule);
    }
    proof->wholes = calloc(group_count, sizeof(*proof->wholes));
    if (proof->wholes == NULL)
        return tutti_nomem(err);
    status = place_work(proof, err);
    return status < 0 ? status : fill_state(proof, err);
}

/* The ranks of the group that `rank` is in; NULL: no memory. */
static const struct tutti_rank_set *whole_of(struct tutti_proof *proof, uint32_t number,
                                             uint32_t rank)
{
    struct tutti_axis axis = tutti_schedule_axis(proof->schedule, number);
    const struct tutti_rank_set **whole;
    uint32_t group = 0;
    uint32_t member = 0;

    if (number == 0)
        return proof->all;
    (void)tutti_axis_find(&axis, rank, &group, &member); /* it is in one: tutti_step_valid */
    whole = &proof->wholes[proof->first_whole[number] + group];
    if (*whole != NULL)
        return *whole;
    *whole = proof->single[tutti_axis_rank(&axis, group, 0)];
    for (uint32_t i = 1; i < axis.size && *whole != NULL; i++)
        *whole = tutti_rank_sets_join(proof->sets, *whole,
                                      proof->single[tutti_axis_rank(&axis, group, i)]);
    return *whole;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* A region that must be whole: reduced over all members of the group, no more and no less. */
static int demand_whole(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                        const struct tutti_region *at, struct tutti_err *err)
{
    const struct tutti_axis axis = tutti_schedule_axis(proof->schedule, at->whole - 1u);
    const struct tutti_rank_set *whole = whole_of(proof, at->whole - 1u, chain->rank);
    char where[TUTTI_STEP_WHERE_BYTES];
    uint32_t rank = 0;

    if (whole == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < proof->src.count; i++) {
        const struct tutti_piece *piece = &proof->src.items[i];
        const char *problem = NULL;

        if (tutti_rank_set_beyond(whole, piece->set, &rank))
            problem = "lacks the contribution of";
        else if (tutti_rank_set_beyond(piece->set, whole, &rank))
            problem = "holds a contribution that does not belong there, of";
        if (problem != NULL)
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: %s byte %" PRIu64
                              " is to be whole over axis '%s' and %s rank %u",
                              tutti_dry_run_where(chain, where), tutti_buf_name(at->buf),
                              at->offset + piece->offset, axis.name, problem, rank);
        if (!piece->last && axis.size > 1)
            return tutti_fail(err, TUTTI_ECHECK,
                              "%s: %s byte %" PRIu64 " is to be whole over axis '%s' and no step "
                              "flagged LAST has finished it",
                              tutti_dry_run_where(chain, where), tutti_buf_name(at->buf),
                              at->offset + piece->offset, axis.name);
    }
    return 0;
}

static int read_regions(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                        const struct tutti_work *work, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < work->read_count && status == 0; i++) {
        struct tutti_region at = tutti_region_at(&work->reads[i], chain->step);

        status = tutti_proof_read(proof, chain, at.buf, at.offset, at.bytes, &proof->src, err);
        if (status == 0 && at.whole > 0)
            status = demand_whole(proof, chain, &at, err);
    }
    return status;
}

int tutti_proof_compute(struct tutti_proof *proof, const struct tutti_dry_run_chain *chain,
                        struct tutti_err *err)
{
    const struct tutti_schedule *s = proof->schedule;
    const uint32_t index = chain->step->peer - 1;
    const struct tutti_work *work;
    uint64_t source;
    int status;

    if (chain->step->peer == 0)
        return 0;
    work = &s->work[index];
    status = read_regions(proof, chain, work, err);
    source = proof->work_source[index] +
             proof->work_done[(size_t)chain->rank * s->work_count + index]++ * written_bytes(work);
    for (uint32_t i = 0; i < work->write_count && status == 0; i++) {
        struct tutti_region at = tutti_region_at(&work->writes[i], chain->step);
        struct tutti_piece piece = {0, at.bytes, source, proof->single[chain->rank], false};
        const struct tutti_pieces pieces = {&piece, 1, 1, NULL};

        source += at.bytes;
        if (at.bytes > 0)
            status = tutti_proof_write(proof, chain, at.buf, at.offset, at.bytes, &pieces, err);
    }
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the members of a group bring to a call, and what it makes of that. */
struct gathering {
    struct tutti_proof *proof;
    const struct tutti_dry_run_meeting *meeting;
    const struct tutti_schedule *callee;
    struct tutti_pieces *in; /* [member] */
    struct tutti_pieces sum; /* of all */
    struct tutti_pieces out; /* of one member */
};

static bool reads_in(const struct gathering *g, uint32_t member)
{
    const struct tutti_contract *c = &g->callee->contract;

    return c->collective != TUTTI_BARRIER &&
           (c->collective != TUTTI_BROADCAST || member == c->root);
}

static int bring(struct gathering *g, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < g->meeting->axis.size && status == 0; i++) {
        const struct tutti_dry_run_chain *chain = g->meeting->members[i];

        if (reads_in(g, i))
            status = tutti_proof_read(g->proof, chain, chain->step->src_buf,
                                      chain->step->src_offset, g->callee->in_bytes, &g->in[i], err);
    }
    return status;
}

/* sum += in[member]; what earlier calls have finished counts as the contributions that it is of. */
static int add_member(struct gathering *g, uint32_t member, struct tutti_err *err)
{
    struct tutti_pieces before = g->sum;
    size_t a = 0;
    size_t b = 0;
    int status = 0;

    g->sum = g->out;
    g->sum.count = 0;
    for (uint64_t at = 0; at < g->callee->in_bytes && status == 0;) {
        const struct tutti_piece *acc = &before.items[a];
        const struct tutti_piece *src = &g->in[member].items[b];
        uint64_t end = acc->end < src->end ? acc->end : src->end;

        status = tutti_proof_merge(g->proof, g->meeting->members[member], acc, src, at, end,
                                   &g->sum, err);
        a += acc->end == end;
        b += src->end == end;
        at = end;
    }
    g->out = before;
    return status;
}

/* Appends bytes [from, from + bytes) of `pieces`. False: no memory. */
static bool append(struct tutti_pieces *to, const struct tutti_pieces *pieces, uint64_t from,
                   uint64_t bytes)
{
    uint64_t base = to->count == 0 ? 0 : to->items[to->count - 1].end;

    for (size_t i = 0; i < pieces->count; i++) {
        struct tutti_piece piece = pieces->items[i];

        if (piece.end <= from || piece.offset >= from + bytes)
            continue;
        if (piece.offset < from) {
            piece.source += from - piece.offset;
            piece.offset = from;
        }
        piece.end = piece.end < from + bytes ? piece.end : from + bytes;
        piece.offset += base - from;
        piece.end += base - from;
        if (!tutti_pieces_add(to, piece))
            return false;
    }
    return true;
}

static int sum_up(struct gathering *g, struct tutti_err *err)
{
    int status = append(&g->sum, &g->in[0], 0, g->callee->in_bytes) ? 0 : tutti_nomem(err);

    for (uint32_t i = 1; i < g->meeting->axis.size && status == 0; i++)
        status = add_member(g, i, err);
    for (size_t i = 0; i < g->sum.count; i++)
        g->sum.items[i].last = true;
    return status;
}

/* What member `i` gets, into g->out. False: no memory. */
static bool result_of(struct gathering *g, uint32_t i)
{
    const uint32_t n = g->meeting->axis.size;
    const uint64_t in_bytes = g->callee->in_bytes;
    bool done = true;

    g->out.count = 0;
    switch (g->callee->contract.collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE_TO_ROOT:
        return append(&g->out, &g->sum, 0, in_bytes);
    case TUTTI_REDUCESCATTER:
        return append(&g->out, &g->sum, i * (in_bytes / n), in_bytes / n);
    case TUTTI_BROADCAST:
        return append(&g->out, &g->in[g->callee->contract.root], 0, in_bytes);
    case TUTTI_SENDRECV:
        return append(&g->out, &g->in[(i + n - 1) % n], 0, in_bytes);
    case TUTTI_ALLGATHER:
        for (uint32_t j = 0; j < n && done; j++)
            done = append(&g->out, &g->in[j], 0, in_bytes);
        return done;
    case TUTTI_ALLTOALL:
        for (uint32_t j = 0; j < n && done; j++)
            done = append(&g->out, &g->in[j], i * (in_bytes / n), in_bytes / n);
        return done;
    default:
        return true;
    }
}

static int take_home(struct gathering *g, struct tutti_err *err)
{
    const struct tutti_contract *c = &g->callee->contract;
    int status = 0;

    for (uint32_t i = 0; i < g->meeting->axis.size && status == 0; i++) {
        const struct tutti_dry_run_chain *chain = g->meeting->members[i];
        const struct tutti_step *step = chain->step;

        if (c->collective == TUTTI_BARRIER ||
            (c->collective == TUTTI_REDUCE_TO_ROOT && i != c->root))
            continue;
        if (!result_of(g, i))
            return tutti_nomem(err);
        status = tutti_proof_write(g->proof, chain, step->dst_buf, step->dst_offset,
                                   g->callee->out_bytes, &g->out, err);
        if (status == 0)
            status = tutti_proof_write(g->proof, chain, TUTTI_BUF_SCRATCH, step->acc_offset,
                                       g->callee->scratch_bytes, NULL, err);
    }
    return status;
}

/* Whether a member lends one place for in and out; other overlaps than in place are refused. */
static int find_in_place(const struct gathering *g, uint32_t member, bool *ret,
                         struct tutti_err *err)
{
    const struct tutti_dry_run_chain *chain = g->meeting->members[member];
    const struct tutti_step *step = chain->step;
    uint64_t in = 0;
    uint64_t out = 0;
    char where[TUTTI_STEP_WHERE_BYTES];

    if (step->src_buf != step->dst_buf || g->callee->in_bytes == 0 || g->callee->out_bytes == 0 ||
        step->src_offset >= step->dst_offset + g->callee->out_bytes ||
        step->dst_offset >= step->src_offset + g->callee->in_bytes)
        return 0;
    *ret = true;
    if (tutti_in_place(g->callee, member, &in, &out) &&
        step->dst_offset + in == step->src_offset + out)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: the callee's in and out overlap otherwise than in place (all-reduce, "
                      "reduce, broadcast: the same; all-gather: in is the rank's block of out; "
                      "reduce-scatter: out is its block of in)",
                      tutti_dry_run_where(chain, where));
}

/* Callees were proved with in and out apart; those that are called in place are so once more. */
static int prove_places(const struct gathering *g, struct tutti_err *err)
{
    bool *proved = &g->proof->in_place_proved[g->meeting->members[0]->step->peer];
    bool in_place = false;
    int status = 0;

    for (uint32_t i = 0; i < g->meeting->axis.size && status == 0; i++)
        status = find_in_place(g, i, &in_place, err);
    if (status == 0 && in_place && !*proved && g->callee->rank_count > 1) {
        status = tutti_prove_in_place(g->callee, err);
        *proved = status == 0;
        if (status < 0)
            status = tutti_wrap(err, status, "callee '%s' in place", g->callee->name);
    }
    return status;
}

int tutti_proof_call(struct tutti_proof *proof, const struct tutti_dry_run_meeting *meeting,
                     struct tutti_err *err)
{
    struct gathering g = {
        .proof = proof,
        .meeting = meeting,
        .callee = proof->schedule->callees[meeting->members[0]->step->peer],
        .in = calloc(meeting->axis.size, sizeof(*g.in)),
    };
    int status = g.in == NULL ? tutti_nomem(err) : prove_places(&g, err);

    if (status == 0)
        status = bring(&g, err);
    if (status == 0 && tutti_collective_reduces(g.callee->contract.collective))
        status = sum_up(&g, err);
    if (status == 0)
        status = take_home(&g, err);
    for (uint32_t i = 0; i < meeting->axis.size && g.in != NULL; i++)
        free(g.in[i].items);
    free(g.in);
    free(g.sum.items);
    free(g.out.items);
    return status;
}
