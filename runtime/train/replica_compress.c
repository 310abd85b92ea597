/* What a rank sends instead of its gradients, and what it keeps of them until the next step.
 *
 * What is left out (error feedback) is not scaled by the loss scale. It is worked out beside what
 * the last step has left out, and takes its place once all know that the step is not skipped: a
 * step that is skipped leaves nothing behind.
 *
 * POWER_SGD (Vogels, Karimireddy & Jaggi 2019, algorithm 1): with M a rank's gradient and what was
 * left out, P = sum of M Q, made orthonormal; Q = sum of M^T P; the sum of all M is about P Q^T, of
 * which an n-th is taken from each rank's M, as PyTorch's powerSGD_hook.py does: the sum of what
 * ranks have left out, on which alone the next step depends, is that of algorithm 2. */
#include <assert.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/train/compress.h"
#include "runtime/train/replica.h"

static float *at(const struct tutti_work_call *call, uint64_t offset)
{
    return (float *)(void *)((char *)call->scratch + offset);
}

/* Gradients, and what was left out before. */
static void add_left_out(const struct tutti_replica *r, uint64_t first, const float *gradients,
                         uint64_t count)
{
    const float scale = (float)tutti_loss_scale_of(&r->scale);
    const float *before = r->left_out + first;
    float *to = r->left_out_next + first;

    for (uint64_t i = 0; i < count; i++)
        to[i] = gradients[i] + scale * before[i];
}

static void unscale(const struct tutti_replica *r, uint64_t first, uint64_t count)
{
    const float scale = (float)tutti_loss_scale_of(&r->scale);
    float *values = r->left_out_next + first;

    if (r->layout->plan.strategy->forgets)
        memset(values, 0, count * sizeof(*values));
    for (uint64_t i = 0; i < count && scale > 1; i++)
        values[i] /= scale;
}

/* ---- the largest ---- */

static void keep_largest(struct tutti_replica *r, const struct tutti_plan_pack *p,
                         const struct tutti_work_call *call)
{
    float *values = at(call, p->sent_offset);
    uint32_t *indices = (uint32_t *)(void *)(values + p->kept);
    float *rest = r->left_out_next + p->first;

    add_left_out(r, p->first, at(call, p->offset), p->elements);
    tutti_top_k(rest, p->elements, p->kept, values, indices);
    for (uint64_t i = 0; i < p->kept; i++)
        rest[indices[i]] = 0;
    unscale(r, p->first, p->elements);
}

/* Rank after rank. */
static void add_largest(const struct tutti_layout *l, const struct tutti_plan_pack *p,
                        const struct tutti_work_call *call)
{
    float *sum = at(call, p->offset);

    memset(sum, 0, p->elements * sizeof(*sum));
    for (uint32_t rank = 0; rank < l->params.rank_count; rank++) {
        const float *values = at(call, p->result_offset) + rank * p->sent[0];

        tutti_top_k_add(sum, values, (const uint32_t *)(const void *)(values + p->kept), p->kept);
    }
}

/* ---- factors ---- */

static void make_first(struct tutti_replica *r, const struct tutti_plan_pack *p,
                       const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    const float *gradients = at(call, p->offset);
    float *sent = at(call, p->sent_offset);

    add_left_out(r, p->first, gradients, p->elements);
    for (uint32_t i = p->first_variable; i <= p->last_variable; i++) {
        const struct tutti_plan_matrix *m = &plan->matrices[i];

        if (m->columns > 0)
            tutti_factor_first(r->left_out_next + m->first, m->rows, m->columns,
                               plan->strategy->factor_rank, r->factors + m->factor,
                               sent + m->sent[0]);
        else
            memcpy(sent + m->sent[0], gradients + (m->first - p->first),
                   m->elements * sizeof(float));
    }
}

static void make_second(const struct tutti_replica *r, const struct tutti_plan_pack *p,
                        const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    float *first = at(call, p->result_offset);
    float *sent = at(call, p->sent_offset) + p->sent[0];

    for (uint32_t i = p->first_variable; i <= p->last_variable; i++) {
        const struct tutti_plan_matrix *m = &plan->matrices[i];

        if (m->columns == 0)
            continue;
        tutti_orthogonalize(first + m->sent[0], m->rows, plan->strategy->factor_rank);
        tutti_factor_second(r->left_out_next + m->first, m->rows, m->columns,
                            plan->strategy->factor_rank, first + m->sent[0], sent + m->sent[1]);
    }
}

static void multiply(struct tutti_replica *r, const struct tutti_plan_pack *p,
                     const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    const float part = 1 / (float)plan->params.rank_count;
    const float *first = at(call, p->result_offset);
    const float *second = first + p->sent[0];

    for (uint32_t i = p->first_variable; i <= p->last_variable; i++) {
        const struct tutti_plan_matrix *m = &plan->matrices[i];
        float *to = at(call, p->offset) + (m->first - p->first);
        float *rest = r->left_out_next + m->first;

        if (m->columns == 0) {
            memcpy(to, first + m->sent[0], m->elements * sizeof(float));
            memset(rest, 0, m->elements * sizeof(float));
            continue;
        }
        tutti_factor_product(first + m->sent[0], second + m->sent[1], m->rows, m->columns,
                             plan->strategy->factor_rank, to);
        for (uint64_t k = 0; k < m->elements; k++)
            rest[k] -= part * to[k];
    }
    unscale(r, p->first, p->elements);
}

/* The second factors are what the next step begins with. */
static void adopt_factors(struct tutti_replica *r, const struct tutti_plan_pack *p,
                          const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    const uint32_t rank = plan->strategy->factor_rank;
    const float *second = at(call, p->result_offset) + p->sent[0];

    for (uint32_t i = p->first_variable; i <= p->last_variable; i++) {
        const struct tutti_plan_matrix *m = &plan->matrices[i];

        if (m->columns == 0)
            continue;
        memcpy(r->factors + m->factor, second + m->sent[1], m->columns * rank * sizeof(float));
        tutti_factor_renew(r->factors + m->factor, m->columns, rank,
                           tutti_random_hash(r->layout->params.seed, i, r->update_count, 1));
    }
}

/* ---- all ---- */

void tutti_replica_compress(struct tutti_replica *r, uint32_t entry,
                            const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    const struct tutti_plan_pack *p = &plan->packs[entry / TUTTI_PLAN_COMPRESSIONS];
    const bool factors = plan->strategy->compression == TUTTI_COMPRESS_POWER_SGD;

    assert(p->compressed);
    switch (entry % TUTTI_PLAN_COMPRESSIONS) {
    case TUTTI_PLAN_COMPRESS:
        (factors ? make_first : keep_largest)(r, p, call);
        break;
    case TUTTI_PLAN_ORTHOGONALIZE:
        make_second(r, p, call);
        break;
    default:
        if (factors)
            multiply(r, p, call);
        else
            add_largest(r->layout, p, call);
    }
}

void tutti_replica_keep_left_out(struct tutti_replica *r, const struct tutti_work_call *call)
{
    const struct tutti_plan *plan = &r->layout->plan;
    float *before = r->left_out;

    if (before == NULL)
        return;
    r->left_out = r->left_out_next;
    r->left_out_next = before;
    for (uint32_t i = 0; i < plan->pack_count && r->factors != NULL; i++)
        if (plan->packs[i].compressed)
            adopt_factors(r, &plan->packs[i], call);
}

void tutti_replica_begin_factors(struct tutti_replica *r)
{
    const struct tutti_plan *plan = &r->layout->plan;
    uint32_t count = r->layout->first_place[plan->layer_count];

    for (uint32_t i = 0; i < count && r->factors != NULL; i++)
        if (plan->matrices[i].columns > 0)
            tutti_factor_renew(r->factors + plan->matrices[i].factor, plan->matrices[i].columns,
                               plan->strategy->factor_rank,
                               tutti_random_hash(r->layout->params.seed, i, 0, 0));
}
